"""The names of earlier versions, by which files are read and others call us: all of them are still there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import forewarn
from tests.compatibility import names
from tests.compatibility.comparing import stored
from tests.compatibility.write import RECORDED


@pytest.fixture(scope="module")
def present() -> Any:
    return msgspec.json.decode(msgspec.json.encode(names.names()))


KINDS = sorted({kind for path in RECORDED.glob("[0-9]*/names.json") for kind in stored(path)})


def gone(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """Yield the names that are no longer there; new ones do no harm."""
    if isinstance(before, dict):
        for key, value in before.items():
            if key in now:
                yield from gone(value, now[key], f"{place}/{key}")
            else:
                yield f"{place}/{key}"
    elif isinstance(before, list):
        yield from (f"{place}: {each}" for each in before if each not in now)
    elif before != now:
        yield f"{place}: {before}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_is_still_there(recorded: Path, present: Any, kind: str) -> None:
    """Records on disk, API, settings, commands, exit codes, metrics, plugins, client, fixtures and scenarios."""
    assert [*gone(stored(recorded / "names.json").get(kind, {}), present[kind])] == []


def test_a_record_needs_nothing_that_it_did_not_need(recorded: Path, present: Any) -> None:
    """A field that was added later has a default, else what was written before could not be read."""
    for kind, tags in stored(recorded / "names.json")["records"].items():
        for tag, before in tags.items():
            now = present["records"][kind][tag]
            new = set(now["needed"]) - set(before["needed"])

            assert {field for field in new if field in before["fields"] or "." not in field} == set(), (kind, tag)


def test_the_present_version_is_recorded() -> None:
    """A version that leaves nothing here could not be held to it later: python -m tests.compatibility.write."""
    assert (RECORDED / forewarn.__version__).is_dir()
