"""``forewarn emulate``: scenarios with an exit code, what it shows, and its keys."""

import asyncio
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from urllib.request import Request, urlopen
from xml.etree import ElementTree as ET

import pytest

from forewarn.cli.emulating.activity import ActivityLog
from forewarn.cli.emulating.controls import KEYS, Controls
from forewarn.cli.emulating.output import to_try
from forewarn.cli.emulating.screen import Screen
from forewarn.emulator.emulation import Emulation
from forewarn.emulator.player import ScenarioPlayer
from forewarn.emulator.requests import SentRequest
from forewarn.emulator.scenario import load, shipped
from forewarn.emulator.setup import EmulationSetup, fleet_of
from tests.cli.conftest import Forewarn
from tests.ports import free_port

RECORDING = rb"""{"forewarn_recording":1,"vm":"web-0","api_version":"2020-07-01"}
{"at":"2026-03-01T12:00:00Z","body":"{\"DocumentIncarnation\":1,\"Events\":[]}"}
{"at":"2026-03-01T13:00:00Z","body":"{\"DocumentIncarnation\":2,\"Events\":[]}"}
"""
"""An hour in which nothing happens."""
HURRIED = ("--hurry", "6000", "--port", "0", "--patience", "0s")


def emulated(story: Callable[[Emulation], Awaitable[None]], setup: EmulationSetup | None = None) -> None:
    """Play a story on an emulation in virtual time."""

    async def play() -> None:
        emulation = Emulation(setup or EmulationSetup(fleet=fleet_of(["web-0", "web-1"])), virtual_time=True)
        await emulation.start()
        try:
            await story(emulation)
        finally:
            await emulation.stop()

    asyncio.run(play())


def test_scenarios_are_listed(forewarn: Forewarn) -> None:
    """With their titles, for people and for programs."""
    listed = forewarn("emulate", "--list")

    assert [line.split()[0] for line in listed.out.splitlines()[1:]] == shipped()
    assert [each["name"] for each in forewarn("emulate", "--list", "--json").json] == shipped()


def test_a_scenario_nobody_meets_ends_with_one(forewarn: Forewarn, tmp_path: Path) -> None:
    """It plays to its end, says what was missed, and reports it as JUnit XML."""
    ran = forewarn("emulate", "hardware-failure", *HURRIED, "--junit", "report.xml")
    suite = ET.parse(tmp_path / "report.xml").getroot()[0]  # noqa: S314 - we wrote it

    assert ran.code == 1
    assert "missed  failure fetched within 5m: it did not happen\n" in ran.out
    assert ran.out.endswith("Hardware failure: 1 of 2 expectations met\n")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


@pytest.mark.end_to_end
def test_a_scenario_that_is_met_ends_with_zero(forewarn: Forewarn, tmp_path: Path) -> None:
    """And its result can be had as JSON."""
    (tmp_path / "own.toml").write_text(
        'title = "x"\n[[step]]\nat = "1s"\ndo = "freeze"\nvm = "web-0"\nname = "f"\n[[expect]]\nthat = "completed"\n'
    )
    ran = forewarn("emulate", "own.toml", *HURRIED, "--json")

    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 0
    assert [line["type"] for line in lines] == ["listening", *["activity"] * (len(lines) - 2), "result"]
    assert lines[0]["urls"] == {"web-0": lines[0]["url"]}
    assert any(line["text"].startswith("Freeze of web-0 is announced") for line in lines[1:-1])
    assert (lines[-1]["scenario"], lines[-1]["is_good"]) == ("own", True)
    assert [verdict["outcome"] for verdict in lines[-1]["verdicts"]] == ["met"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["user-rebot"], "did you mean 'user-reboot'?"),
        (["--host", "203.0.113.1", "--port", "0"], "no interface of this machine has that address"),
        (["--junit", "x.xml"], "--junit reports on a scenario; name one"),
        (["--fault", "50"], "flag --fault is '50'"),
        (["--vm", "a", "--vm", "a"], "VM names must be unique"),
    ],
)
def test_an_error_is_a_json_line_too(forewarn: Forewarn, words: list[str], said: str) -> None:
    """The sentence for people and the exit code stay."""
    ran = forewarn("emulate", "--json", *words)
    (line,) = ran.out.splitlines()

    assert json.loads(line)["type"] == "error"
    assert said in json.loads(line)["error"]
    assert said in ran.err
    assert ran.code in (2, 3)


@pytest.mark.end_to_end
@pytest.mark.parametrize("words", [["--json"], []])
def test_who_reads_only_the_first_line_disturbs_nothing(tmp_path: Path, words: list[str]) -> None:
    """A script may want the address alone; the scenario goes on to its end, and the exit code tells of it."""
    command = [sys.executable, "-m", "forewarn", "emulate", "hardware-failure", *HURRIED, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        assert b"http://127.0.0.1:" in ran.stdout.readline()
        ran.stdout.close()
        assert (ran.stderr.read(), ran.wait(60)) == (b"", 1)


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    ("words", "code"), [([], 0), (["--stay", "user-reboot"], 0), (["user-reboot"], 130), (["recorded.jsonl"], 0)]
)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_with_a_json_line(tmp_path: Path, words: list[str], code: int, how: signal.Signals) -> None:
    """The first line has the addresses, every line is JSON, and the last one tells the end."""
    (tmp_path / "recorded.jsonl").write_bytes(RECORDING)
    command = [sys.executable, "-m", "forewarn", "emulate", "--json", "--port", "0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path) as ran:
        try:
            assert ran.stdout is not None
            first = json.loads(ran.stdout.readline())
            url = f"{first['url']}/metadata/scheduledevents?api-version=2020-07-01"
            with urlopen(Request(url, headers={"Metadata": "true"}), timeout=60) as answer:  # noqa: S310 - our own
                assert answer.status == 200
            ran.send_signal(how)
            rest = [json.loads(line) for line in ran.stdout]
            assert ran.wait(60) == code
        finally:
            ran.kill()

    assert first["type"] == "listening"
    assert rest[-1]["type"] == "stopped"


def test_a_recording_is_replayed_as_the_flags_say(
    forewarn: Forewarn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told from a scenario by its content."""
    asked: list[tuple[Path, dict[str, object]]] = []
    monkeypatch.setattr("forewarn.cli.emulate._replay", lambda path, **flags: asked.append((path, flags)))
    (tmp_path / "recorded.jsonl").write_bytes(RECORDING)

    assert forewarn("emulate", "recorded.jsonl", *HURRIED, "--stay").code == 0
    assert asked == [
        (
            Path("recorded.jsonl"),
            {"hurry": 6000.0, "host": "127.0.0.1", "port": 0, "patience": 0.0, "stay": True, "as_json": False},
        )
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["user-rebot"], "there is no scenario 'user-rebot'; did you mean 'user-reboot'?"),
        (["--fault", "50"], "flag --fault is '50', expected one of delay"),
        (["--fault", "500,probabilty=1"], "'probabilty=1' is not of the form key=value; did you mean 'probability'?"),
        (["--fault", "500,probability=2"], "probability is '2', expected a number from 0 to 1"),
        (["--fault", "500,vm=web-9"], "there is no VM 'web-9'; did you mean 'web-0'?"),
        (["--vm", "a", "--vm", "a"], "VM names must be unique"),
        (["--junit", "x"], "--junit reports on a scenario; name one"),
        (["--patience", "soon"], "flag --patience is 'soon', expected a duration"),
        (["user-reboot", "--vm", "a", "--vm", "b"], "has 1 VMs, and 2 names are given"),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(arguments: list[str], said: str, forewarn: Forewarn) -> None:
    """With the flag and the remedy."""
    ran = forewarn("emulate", *arguments)

    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_what_happens_is_told_in_sentences() -> None:
    """The announcement, the approval, the start and the end."""
    lines: list[str] = []

    async def story(emulation: Emulation) -> None:
        emulation.node.replica.subscribe(ActivityLog(lambda line: lines.append(line.text)))
        controls = Controls(emulation)
        for key in ("r", "a", "J", "p", "J", "s", "c"):
            await controls.press(key)
            await emulation.settled()
        assert controls.message == "no event of web-0's group is Scheduled"

    emulated(story)

    assert lines == [
        "Reboot of web-0 is announced, 15 min ahead",
        "web-0 approves the Reboot of web-0",
        "Reboot of web-0 starts: approved by web-0",
        "Reboot of web-0 is over",
        "Preempt of web-0 is announced, 30 s ahead",
        "Preempt of web-0 starts: NotBefore has passed",
        "Preempt of web-0 is over",
        "web-0 is deallocated",
        "web-0 runs again",
    ]


@pytest.mark.parametrize(
    ("key", "announced"),
    [
        ("f", "Freeze of web-0 is announced"),
        ("m", "Freeze of web-0 is announced"),
        ("r", "Reboot of web-0 is announced"),
        ("d", "Redeploy of web-0 is announced"),
        ("p", "Preempt of web-0 is announced"),
        ("t", "Terminate of web-0 is announced"),
        ("g", "Redeploy of web-0 is announced"),
        ("h", "Redeploy of web-0 starts at once"),
    ],
)
def test_a_key_makes_an_event_happen(key: str, announced: str) -> None:
    """Every type of event has one."""
    lines: list[str] = []

    async def story(emulation: Emulation) -> None:
        emulation.node.replica.subscribe(ActivityLog(lambda line: lines.append(line.text)))
        await Controls(emulation).press(key)

    emulated(story)

    assert any(line.startswith(announced) for line in lines)


def test_keys_choose_and_leave() -> None:
    """Tab goes round the VMs, and q ends it; a key that means nothing does nothing."""

    async def story(emulation: Emulation) -> None:
        controls = Controls(emulation)
        chosen = []
        for key in ("\t", "\t", "?"):
            await controls.press(key)
            chosen.append(controls.chosen)
        assert chosen == ["web-1", "web-0", "web-0"]
        assert not controls.is_leaving
        await controls.press("q")
        assert controls.is_leaving

    emulated(story)


def test_a_request_that_repeats_itself_is_counted() -> None:
    """A poller does not fill the screen; another VM, another status or an approval is told anew."""
    lines: list[str] = []
    activity = ActivityLog(lambda line: lines.append(line.text))

    async def story(emulation: Emulation) -> None:
        def sent(vm: str, status: int, method: str = "GET") -> SentRequest:
            target = "/metadata/scheduledevents?api-version=2020-07-01"
            return SentRequest(
                at=emulation.clock.now(), vm=vm, method=method, target=target, headers={}, status=status
            )

        requests = [sent("web-0", 200)] * 3 + [sent("web-1", 200), sent("web-0", 429), sent("web-0", 200, "POST")]
        for request in [*requests, sent("web-0", 0)]:
            activity.note(request)

    emulated(story)

    assert lines == [
        "web-0 asks (2020-07-01): 200",
        "web-1 asks (2020-07-01): 200",
        "web-0 asks (2020-07-01): 429",
        "web-0 approves: 200",
    ]
    assert [line.count for line in activity.lines] == [3, 1, 1, 1]


@pytest.mark.parametrize("height", [24, 40, 60])
@pytest.mark.parametrize("name", ["", "preview-2017", "two-events-at-once"])
def test_the_screen_fits_its_terminal(height: int, name: str) -> None:
    """However low it is, the VMs, the document, what happened and the keys are all there."""
    scenario = load(name) if name else None

    async def story(emulation: Emulation) -> None:
        player = ScenarioPlayer(emulation, scenario) if scenario else None
        activity = ActivityLog()
        emulation.node.replica.subscribe(activity)
        screen = Screen(emulation, player, activity, Controls(emulation))
        if player:
            player.begin()
        else:
            await Controls(emulation).press("r")
        for minutes in (0, 2):
            await emulation.advance(timedelta(minutes=minutes))
            lines = [line.plain for line in screen.lines(height)]
            assert len(lines) <= height
            assert lines[2].startswith("> web-0 ")
            assert any("What web-0 is shown" in line for line in lines)
            assert any(line.startswith("f Freeze") for line in lines)
        assert any("is announced" in line for line in lines)

    emulated(story, scenario.setup if scenario else None)


def test_what_to_type_fits_a_line_and_names_the_event() -> None:
    """Two commands to copy; the approval has the id of the event that is Scheduled."""

    async def story(emulation: Emulation) -> None:
        await Controls(emulation).press("r")
        (event,) = emulation.node.replica.fleet.events
        lines = to_try(emulation, "web-0")

        assert event.upper() in " ".join(lines)
        assert max(map(len, lines)) <= 80

    emulated(story)


def test_every_key_is_told_on_the_page() -> None:
    """The page and the screen name the same keys."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "emulate-events.md").read_text(encoding="utf-8")
    keys = re.findall(r"^\| ((?:`\w`[ |]*)+|tab )", page, re.MULTILINE)
    documented = set(re.findall(r"`(\w)`", " ".join(keys)))

    assert documented == {key for key in KEYS if key != "\t"}


@pytest.mark.end_to_end
def test_at_a_terminal_keys_are_obeyed_and_the_terminal_is_left_as_it_was() -> None:
    """A person presses r, sees the Reboot, presses q, and can type again."""
    ours, theirs = pty.openpty()
    before = subprocess.run(["stty", "-a"], stdin=theirs, check=True, capture_output=True).stdout
    command = [str(Path(sys.executable).parent / "forewarn"), "emulate", "--port", "0"]
    emulator = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    seen = b""

    def see(what: bytes) -> None:
        nonlocal seen
        end = time.monotonic() + 60
        while what not in seen and time.monotonic() < end:
            if select.select([ours], [], [], 0.1)[0]:
                seen += os.read(ours, 65_536)
        assert what in seen, seen.decode(errors="replace")

    try:
        see(b"leave")
        os.write(ours, b"r")
        see(b"is announced")
        os.write(ours, b"q")
        see(b"\x1b[?1049l")  # the screen that was there before is back
        assert emulator.wait(60) == 0
        after = subprocess.run(["stty", "-a"], stdin=theirs, check=True, capture_output=True).stdout
        assert after == before
    finally:
        emulator.kill()
        emulator.wait()
        os.close(ours)
        os.close(theirs)


RECORDED = (
    '{"forewarn_recording":1,"vm":"web-0","api_version":"2020-07-01"}\n'
    '{"at":"2026-03-01T12:00:00Z","body":"{\\"DocumentIncarnation\\":1,\\"Events\\":[]}"}\n'
    '{"at":"2026-03-01T13:00:00Z","body":"{\\"DocumentIncarnation\\":2,\\"Events\\":[]}"}\n'
)


@pytest.mark.end_to_end
@pytest.mark.parametrize("is_at_terminal", [False, True])
@pytest.mark.parametrize(("what", "code"), [((), 0), (("user-reboot",), 130), (("recorded.jsonl",), 0)])
def test_sigterm_ends_it_without_a_traceback(
    what: tuple[str, ...], code: int, tmp_path: Path, *, is_at_terminal: bool
) -> None:
    """As Ctrl-C does, whatever it is doing: a client asks all the time."""
    (tmp_path / "recorded.jsonl").write_text(RECORDED)
    port = free_port()
    command = [str(Path(sys.executable).parent / "forewarn"), "emulate", *what, "--port", str(port)]
    ours, theirs = pty.openpty() if is_at_terminal else os.pipe()
    stdin = theirs if is_at_terminal else subprocess.DEVNULL
    with subprocess.Popen(command, stdin=stdin, stdout=theirs, stderr=theirs, cwd=tmp_path) as emulator:
        os.close(theirs)
        said = b""
        try:
            url = f"http://127.0.0.1:{port}/metadata/scheduledevents?api-version=2020-07-01"
            answered = 0
            until = time.monotonic() + 60
            while answered < 20:
                assert time.monotonic() < until, said.decode(errors="replace")
                with suppress(OSError), urlopen(Request(url, headers={"Metadata": "true"}), timeout=10):
                    answered += 1
                said += _read(ours, 0)
            emulator.terminate()
            while emulator.poll() is None:
                assert time.monotonic() < until + 60, said.decode(errors="replace")
                said += _read(ours, 0.1)
            said += _read(ours, 0)
            assert emulator.returncode == code, said.decode(errors="replace")
        finally:
            emulator.kill()
            os.close(ours)

    assert b"Traceback" not in said
    assert b"Error" not in said


def _read(descriptor: int, seconds: float) -> bytes:
    """Read what is there, or comes within so many seconds."""
    try:
        return os.read(descriptor, 65_536) if select.select([descriptor], [], [], seconds)[0] else b""
    except OSError:  # a terminal whose other end was closed
        return b""
