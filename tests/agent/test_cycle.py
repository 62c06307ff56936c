"""The real agent process against the real service, from the warning to the putting back, killed at every step."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forewarn.agent.runtime.memory_file import MemoryFile
from forewarn.core.model import EventStatus
from forewarn.emulator import Emulator
from forewarn.emulator.handles import EventHandle

pytestmark = pytest.mark.end_to_end

STEPS = 10
"""What an agent with two handlers keeps in one cycle: shown, twice begun and ended, approved, perhaps started, gone,
twice undone; the last keeps that all is forgotten. Some come together, so that there are at least so many."""
PATIENCE = 90.0


def configuration(directory: Path, url: str) -> Path:
    log = directory / "log"
    handlers = "".join(
        f"""
[handlers.{name}]
kind = "command"
do = ["sh", "-c", "echo do {name} >> {log}"]
undo = ["sh", "-c", "echo undo {name} >> {log}"]
"""
        for name in ("first", "second")
    )
    path = directory / "agent.toml"
    path.write_text(f"""
url = "{url}"
name = "web-0"
state = "{directory / "state"}"
socket = "off"
http = "off"

[[rules]]
handlers = ["first", "second"]
{handlers}
""")
    return path


@contextmanager
def agent(config: Path, *dying: str) -> Iterator["subprocess.Popen[str]"]:
    module = ("tests.agent.dying", *dying) if dying else ("forewarn", "agent", "--config")
    with subprocess.Popen(
        [sys.executable, "-m", *module, str(config)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def remembered(directory: Path) -> int:
    """Count the events that the agent has not forgotten."""
    path = directory / "state" / "memory"
    if not path.exists():
        return 0
    copy = directory / "copy"
    copy.write_bytes(path.read_bytes())
    file = MemoryFile(copy)
    file.open()
    file.close()
    return len(file.memory.events)


def let_happen(emulator: Emulator, event: EventHandle, is_enough: Callable[[], bool]) -> None:
    """Wait, and let the event be over as soon as it has started."""
    end = time.monotonic() + PATIENCE
    while not is_enough():
        assert time.monotonic() < end
        if event.status is EventStatus.STARTED:
            emulator.advance("30m")
        time.sleep(0.02)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, STEPS + 1))
def test_a_cycle_is_whole_wherever_the_agent_is_killed(tmp_path: Path, number: int, moment: str) -> None:
    """Each handler is done once and undone once; only a call that was cut off is made once more."""
    with Emulator("web-0", clock="system") as emulator:
        config = configuration(tmp_path, emulator.url_of("web-0"))
        # The service announces nothing to a VM that nobody listens in, so somebody must have asked once.
        with agent(config, str(number), moment) as first:
            assert emulator.wait_for(lambda: bool(emulator.requests), PATIENCE)
            event = emulator.vm("web-0").reboot()
            let_happen(emulator, event, lambda: first.poll() is not None)
            said, complaints = first.communicate(timeout=PATIENCE)
        assert first.returncode == -9, complaints
        with agent(config) as second:
            let_happen(emulator, event, lambda: event.is_over and not remembered(tmp_path))
            second.terminate()
            _, complaints = second.communicate(timeout=PATIENCE)
        assert second.returncode == 0, complaints
        assert event.status is EventStatus.COMPLETED

    done = (tmp_path / "log").read_text().splitlines()
    cut_off = {
        "do first": "ended first do",
        "do second": "ended second do",
        "undo first": "ended first undo",
        "undo second": "ended second undo",
    }
    for deed, ending in cut_off.items():
        was_cut_off = moment == "before" and ending in said.splitlines()
        assert done.count(deed) == 1 + was_cut_off, (said, done)
    assert list(dict.fromkeys(done)) == ["do first", "do second", "undo second", "undo first"]


def test_an_agent_that_is_not_killed_keeps_as_much_as_is_tried_above(tmp_path: Path) -> None:
    """So that every step is between two of the kills."""
    with Emulator("web-0", clock="system") as emulator:
        config = configuration(tmp_path, emulator.url_of("web-0"))
        with agent(config, "1000", "after") as process:
            assert emulator.wait_for(lambda: bool(emulator.requests), PATIENCE)
            event = emulator.vm("web-0").reboot()
            let_happen(emulator, event, lambda: event.is_over and not remembered(tmp_path))
            process.terminate()
            process.communicate(timeout=PATIENCE)
    lines = (tmp_path / "state" / "memory").read_bytes().count(b"\n")

    assert STEPS <= lines - 1 <= STEPS + 4
