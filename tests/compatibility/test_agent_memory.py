"""Memory files that the agents of earlier versions wrote."""

import shutil
import zlib
from pathlib import Path

import msgspec
import pytest

from forewarn.agent.decision.facts import AgentFact
from tests.compatibility.comparing import differences, stored
from tests.compatibility.memories import NAMES, read


def facts(recorded: Path) -> list[bytes]:
    """Return the lines of facts, of a file before and after a restart of the agent."""
    files = ((recorded / "agent" / name).read_bytes().splitlines() for name in ("memory-young", "memory"))
    return [line for _, *lines in files for line in lines]


@pytest.mark.parametrize("name", NAMES)
def test_a_memory_is_opened_as_it_was(recorded: Path, tmp_path: Path, name: str) -> None:
    """A whole file, one with a torn end and a damaged one hold what they held."""
    shutil.copyfile(recorded / "agent" / name, tmp_path / name)

    assert differences(stored(recorded / "memories.json")[name], read(tmp_path / name)) == []


def test_an_opened_memory_is_begun_anew_with_the_same_names(recorded: Path, tmp_path: Path) -> None:
    """The file that is begun anew says the same, and can be opened again."""
    shutil.copyfile(recorded / "agent" / "memory", tmp_path / "memory")
    read(tmp_path / "memory")
    begun_anew = (tmp_path / "memory").read_bytes()
    known = stored(recorded / "memories.json")["memory"]["memory"]

    assert differences(known, msgspec.json.decode(begun_anew[9:])["memory"]) == []
    assert differences(known, read(tmp_path / "memory")["memory"]) == []


def test_every_fact_is_written_again_as_it_was(recorded: Path) -> None:
    """A line that is decoded and encoded has the same bytes and the same checksum."""
    for line in facts(recorded):
        again = msgspec.json.encode(msgspec.json.decode(line[9:], type=AgentFact))

        assert b"%08x %b" % (zlib.crc32(again), again) == line


def test_every_fact_is_recorded(recorded: Path) -> None:
    """What the other tests here compare leaves out no kind of fact of that version."""
    known = stored(recorded / "names.json")["records"]["agent fact"]

    assert {msgspec.json.decode(line[9:])["type"] for line in facts(recorded)} == known.keys()
