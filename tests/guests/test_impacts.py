"""What the qemu driver does to real guests, step by step, and what is left of it after a crash between two steps."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from demo.guest import Guest
from forewarn.clocks import SystemClock
from forewarn.core.model import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Host,
    Observation,
    ObservationKind,
    Operation,
    Vm,
)
from forewarn.drivers.progress_store import ProgressFile
from forewarn.drivers.qemu.driver import QemuDriver
from forewarn.node.driver import (
    CandidateHost,
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
)
from tests.drivers.impacts import carried_out
from tests.guests.conftest import GuestHarness

pytestmark = pytest.mark.end_to_end


class Lost(BaseException):
    """The process of the driver is gone."""


class ImpactHarness:
    """A driver that can be lost, and made anew."""

    def __init__(self, guest_harness: GuestHarness) -> None:
        self.guest_harness = guest_harness
        self.seen: list[Observation] = []
        self.driver = self.make()

    def make(self, **more: object) -> QemuDriver:
        settings = self.guest_harness.settings(**more)
        self.driver = QemuDriver.from_settings(settings, SystemClock(), 1.0, self.guest_harness.directory / "driver")
        return self.driver

    def lose_after(self, step: str, impact: Impact, monkeypatch: pytest.MonkeyPatch, **more: object) -> None:
        """Begin an impact with a driver that is lost just after it wrote a step down."""
        note = ProgressFile.note

        def note_and_die(page: ProgressFile, name: str, vm: str = "", **seen: str) -> None:
            note(page, name, vm, **seen)
            if name == step:
                raise Lost

        self.driver.close()
        with monkeypatch.context() as patched:
            patched.setattr(ProgressFile, "note", note_and_die)
            driver = self.make(**more)
            with pytest.raises(Lost):
                carried_out(driver, impact)
            driver.close()
        self.make()

    def listens_to(self, guest: Guest) -> bool:
        return self.driver._monitors.knows(self.guest_harness.site.place(guest.name, guest.host, "qmp"))

    def progress_of(self, impact: Impact) -> str:
        outcome = self.driver.outcome_of(impact)
        return outcome.progress if isinstance(outcome, ImpactUnderway) else ""

    def ended(self, outcome: ImpactOutcome, impact: Impact) -> ImpactOutcome:
        while isinstance(outcome, ImpactUnderway):
            time.sleep(0.1)
            outcome = self.driver.outcome_of(impact)
        return outcome


@pytest.fixture
def harness(guest_harness: GuestHarness) -> Iterator[ImpactHarness]:
    harness = ImpactHarness(guest_harness)
    yield harness
    harness.driver.close()


def impact(
    type_: EventType,
    *vms: str,
    operation: str = "vm something",
    duration: int = -1,
    deletes: bool = False,
    candidates: tuple[str, ...] = (),
) -> Impact:
    now = datetime.now(UTC)
    names = vms or ("web-0",)
    event = Event(
        id=str(uuid4()),
        type=type_,
        source=EventSource.PLATFORM,
        group="web",
        resources=names,
        status=EventStatus.STARTED,
        not_before=now,
        announced_at=now,
        operation=Operation(operation),
        host="h1",
        duration=duration,
        attempted_at=now,
        attempts=1,
    )
    places = tuple(CandidateHost(Host(name)) for name in candidates)
    return Impact(event, tuple(Vm(name, "web", host="h1") for name in names), now, deletes=deletes, candidates=places)


def test_a_freeze_lasts_as_announced_for_all_at_once(harness: ImpactHarness) -> None:
    """Both guests stand still for the announced time, not one after the other, and then go on."""
    guests = [harness.guest_harness.restored(name) for name in ("web-0", "web-1")]
    clocks = [guest.uptime() for guest in guests]
    frozen = impact(EventType.FREEZE, "web-0", "web-1", duration=3)

    began = time.monotonic()
    outcome = harness.driver.perform(frozen)
    guests[0].wait_for("both to stand still", lambda: all(guest.status() == "paused" for guest in guests))

    assert harness.ended(outcome, frozen) == ImpactDone()
    assert time.monotonic() - began >= 3
    assert [guest.status() for guest in guests] == ["running", "running"]
    for guest, clock in zip(guests, clocks, strict=True):
        assert guest.uptime() > clock


@pytest.mark.parametrize("step", ["freezing", "frozen"])
def test_no_guest_stays_frozen_after_a_crash(
    harness: ImpactHarness, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest that was left standing goes on when its time is over, at the question what came of it."""
    guest = harness.guest_harness.restored("web-0")
    frozen = impact(EventType.FREEZE, duration=1)
    harness.lose_after(step, frozen, monkeypatch)

    outcome = harness.ended(harness.driver.outcome_of(frozen), frozen)

    assert isinstance(outcome, ImpactDone if step == "frozen" else ImpactFailed)
    assert guest.status() == "running"


def test_a_freeze_is_cut_short_when_the_service_stops(harness: ImpactHarness) -> None:
    """How far it is, is told; better too short than for as long as nobody starts the service again."""
    guest = harness.guest_harness.restored("web-0")
    frozen = impact(EventType.FREEZE, duration=60)

    harness.driver.perform(frozen)
    guest.wait_for("the freeze", lambda: harness.progress_of(frozen) == "frozen for 60 s")
    assert guest.status() == "paused"
    harness.driver.close()

    assert guest.status() == "running"


def test_a_reboot_lets_the_guest_shut_down_by_itself(harness: ImpactHarness) -> None:
    """A guest that heeds its power button goes down in order, and boots anew."""
    guest = harness.guest_harness.restored("web-0")
    boot = guest.boot_id()
    harness.driver.close()
    harness.make(grace=60)

    outcome = carried_out(harness.driver, impact(EventType.REBOOT))

    assert outcome == ImpactDone(detail="it shut down by itself")
    assert guest.said("powerdown")
    guest.wait_for_boot(boot)
    assert guest.resets == 1


@pytest.mark.parametrize("step", ["powering-down", "resetting", "reset"])
def test_a_reboot_that_a_crash_cut_off_is_finished_once(
    harness: ImpactHarness, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the driver was lost, the guest is reset once, and goes on."""
    guest = harness.guest_harness.restored("web-0")
    reboot = impact(EventType.REBOOT)
    harness.lose_after(step, reboot, monkeypatch)

    assert isinstance(harness.ended(harness.driver.outcome_of(reboot), reboot), ImpactDone)
    assert isinstance(carried_out(harness.driver, reboot), ImpactDone)
    assert (guest.status(), guest.resets) == ("running", 1)


def test_a_machine_that_ends_with_its_guest_is_started_again(harness: ImpactHarness) -> None:
    """Where the process goes down with the guest, as without -no-shutdown, it is started anew."""
    guest = harness.guest_harness.restored("web-0")
    reboot = impact(EventType.REBOOT)
    harness.driver.close()
    harness.make(grace=60)
    guest.execute("set-action", shutdown="poweroff")

    outcome = carried_out(harness.driver, reboot)

    assert outcome == ImpactDone(detail="its process ended with the guest and was started again")
    assert guest.status() == "running"


def test_a_live_move_keeps_the_boot(harness: ImpactHarness) -> None:
    """The guest goes on at the other host where it was; nothing is left here."""
    here, there = harness.guest_harness.restored("web-0"), harness.guest_harness.guest("web-0", "h2")
    boot = here.boot_id()
    moving = impact(EventType.REDEPLOY, candidates=("h2",))

    outcome = carried_out(harness.driver, moving)

    assert outcome == ImpactDone({"web-0": "h2"}, "moved while it ran")
    assert (here.status(), there.status()) == ("gone", "running")
    assert there.boot_id() == boot


@pytest.mark.parametrize("step", ["moving", "migrating", "moved"])
def test_a_move_that_a_crash_cut_off_is_finished(
    harness: ImpactHarness, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the driver was lost, the guest runs once, at the other host."""
    here, there = harness.guest_harness.restored("web-0"), harness.guest_harness.guest("web-0", "h2")
    moving = impact(EventType.REDEPLOY, candidates=("h2",))
    harness.lose_after(step, moving, monkeypatch)

    outcome = harness.ended(harness.driver.outcome_of(moving), moving)

    assert outcome == ImpactDone({"web-0": "h2"}, "moved while it ran")
    assert (here.status(), there.status()) == ("gone", "running")


def test_a_move_to_a_machine_that_is_too_small_fails_and_the_guest_runs_on(harness: ImpactHarness) -> None:
    """The reason names both sizes; the guest has felt nothing, and nothing is left at the other end."""
    here, there = harness.guest_harness.restored("web-0"), harness.guest_harness.guest("web-0", "h2")
    harness.guest_harness.site.describe("web-0", 0, memory=64)

    outcome = carried_out(harness.driver, impact(EventType.REDEPLOY, candidates=("h2",)))

    assert outcome == ImpactFailed(
        "web-0 could not be moved to h2: the machine there has 64 MiB of memory, and the guest needs 96 MiB; "
        "it is running on h1"
    )
    assert (here.status(), there.status()) == ("running", "gone")


def test_a_move_whose_line_breaks_fails_and_the_guest_runs_on(harness: ImpactHarness) -> None:
    """What QEMU says of a broken migration is the reason."""
    here = harness.guest_harness.restored("web-0")
    harness.driver.close()
    harness.make(incoming="unix:/nowhere/at/all")

    outcome = carried_out(harness.driver, impact(EventType.REDEPLOY, candidates=("h2",)))

    assert isinstance(outcome, ImpactFailed)
    assert "web-0 could not be moved to h2: 'receive' (ip) failed for web-0: " in outcome.reason
    assert "/nowhere/at/all" in outcome.reason
    assert here.status() == "running"


def test_a_move_to_nowhere_fails(harness: ImpactHarness) -> None:
    """Without another host there is nothing to move to, and the reason says so."""
    here = harness.guest_harness.restored("web-0")

    outcome = carried_out(harness.driver, impact(EventType.REDEPLOY))

    assert isinstance(outcome, ImpactFailed)
    assert outcome.reason.startswith("there is no other host to move web-0 to")
    assert here.status() == "running"


def test_a_lost_machine_is_started_anew(harness: ImpactHarness) -> None:
    """After a failure of its process a VM boots where it was."""
    guest = harness.guest_harness.restored("web-0")
    guest.kill()

    outcome = carried_out(harness.driver, impact(EventType.REDEPLOY, operation="vm fail", candidates=("h2",)))

    assert outcome == ImpactDone({"web-0": "h1"}, "started anew")
    assert guest.status() == "running"


@pytest.mark.parametrize("type_", [EventType.PREEMPT, EventType.TERMINATE])
def test_an_eviction_and_a_deletion_end_the_machine(harness: ImpactHarness, type_: EventType) -> None:
    """Only what is to go for good is deleted."""
    guest = harness.guest_harness.restored("web-0")
    remains = harness.guest_harness.directory / "web-0.disk"
    remains.touch()
    harness.driver.close()
    harness.make(delete=["rm", str(harness.guest_harness.directory / "{vm}.disk")])

    outcome = carried_out(harness.driver, impact(type_, deletes=type_ is EventType.TERMINATE))

    assert outcome == ImpactDone()
    assert guest.status() == "gone"
    assert remains.exists() == (type_ is EventType.PREEMPT)


def test_a_machine_that_is_not_there_is_said_not_to_be(harness: ImpactHarness) -> None:
    """The reason names the socket and the setting; a question before that begins nothing."""
    harness.guest_harness.restored("web-1")
    reboot = impact(EventType.REBOOT)

    assert harness.driver.outcome_of(reboot) == ImpactNotBegun()
    outcome = carried_out(harness.driver, reboot)

    assert isinstance(outcome, ImpactFailed)
    path = harness.guest_harness.site.place("web-0", "h1", "qmp")
    expected = f"there is no machine at {path}; start it, or correct 'qmp' of driver 'qemu'"
    assert outcome.reason == expected


def test_what_fails_for_one_is_told_and_where_the_other_stands(harness: ImpactHarness) -> None:
    """Of two VMs one is moved, the other is missing: the event fails, and names the host of the first."""
    harness.guest_harness.restored("web-0")

    outcome = carried_out(harness.driver, impact(EventType.REDEPLOY, "web-0", "web-1", candidates=("h2",)))

    assert isinstance(outcome, ImpactFailed)
    assert outcome.hosts == {"web-0": "h2"}
    assert outcome.reason.startswith("web-1: ")


@pytest.mark.parametrize(
    ("befall", "what", "detail"),
    [
        (lambda guest: guest.kill(), ObservationKind.CRASHED, "its process on the host died"),
        (lambda guest: guest.execute("system_reset"), ObservationKind.REBOOTED, "reset over QMP"),
        (lambda guest: guest.execute("quit"), ObservationKind.STOPPED, "its process received a quit command"),
        (lambda guest: guest.execute("system_powerdown"), ObservationKind.STOPPED, "by the guest itself"),
    ],
    ids=["kill", "reset", "quit", "power button"],
)
def test_what_befalls_a_machine_is_seen(
    harness: ImpactHarness, befall: Callable[[object], None], what: ObservationKind, detail: str
) -> None:
    """A crash, a reset and an end are told apart, each once."""
    guest = harness.guest_harness.restored("web-0")
    harness.driver.watch(harness.seen.append)
    guest.wait_for("the driver to listen", lambda: harness.listens_to(guest))
    befall(guest)
    guest.wait_for("a sighting", lambda: bool(harness.seen))
    time.sleep(0.2)

    assert [(each.vm, each.what, each.detail) for each in harness.seen] == [("web-0", what, detail)]


def test_our_own_move_is_not_seen_as_a_crash(harness: ImpactHarness) -> None:
    """What the driver itself does at the other end, where it fails too, is no sighting of the VM."""
    harness.guest_harness.restored("web-0")
    harness.driver.watch(harness.seen.append)
    harness.guest_harness.site.describe("web-0", 0, memory=64)

    assert isinstance(carried_out(harness.driver, impact(EventType.REDEPLOY, candidates=("h2",))), ImpactFailed)
    time.sleep(0.2)
    assert harness.seen == []


def test_a_check_tells_who_cannot_be_reached_and_disturbs_nobody(harness: ImpactHarness) -> None:
    """A machine that a service talks to is fine; one that died, or never was, is named with the remedy."""
    guest = harness.guest_harness.restored("web-0")
    harness.driver.watch(harness.seen.append)
    guest.wait_for("the driver to listen", lambda: harness.listens_to(guest))
    vms = (
        Vm("web-0", "web", host="h1"),
        Vm("web-1", "web", host="h1"),
        Vm("off", "web", host="h1", deallocated=True),
    )

    (missing,) = harness.driver.check(vms)
    assert missing.startswith(
        f"web-1 has no monitor at {harness.guest_harness.site.place('web-1', 'h1', 'qmp')}; start it"
    )
    guest.kill()
    assert harness.driver.check(vms)[0].startswith("the monitor of web-0 at ")


def switched(harness: ImpactHarness, *, on: bool) -> ImpactOutcome:
    vm = Vm("web-0", "web", host="h1")
    outcome = harness.driver.switch(vm, on=on)
    while isinstance(outcome, ImpactUnderway):
        time.sleep(0.1)
        outcome = harness.driver.switch(vm, on=on)
    return outcome


def test_a_guest_is_stopped_and_started_as_asked(harness: ImpactHarness) -> None:
    """Asked again, nothing is done a second time; what could not be started again is not stopped."""
    guest = harness.guest_harness.restored("web-0")
    assert switched(harness, on=True) == ImpactDone(detail="it ran already")
    harness.driver.close()
    harness.make(start=[])
    assert switched(harness, on=False) == ImpactFailed(
        "there is no command to start web-0; set 'start' of driver 'qemu'"
    )
    assert guest.status() == "running"

    harness.driver.close()
    harness.make()
    assert isinstance(switched(harness, on=False), ImpactDone)
    assert switched(harness, on=False) == ImpactDone(detail="it did not run")
    assert switched(harness, on=True) == ImpactDone()
    assert guest.status() == "running"


def test_a_guest_that_is_off_stays_off_when_its_host_reboots(harness: ImpactHarness) -> None:
    """The other guests of the event are rebooted all the same."""
    other = harness.guest_harness.restored("web-1")
    asked = impact(EventType.REBOOT, "web-0", "web-1", operation="host reboot")
    done = carried_out(harness.driver, asked)

    assert isinstance(done, ImpactDone)
    assert "web-0: it did not run and stays off" in done.detail
    assert other.status() == "running"
    assert not harness.guest_harness.site.place("web-0", "h1", "qmp").exists()
