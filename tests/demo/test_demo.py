"""`make demo` as a person runs it: its claims hold, and whatever becomes of it, nothing of it is left."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Timer
from time import sleep
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parents[2]
PATIENCE = 600
MAKE_WORLD = "mount -t tmpfs tmpfs /run && echo ready && exec cat"


class Remains(NamedTuple):
    """What is there beside the demo, or after it."""

    namespaces: str
    links: str
    rules: str
    files: list[str]
    run: list[str]
    mounts: list[str]
    processes: list[str]


class DemoHarness:
    """A network without anything in it, and a directory for temporary files, so that every trace can be seen."""

    def __init__(self, keeper: int, directory: Path) -> None:
        self._enter = ["nsenter", f"--target={keeper}", "--net", "--mount", f"--wd={ROOT}"]
        self._directory = directory
        self._mark = f"DEMO_TEST={token_hex(8)}"
        self._begun: list[subprocess.Popen[str]] = []

    def begin(self, *options: str) -> subprocess.Popen[str]:
        """Start the demo; every process of it carries a mark of ours."""
        name, _, value = self._mark.partition("=")
        demo = subprocess.Popen(
            [*self._enter, sys.executable, "-m", "demo", *options],
            env={**os.environ, "TMPDIR": str(self._directory), "PYTHONUNBUFFERED": "1", name: value},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        self._begun.append(demo)
        return demo

    def close(self) -> None:
        """End what a demo left that failed, or was never read to its end: it would be found by other tests."""
        for demo in self._begun:
            with demo:
                demo.kill()
        while processes := self._processes():
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
            sleep(0.02)

    def remains(self) -> Remains:
        return Remains(
            self._run("ip", "netns", "list"),
            self._run("ip", "-oneline", "link"),
            self._run("nft", "list", "ruleset"),
            [path.name for path in self._directory.iterdir()],
            self._run("ls", "/run").split(),
            [line.split()[1] for line in self._run("cat", "/proc/mounts").splitlines()],
            self._processes(),
        )

    def _processes(self) -> list[str]:
        return [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if self._mark in _environment(path)]

    def _run(self, *words: str) -> str:
        return subprocess.run([*self._enter, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def harness() -> Iterator[DemoHarness]:
    # The paths of sockets must be short.
    with (
        tempfile.TemporaryDirectory(prefix="w") as name,
        subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-c", MAKE_WORLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as keeper,
    ):
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == "ready\n"
        harness = DemoHarness(keeper.pid, Path(name))
        yield harness
        harness.close()
        assert keeper.stdin is not None
        keeper.stdin.close()


def test_every_claim_holds_and_nothing_is_left(harness: DemoHarness) -> None:
    """Guests are rebooted, frozen, moved, evicted, and their hosts rebooted, each claim checked; then all is gone."""
    before = harness.remains()

    demo = harness.begin()
    said, _ = demo.communicate(timeout=PATIENCE)

    assert demo.returncode == 0, said
    claims = re.findall(r"^  ✓ (.*)$", said, re.MULTILINE)
    assert f"All {len(claims)} claims held" in said
    result = "\n".join(claims)
    (boots,) = re.findall(r"boot id changed (\w{4}) → (\w{4})", result)
    assert boots[0] != boots[1]
    gaps = [float(gap) for gap in re.findall(r"shows a gap of ([\d.]+) s", result)]
    assert [seconds - 0.5 < gap < seconds + 5 for gap, seconds in zip(gaps, (5, 3, 3, 3), strict=True)] == [True] * 4
    assert "it runs on h2 now, not on h1" in result
    (order,) = re.findall(r"never two update domains at once: (.*)", result)
    assert sorted(order.split(", then ")) == ["web-0", "web-1", "web-2"]
    assert "and nobody approved" in result
    assert "its machine is gone" in result
    assert re.findall(r"(h\d) was rebooted once, and no guest was on it", result) == ["h1", "h2"]
    assert re.findall(r"(\S+) answered pings all the time", result) == ["web-0", "web-2"]
    assert result.count("stayed: ") == 6
    assert "Nothing is left behind" in said
    assert harness.remains() == before


def test_an_interruption_half_way_leaves_nothing(harness: DemoHarness) -> None:
    """Ctrl-C, pressed by somebody impatient, ends the demo with its own words, and with all that it made."""
    before = harness.remains()
    demo = harness.begin()
    said = _read_until(demo, "web-0 says: I am ready")

    demo.send_signal(signal.SIGINT)
    demo.send_signal(signal.SIGINT)

    rest, _ = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 130, said + rest
    assert re.search(r"^Interrupted\.\n(.+\n)*Nothing is left behind", rest, re.MULTILINE), rest
    assert "Traceback" not in said + rest
    assert harness.remains() == before


def test_a_failure_half_way_is_said_and_leaves_nothing(harness: DemoHarness) -> None:
    """A machine dies that should not: one sentence says which, the exit code is 1, and the rest is taken away."""
    before = harness.remains()
    demo = harness.begin()
    said = _read_until(demo, "forewarn serve answers")

    (machine,) = (process for process in harness.remains().processes if b"\0web-1\0" in _command(process))
    os.kill(int(machine), signal.SIGKILL)

    rest, _ = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 1, said + rest
    assert "The demo failed: the machine of web-1 has ended, though nobody asked for it.\n" in rest
    assert "Traceback" not in said + rest
    assert harness.remains() == before


def test_what_a_killed_demo_left_is_taken_away_by_the_next(harness: DemoHarness) -> None:
    """It had no time to do it itself; nothing of anybody else's is touched."""
    before = harness.remains()
    killed = harness.begin()
    _read_until(killed, "forewarn serve answers")
    killed.kill()
    killed.communicate()
    assert harness.remains() != before

    demo = harness.begin()
    said = _read_until(demo, "a network of its own")
    demo.send_signal(signal.SIGINT)
    rest, _ = demo.communicate(timeout=PATIENCE)
    assert "Nothing is left behind" in rest, said + rest
    assert harness.remains() == before


def test_guests_that_stay_are_there_to_be_played_with(harness: DemoHarness) -> None:
    """What it says to type works in another terminal; Ctrl-C is the way out, and no failure."""
    before = harness.remains()
    demo = harness.begin("--stay")
    said = _read_until(demo, "event show last")

    (data,) = re.findall(r"export FOREWARN_DATA=(\S+)", said)
    (restart,) = re.findall(r"(\S+ vm restart web-0)", said)
    result = subprocess.run(
        restart.split(), env={**os.environ, "FOREWARN_DATA": data}, check=True, capture_output=True, text=True
    )
    assert result.stdout.startswith("web-0 will restart at ")
    said += _read_until(demo, "web-0 says: I read: Reboot for me")
    demo.send_signal(signal.SIGINT)

    rest, _ = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 0, said + rest
    assert re.search(r"^It is over\.\n(.+\n)*Nothing is left behind", rest, re.MULTILINE), rest
    assert harness.remains() == before


def _read_until(demo: subprocess.Popen[str], words: str) -> str:
    """Read what the demo says, up to a line with these words."""
    said = ""
    assert demo.stdout is not None
    patience = Timer(PATIENCE, demo.terminate)
    patience.start()
    try:
        for line in demo.stdout:
            said += line
            if words in line:
                return said
    finally:
        patience.cancel()
    raise AssertionError(f"the demo never said {words!r}: {said}")


def _environment(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _command(process: str) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()
