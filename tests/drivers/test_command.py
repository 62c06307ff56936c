"""The command driver with real programs, real crashes and nothing done twice."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from forewarn.clocks import ManualClock, SystemClock
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput
from forewarn.core.model import EventType, Vm
from forewarn.drivers.command import CommandDriver, CommandDriverSettings
from forewarn.drivers.run_record import KEPT_FOR
from forewarn.node.driver import (
    Driver,
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
    can_switch,
)
from forewarn.testing.driver_contract import (
    DriverContract,
    DriverTrial,
    FencingDriverContract,
    FencingDriverTrial,
    in_term,
)
from tests.drivers.impacts import NOW, impact

pytestmark = pytest.mark.end_to_end

# Counts what it does; where it finds the pipes it says that it has begun, and waits until it may go on.
COUNTING = """\
#!/bin/sh
cd "$(dirname "$0")"
case "$1" in
perform)
    if [ -p begun ]; then echo "$PPID $$" > begun; read -r _ < go; fi
    echo "$FOREWARN_EVENT_ID" >> done
    ;;
outcome) echo asked >> asked; exit "$(cat answer)" ;;
esac
"""

PERFORM_ELSEWHERE = """\
import sys
from pathlib import Path
import msgspec
from forewarn.clocks import ManualClock
from forewarn.drivers.command import CommandDriver
from forewarn.node.driver import Impact
program, directory = sys.argv[1:]
impact = msgspec.json.decode(sys.stdin.buffer.read(), type=Impact)
clock = ManualClock(impact.attempted_at)
CommandDriver.from_settings({"program": program}, clock, 1.0, Path(directory)).perform(impact)
"""


class CommandHarness:
    """A directory with a counting program, and the drivers that call it."""

    def __init__(self, place: Path) -> None:
        self.worth_waiting = 60.0  # a slow machine's run is not to be taken for a long one
        self.place = place
        self.program = place / "program"
        self.records = place / "records"
        self.pipes: dict[str, int] = {}
        self.write(COUNTING)

    def write(self, script: str) -> None:
        self.program.write_text(script)
        self.program.chmod(0o755)

    def driver(self, **settings: object) -> CommandDriver:
        given = {"program": str(self.program), **settings}
        read = read_table("driver 'command'", given, CommandDriverSettings)
        return CommandDriver(read, ManualClock(NOW), self.records, worth_waiting=self.worth_waiting)

    def times_done(self, event_id: str) -> int:
        done = self.place / "done"
        return done.read_text().split().count(event_id) if done.exists() else 0

    def stop_half_way(self) -> None:
        """Let the next run wait half-way."""
        for name in ("begun", "go"):
            os.mkfifo(self.place / name)
            # Held open at both ends, no pipe makes the test wait for a program that died.
            self.pipes[name] = os.open(self.place / name, os.O_RDWR)

    def wait_for_half_way(self) -> list[int]:
        """Wait until the program is half-way; return the process ids of its runner and its own."""
        assert select.select([self.pipes["begun"]], [], [], 60)[0], "the program was not called"
        return [int(pid) for pid in os.read(self.pipes["begun"], 100).split()]

    def go_on(self) -> None:
        os.write(self.pipes["go"], b"\n")
        for name in self.pipes:
            (self.place / name).unlink()

    def close(self) -> None:
        for pipe in self.pipes.values():
            os.close(pipe)

    def kill_forewarn_during(self, impact: Impact) -> None:
        """Perform in another process, and kill it half-way."""
        self.stop_half_way()
        with subprocess.Popen(
            [sys.executable, "-c", PERFORM_ELSEWHERE, str(self.program), str(self.records)],
            stdin=subprocess.PIPE,
        ) as forewarn:
            assert forewarn.stdin is not None
            forewarn.stdin.write(msgspec.json.encode(impact))
            forewarn.stdin.close()
            self.wait_for_half_way()
            forewarn.kill()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[CommandHarness]:
    machine = CommandHarness(tmp_path)
    yield machine
    machine.close()


def in_thread(call: Callable[[], ImpactOutcome]) -> Callable[[], ImpactOutcome]:
    """Begin a call; return what waits for its answer."""
    answers: list[ImpactOutcome] = []
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()

    def answer() -> ImpactOutcome:
        thread.join(60)
        return answers[0]

    return answer


def when_ended(driver: Driver, asked: Impact) -> ImpactOutcome:
    while isinstance(outcome := driver.outcome_of(asked), ImpactUnderway):
        threading.Event().wait(0.02)
    return outcome


class CommandTrial(DriverTrial):
    """The contract with a counting program."""

    def __init__(self, machine: CommandHarness) -> None:
        self._machine = machine

    def make(self, **more: object) -> Driver:
        on_host = self._machine.place / "on-host"
        on_host.write_text(f"#!/bin/sh\ncat >> {self._machine.place}/commands\n")
        on_host.chmod(0o755)
        settings = {"program": str(self._machine.program), "host_program": str(on_host), **more}
        return CommandDriver.from_settings(settings, SystemClock(), 1.0, self._machine.records)

    def times_done(self, event_id: str) -> int:
        return self._machine.times_done(event_id)

    def times_run(self, command_id: str) -> int:
        commands = self._machine.place / "commands"
        return commands.read_text().count(command_id) if commands.exists() else 0

    def wait_until(self, at: datetime) -> None:
        threading.Event().wait(0.02)

    def crash_during(self, impact: Impact) -> None:
        self._machine.kill_forewarn_during(impact)
        self._machine.go_on()


class TestCommandDriver(DriverContract):
    """It keeps the contract, killed half-way too."""

    @pytest.fixture
    def trial(self, machine: CommandHarness) -> DriverTrial:
        return CommandTrial(machine)


def test_the_program_is_told_everything(machine: CommandHarness) -> None:
    """The environment holds what a shell script needs, stdin the whole impact."""
    machine.write('#!/bin/sh\ncd "$(dirname "$0")"; echo "$*" > words; env > told; cat > said\n')
    asked = impact(EventType.FREEZE, vms=("web-0", "web-1"), duration=9)
    driver = machine.driver(program=[str(machine.program), "extra"], environment={"SPARE": "h9"})

    assert driver.perform(asked) == ImpactDone()
    result = dict(line.split("=", 1) for line in (machine.place / "told").read_text().splitlines())
    assert {name: result[name] for name in sorted(result) if name.startswith(("FOREWARN_", "SPARE"))} == {
        "FOREWARN_ATTEMPT": "0",
        "FOREWARN_DURATION": "9",
        "FOREWARN_EVENT_ID": asked.event.id,
        "FOREWARN_EVENT_SOURCE": "platform",
        "FOREWARN_EVENT_TYPE": "freeze",
        "FOREWARN_GROUP": "web",
        "FOREWARN_HOST": "h1",
        "FOREWARN_OPERATION": "host freeze",
        "FOREWARN_TERM": "0",
        "FOREWARN_VMS": "web-0 web-1",
        "SPARE": "h9",
    }
    assert (machine.place / "words").read_text() == "extra perform\n"
    assert msgspec.json.decode((machine.place / "said").read_bytes(), type=Impact) == asked


def test_the_host_of_a_vm_s_own_event_is_where_it_stands(machine: CommandHarness) -> None:
    """An event that names no host is told with the host its VM stands on."""
    machine.write('#!/bin/sh\necho "$FOREWARN_HOST"\n')

    assert machine.driver().perform(impact(host="")) == ImpactDone(detail="h7")


def test_the_program_may_name_new_hosts(machine: CommandHarness) -> None:
    """What the program says of moved VMs comes back, and again for whoever asks later."""
    machine.write("""#!/bin/sh\necho '{"hosts": {"web-0": "h2"}, "detail": "moved"}'\n""")
    machine.driver().perform(impact())

    assert machine.driver().outcome_of(impact()) == ImpactDone({"web-0": "h2"}, "moved")


def test_a_failing_program_gives_its_reason(machine: CommandHarness) -> None:
    """The last line of stderr is the reason, and it is not tried again."""
    machine.write('#!/bin/sh\necho x >> "$0.log"; echo "no such domain" >&2; exit 4\n')
    driver = machine.driver()

    assert driver.perform(impact()) == ImpactFailed("exit code 4: no such domain")
    assert driver.perform(impact()) == ImpactFailed("exit code 4: no such domain")
    assert (machine.place / "program.log").read_text() == "x\n"


def test_a_reason_does_not_repeat_what_the_environment_holds(machine: CommandHarness) -> None:
    """It goes into log, history and messages; what is short is a word, and stays."""
    machine.write('#!/bin/sh\necho "login with $KEY refused in $ZONE" >&2; exit 1\n')
    driver = machine.driver(environment={"KEY": "PLANTEDkey", "ZONE": "eu-1"})

    assert driver.perform(impact()) == ImpactFailed("exit code 1: login with … refused in eu-1")


def test_a_program_that_takes_too_long_has_failed(machine: CommandHarness) -> None:
    """The time for one event is bounded."""
    machine.write("#!/bin/sh\nexec sleep 60\n")

    assert machine.driver(timeout=0.1, grace=0.1).perform(impact()) == ImpactFailed("took too long and was stopped")


def test_a_program_that_is_gone_has_failed(machine: CommandHarness) -> None:
    """A program that was deleted after the start is a failure with a reason."""
    driver = machine.driver()
    machine.program.unlink()
    outcome = driver.perform(impact())

    assert isinstance(outcome, ImpactFailed)
    assert "No such file" in outcome.reason


def test_a_record_that_cannot_be_kept_prevents_the_run(machine: CommandHarness) -> None:
    """What cannot be recorded is not begun."""
    machine.records.touch()
    outcome = machine.driver().perform(impact())

    assert outcome == ImpactFailed(f"the program could not be started: [Errno 17] File exists: '{machine.records}'")
    assert machine.times_done(impact().event.id) == 0


def test_a_runner_that_dies_at_once_has_failed(machine: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that could not even record its beginning has begun nothing; the event does not hang."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    outcome = machine.driver().perform(impact())

    assert isinstance(outcome, ImpactFailed)
    assert f"make {machine.records} writable" in outcome.reason


def test_nothing_recorded_is_not_begun(machine: CommandHarness) -> None:
    """The driver knows of itself that it never called the program; asking leaves no trace."""
    assert machine.driver().outcome_of(impact()) == ImpactNotBegun()
    assert not machine.records.exists()


def test_what_may_have_been_forgotten_is_unknowable(machine: CommandHarness) -> None:
    """Records are kept for a time; past it, none does not mean that nothing was begun."""
    long_ago = impact(attempted_at=NOW - KEPT_FOR)

    assert isinstance(machine.driver().outcome_of(long_ago), ImpactUnknown)


def test_a_second_call_does_not_wait_for_the_first(machine: CommandHarness) -> None:
    """While the program runs, performing again says Underway at once and runs nothing."""
    machine.stop_half_way()
    driver = machine.driver()
    first = in_thread(lambda: driver.perform(impact()))
    machine.wait_for_half_way()

    assert isinstance(machine.driver().perform(impact()), ImpactUnderway)
    machine.go_on()
    assert first() == ImpactDone()
    assert machine.times_done(impact().event.id) == 1


def test_the_program_outlives_forewarn(machine: CommandHarness) -> None:
    """Killed half-way, Forewarn finds it under way when it comes back, and its end when it ends."""
    asked = impact()
    machine.kill_forewarn_during(asked)
    driver = machine.driver()

    assert isinstance(driver.outcome_of(asked), ImpactUnderway)
    assert isinstance(driver.perform(asked), ImpactUnderway)
    machine.go_on()
    assert when_ended(driver, asked) == ImpactDone()
    assert machine.times_done(asked.event.id) == 1


def test_a_long_run_does_not_hold_the_caller(machine: CommandHarness) -> None:
    """After some seconds it is under way, and its end is found by asking."""
    machine.worth_waiting = 0.0
    machine.stop_half_way()
    driver = machine.driver()

    assert isinstance(driver.perform(impact()), ImpactUnderway)
    machine.wait_for_half_way()
    assert isinstance(driver.outcome_of(impact()), ImpactUnderway)
    machine.go_on()
    assert when_ended(driver, impact()) == ImpactDone()
    assert machine.times_done(impact().event.id) == 1


def test_close_frees_the_caller_and_lets_the_program_finish(machine: CommandHarness) -> None:
    """Stopping the service does not stop a maintenance half-way."""
    machine.stop_half_way()
    driver = machine.driver()
    performing = in_thread(lambda: driver.perform(impact()))
    machine.wait_for_half_way()
    driver.close()

    assert isinstance(performing(), ImpactUnderway)
    machine.go_on()
    assert when_ended(machine.driver(), impact()) == ImpactDone()


def lose_the_run(machine: CommandHarness, **settings: object) -> ImpactOutcome:
    """Kill runner and program half-way, as a power cut would; return what perform makes of it."""
    machine.stop_half_way()
    driver = machine.driver(**settings)
    performing = in_thread(lambda: driver.perform(impact()))
    for pid in machine.wait_for_half_way():
        os.kill(pid, signal.SIGKILL)
    outcome = performing()
    machine.go_on()
    return outcome


def test_an_end_that_nobody_saw_is_unknowable(machine: CommandHarness) -> None:
    """With the runner lost and a program that does not remember, nobody knows, and nothing is repeated."""
    lost = lose_the_run(machine)

    assert isinstance(lost, ImpactUnknown)
    assert machine.driver().outcome_of(impact()) == lost
    assert machine.driver().perform(impact()) == lost
    assert not (machine.place / "asked").exists()


@pytest.mark.parametrize(
    ("answer", "outcome"), [("0", ImpactDone()), ("3", ImpactNotBegun()), ("5", ImpactUnknown("exit code 5"))]
)
def test_a_program_that_remembers_is_asked(machine: CommandHarness, answer: str, outcome: ImpactOutcome) -> None:
    """Where the record has no end, the program tells by exit code."""
    lose_the_run(machine)
    (machine.place / "answer").write_text(answer)

    assert machine.driver(remembers=True).outcome_of(impact()) == outcome


def test_what_the_program_says_was_not_begun_is_performed(machine: CommandHarness) -> None:
    """A run lost before it did anything can be repeated on the program's word."""
    (machine.place / "answer").write_text("3")
    assert isinstance(lose_the_run(machine, remembers=True), ImpactFailed)

    assert machine.driver(remembers=True).perform(impact()) == ImpactDone()
    assert machine.times_done(impact().event.id) == 1


def test_a_program_that_remembers_is_asked_where_there_is_no_record(machine: CommandHarness) -> None:
    """Another node may have called it; a program that remembers knows more than this machine."""
    (machine.place / "answer").write_text("0")

    assert machine.driver(remembers=True).outcome_of(impact()) == ImpactDone()


def test_the_program_is_not_asked_what_the_record_knows(machine: CommandHarness) -> None:
    """An end on record is the answer."""
    machine.driver(remembers=True).perform(impact())

    assert machine.driver(remembers=True).outcome_of(impact()) == ImpactDone()
    assert not (machine.place / "asked").exists()


def test_a_node_that_keeps_nothing_lends_a_directory_for_its_life(machine: CommandHarness) -> None:
    """Without a directory records live in a temporary one, which goes when the driver is closed."""
    driver = CommandDriver.from_settings({"program": str(machine.program)}, ManualClock(NOW), 1.0)
    lent = driver._directory

    assert driver.perform(impact()) == ImpactDone()
    assert driver.perform(impact()) == ImpactDone()
    assert machine.times_done(impact().event.id) == 1
    driver.close()
    assert not lent.exists()


def test_a_program_on_the_path_is_found(machine: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare name is looked up on the PATH, a relative path from where Forewarn was started."""
    monkeypatch.setenv("PATH", f"{machine.place}:{os.environ['PATH']}")
    monkeypatch.chdir(machine.place.parent)

    assert machine.driver(program="program").perform(impact()) == ImpactDone()
    assert machine.driver(program=f"{machine.place.name}/program").perform(impact(name="two")) == ImpactDone()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "driver 'command' needs the setting 'program'"),
        ({"program": "/no/such"}, "setting 'program' of driver 'command': there is no file /no/such; "),
        ({"program": "no-such"}, "setting 'program' of driver 'command': there is no file no-such; "),
        ({"program": "/"}, "setting 'program' of driver 'command': there is no file /; "),
        ({"program": "/etc/passwd"}, "/etc/passwd is not executable; run 'chmod +x' on it"),
        ({"program": []}, "setting 'program' of driver 'command' is empty"),
        ({"program": ""}, "setting 'program' of driver 'command' is empty"),
        ({"program": "/bin/sh", "timeout": 0}, "setting 'timeout' of driver 'command': expected "),
        ({"program": "/bin/sh", "timeout": float("inf")}, "setting 'timeout' of driver 'command': expected "),
        ({"program": "/bin/sh", "environment": {"": "c"}}, "'' cannot be set"),
        ({"program": "/bin/sh", "environment": {"A=B": "c"}}, "'A=B' cannot be set"),
        ({"program": "/bin/sh", "environment": {"A": "b\0"}}, "'A' cannot be set"),
        ({"program": "/bin/sh", "timeot": 5}, "did you mean 'timeout'?"),
    ],
)
def test_a_wrong_setting_is_refused_at_start(tmp_path: Path, settings: dict[str, object], sentence: str) -> None:
    """Each mistake is one sentence with its remedy, before anything is announced to anybody."""
    with pytest.raises(BadInput) as refused:
        CommandDriver.from_settings(settings, ManualClock(NOW), 1.0, tmp_path)

    assert sentence in str(refused.value)


def test_the_impact_can_be_read_by_any_json_reader(machine: CommandHarness) -> None:
    """What stands on stdin is plain JSON, with names from the glossary."""
    machine.write('#!/bin/sh\ncat > "$0.said"\n')
    machine.driver().perform(impact())
    said = json.loads((machine.place / "program.said").read_text())

    assert (said["event"]["type"], said["vms"][0]["name"]) == ("reboot", "web-0")


SWITCHING = """\
#!/bin/sh
cd "$(dirname "$0")"
case "$1" in
start|stop) echo "$1 $FOREWARN_OPERATION $FOREWARN_VMS $FOREWARN_HOST $FOREWARN_GROUP" >> switched; cat > said ;;
*) echo "this program knows nothing of $1" >&2; exit 64 ;;
esac
[ "$1" = stop ] || { echo "no room" >&2; exit 1; }
"""


def test_the_program_starts_and_stops_vms_where_it_is_said_to(tmp_path: Path) -> None:
    """What it is asked for stands in its arguments, its environment and on stdin; its last words are the reason."""
    program = tmp_path / "switch"
    program.write_text(SWITCHING)
    program.chmod(0o755)
    vm = Vm("web-0", "web", host="h1")
    settings: dict[str, object] = {"program": str(program), "switches": True}
    driver = CommandDriver.from_settings(settings, SystemClock(), 1.0, tmp_path / "driver")

    assert switched(driver, vm, on=False) == ImpactDone()
    assert json.loads((tmp_path / "said").read_text())["vm"]["name"] == "web-0"
    assert switched(driver, vm, on=True) == ImpactFailed("'switch start' failed: exit code 1: no room")
    assert (tmp_path / "switched").read_text().splitlines() == [
        "stop vm deallocate web-0 h1 web",
        "start vm start web-0 h1 web",
    ]
    driver.close()


def test_a_program_that_was_not_said_to_switch_is_not_asked(tmp_path: Path) -> None:
    """An older one might take the word for another."""
    program = tmp_path / "switch"
    program.write_text(SWITCHING)
    program.chmod(0o755)

    assert not can_switch(CommandDriver.from_settings({"program": str(program)}, SystemClock(), 1.0, tmp_path))


def switched(driver: CommandDriver, vm: Vm, *, on: bool) -> ImpactOutcome:
    outcome = driver.switch(vm, on=on)
    while isinstance(outcome, ImpactUnderway):
        threading.Event().wait(0.01)
        outcome = driver.switch(vm, on=on)
    return outcome


# Stands for what operates on a machine. Where it finds the pipes it says that it has begun, and waits.
POWER_CYCLE = """\
#!/bin/sh
cd "$(dirname "$0")"
echo "$2" >> cycled
if [ -p begun ]; then echo cycling > begun; read -r _ < go; fi
"""


class FencingHost(FencingDriverTrial):
    """The program of the guide, for the machines of one host, called from two nodes."""

    def __init__(self, place: Path) -> None:
        self._place = place
        guide = (Path(__file__).parents[2] / "docs/how-to/write-a-driver.md").read_text()
        (program,) = re.findall(r"^```python\n(#!/usr/bin/env python3\n.*?)^```", guide, re.MULTILINE | re.DOTALL)
        for name, script in (("forewarn-host", program), ("power-cycle", POWER_CYCLE)):
            (place / name).write_text(script)
            (place / name).chmod(0o755)
        self.environment = {"HOST_RECORDS": str(place / "host"), "PATH": f"{place}:{os.environ['PATH']}"}

    def make(self, **more: object) -> CommandDriver:
        return self.make_on("n1", **more)

    def make_elsewhere(self) -> CommandDriver:
        return self.make_on("n2")

    def make_on(self, node: str, **more: object) -> CommandDriver:
        settings = {
            "program": str(self._place / "forewarn-host"),
            "environment": self.environment,
            "remembers": True,
            "fences_terms": True,
            **more,
        }
        return CommandDriver.from_settings(settings, SystemClock(), 1.0, self._place / node)

    def times_done(self, event_id: str) -> int:
        cycled = self._place / "cycled"
        return cycled.read_text().split().count(event_id) if cycled.exists() else 0

    def wait_until(self, at: datetime) -> None:
        threading.Event().wait(0.02)

    def crash_during(self, impact: Impact) -> None:
        """The host loses its power while a machine is power-cycled."""
        with self.half_way(impact) as program:
            os.killpg(program.pid, signal.SIGKILL)

    @contextmanager
    def half_way(self, impact: Impact) -> Iterator[subprocess.Popen[bytes]]:
        """Run the program until it power-cycles a machine; at the end let it go on."""
        pipes = {name: self._place / name for name in ("begun", "go")}
        for pipe in pipes.values():
            os.mkfifo(pipe)
        command = [str(self._place / "forewarn-host"), "perform"]
        environment = os.environ | self.environment
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True) as program:
            assert program.stdin is not None
            program.stdin.write(msgspec.json.encode(impact))
            program.stdin.close()
            pipes["begun"].read_text()
            yield program
            go = os.open(pipes["go"], os.O_RDWR)
            os.write(go, b"\n")
            program.wait()
            os.close(go)
        for pipe in pipes.values():
            pipe.unlink()


class TestFencingCommandDriver(FencingDriverContract):
    """It keeps the contract with a program that fences terms."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> FencingDriverTrial:
        return FencingHost(tmp_path)


def test_a_node_waits_for_what_another_one_began(tmp_path: Path) -> None:
    """While the program of an earlier leader runs, the next leader is told so, and then how it ended."""
    host = FencingHost(tmp_path)
    asked = host.impact()
    other, elsewhere = host.make_elsewhere(), in_term(asked, 2, is_elsewhere=True)
    with host.half_way(in_term(asked, 1)):
        assert isinstance(other.outcome_of(elsewhere), ImpactUnderway)
        assert isinstance(other.perform(in_term(asked, 2)), ImpactUnderway)

    assert isinstance(when_ended(other, elsewhere), ImpactDone)
    assert host.times_done(asked.event.id) == 1


def test_a_refused_run_is_no_end_for_a_later_term(tmp_path: Path) -> None:
    """A node whose call was refused may lead again; the event that is still Started can be performed then."""
    host = FencingHost(tmp_path)
    driver, asked = host.make(), host.impact()
    host.make_elsewhere().outcome_of(in_term(asked, 2, is_elsewhere=True))

    assert isinstance(driver.perform(in_term(asked, 1)), ImpactUnknown)
    assert driver.outcome_of(in_term(asked, 3, is_elsewhere=True)) == ImpactNotBegun()
    assert isinstance(driver.perform(in_term(asked, 3)), ImpactDone)
    assert host.times_done(asked.event.id) == 1


def test_what_another_node_did_later_counts_more_than_the_own_record(machine: CommandHarness) -> None:
    """The record here is of an earlier attempt; the program knows both."""
    machine.write("#!/bin/sh\n[ $1 = outcome ]\n")
    driver = machine.driver(remembers=True, fences_terms=True)

    assert isinstance(driver.perform(in_term(impact(), 1)), ImpactFailed)
    assert isinstance(driver.outcome_of(in_term(impact(), 3, is_elsewhere=True)), ImpactDone)


def test_five_is_a_failure_of_a_program_that_does_not_fence(machine: CommandHarness) -> None:
    """It had that meaning before there were terms."""
    machine.write("#!/bin/sh\nexit 5\n")

    assert machine.driver().perform(impact()) == ImpactFailed("exit code 5")


def test_a_program_that_fences_must_remember() -> None:
    """Otherwise no other node could tell what was begun."""
    settings: dict[str, object] = {"program": "/bin/true", "fences_terms": True}
    with pytest.raises(BadInput, match="'fences_terms' of driver 'command' needs 'remembers'"):
        CommandDriver.from_settings(settings, SystemClock(), 1.0)
    with pytest.raises(BadInput, match="let it answer 'outcome'"):
        CommandDriver.check_settings(settings, is_running=False)


def test_a_program_that_switches_is_told_the_term(machine: CommandHarness) -> None:
    """It refuses a leader that was replaced, as with an event."""
    machine.write('#!/bin/sh\ncd "$(dirname "$0")"; echo "$FOREWARN_TERM" > term; cat > said\n')
    driver = machine.driver(switches=True, remembers=True, fences_terms=True)

    assert isinstance(driver.switch(Vm("web-0", "web"), on=True, term=7), ImpactDone)
    assert (machine.place / "term").read_text() == "7\n"
    assert json.loads((machine.place / "said").read_text())["term"] == 7
