"""A control plane that answers, and the command line that speaks to it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forewarn.cli.root import run
from tests.harness import ApiHarness, open_harness


class Ran(msgspec.Struct, frozen=True):
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Forewarn = Callable[..., Ran]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ApiHarness]:
    with open_harness(tmp_path) as harness:
        yield harness


@pytest.fixture
def forewarn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forewarn:
    """Run a command in a directory of its own, which is its data directory too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREWARN_DATA", str(tmp_path))

    def ran(*arguments: str) -> Ran:
        code = run(list(arguments))
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return ran
