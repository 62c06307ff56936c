"""A machine starts over once, whether it listens or not, whenever a crash comes."""

import libvirt
import pytest

from forewarn.core.model import EventType, Vm
from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.drivers.libvirt.problems import LibvirtProblem, LibvirtUnreachable
from forewarn.node.driver import Impact, ImpactDone, ImpactFailed, ImpactUnknown
from tests.drivers.impacts import carried_out
from tests.drivers.libvirt.machines import Machines, crash_after, when_ended

STARTED = libvirt.VIR_DOMAIN_EVENT_STARTED, libvirt.VIR_DOMAIN_EVENT_STARTED_BOOTED
WENT_ON = libvirt.VIR_DOMAIN_EVENT_RESUMED, libvirt.VIR_DOMAIN_EVENT_RESUMED_UNPAUSED
BY_BUTTON = ["asking", "ask_to_go_down", "asked", "starting", "start_as", "started"]
BY_RESET = ["asking", "halting", "resetting", "reset", "resume", "reset"]


def steps_of(machines: Machines, asked: Impact) -> list[str]:
    return [step.name for step in machines.driver()._executor._progress_store.read(asked.event.id).steps]


def deaf(patch: pytest.MonkeyPatch) -> None:
    """Let machines hear no power button."""
    for name in ("ask_to_go_down", "ask_to_reboot"):
        patch.setattr(LibvirtGuest, name, lambda _: None)


def asked_in_place(machines: Machines, vm: Vm, asked: Impact) -> None:
    """Write down that a machine which may not be off was asked by somebody who died."""
    with machines.driver()._executor._progress_store.held(asked.event.id) as progress_file:
        progress_file.begin(asked)
        seen = {"id": str(machines.domain(vm).ID()), "ear": "another", "reboots": "0"}
        progress_file.note("asking", vm.name, in_place="yes", definition="", **seen)


def test_a_machine_that_listens_goes_down_and_is_started(machines: Machines) -> None:
    """Its other id is the trace that every later driver finds."""
    vm = machines.define()
    before = machines.domain(vm).ID()
    asked = machines.impact(EventType.REBOOT, vm)

    assert carried_out(machines.driver(), asked) == ImpactDone()
    assert steps_of(machines, asked) == ["asking", "asked", "starting", "started"]
    assert machines.domain(vm).ID() not in {before, -1}
    assert machines.domain(vm).isPersistent()


@pytest.mark.parametrize("points", range(1, len(BY_BUTTON) + 1))
def test_a_reboot_cut_off_anywhere_is_done_once(
    machines: Machines, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was the last thing written down or done, the machine starts once and its outcome is known."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    assert crash_after(machines.driver(), asked, points, monkeypatch) == BY_BUTTON[:points]

    assert when_ended(machines.driver(), asked) == ImpactDone()
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING
    assert machines.times(vm.name, *STARTED) == 2


@pytest.mark.parametrize("points", range(1, len(BY_RESET) + 1))
def test_a_reset_cut_off_anywhere_is_done_once(
    machines: Machines, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine goes on once, and is never reset after it went on."""
    vm = machines.define()
    machines.domain(vm).suspend()
    asked = machines.impact(EventType.REBOOT, vm)
    assert crash_after(machines.driver(), asked, points, monkeypatch) == BY_RESET[:points]
    states = []
    monkeypatch.setattr(LibvirtGuest, "reset", lambda _: states.append(machines.state(vm)))

    assert isinstance(when_ended(machines.driver(), asked), ImpactDone)
    assert set(states) <= {libvirt.VIR_DOMAIN_PAUSED}
    assert bool(states) == (points < BY_RESET.index("resume") + 1)
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING
    assert machines.times(vm.name, *WENT_ON) == 1


def test_a_machine_that_does_not_listen_is_reset(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """When its grace is over it is paused, reset and let go on, and the detail says so."""
    deaf(monkeypatch)
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)

    assert carried_out(machines.driver(grace="0s"), asked) == ImpactDone(
        detail=f"{vm.name} did not shut down within 0 s"
    )
    assert steps_of(machines, asked) == ["asking", "asked", "halting", "resetting", "reset"]
    assert machines.times(vm.name, *WENT_ON) == 1


@pytest.mark.end_to_end  # the grace must be longer than a busy machine takes to start a machine
def test_none_stays_off_while_another_takes_its_time(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has gone down is started at once; the others have their grace."""
    slow, quick = machines.define(), machines.define()
    press = LibvirtGuest.ask_to_go_down
    monkeypatch.setattr(LibvirtGuest, "ask_to_go_down", lambda guest: guest.name == quick.name and press(guest))
    asked = machines.impact(EventType.REBOOT, slow, quick)
    carried_out(machines.driver(grace="4s"), asked)

    steps = machines.driver()._executor._progress_store.read(asked.event.id).steps
    order = [(step.name, step.vm) for step in steps]
    assert order.index(("started", quick.name)) < order.index(("halting", slow.name))


def test_what_a_machine_was_given_while_it_ran_stays(machines: Machines) -> None:
    """It starts with what it ran with, and its lasting definition waits for its next start."""
    vm = machines.define()
    text = machines.domain(vm).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    machines.connection.defineXML(text.replace("<on_crash>destroy", "<on_crash>restart"))

    assert carried_out(machines.driver(), machines.impact(EventType.REBOOT, vm)) == ImpactDone()
    assert "<on_crash>destroy" in machines.domain(vm).XMLDesc()
    assert "<on_crash>restart" in machines.domain(vm).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)


def test_a_machine_that_cannot_start_as_it_was_starts_as_defined(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No machine stays off for a disk that was plugged in and is gone."""

    def refuse(_: LibvirtGuest, __: str) -> None:
        raise LibvirtProblem("no such disk")

    monkeypatch.setattr(LibvirtGuest, "start_as", refuse)
    vm = machines.define()

    assert carried_out(machines.driver(), machines.impact(EventType.REBOOT, vm)) == ImpactDone(
        detail=f"{vm.name} did not start as before (no such disk) and was started as defined"
    )
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING


def test_a_machine_that_does_not_start_at_all_is_said_to_be_off(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event fails, and nobody need look where the machine is."""

    def refuse(*_: object) -> None:
        raise LibvirtProblem("no room")

    monkeypatch.setattr(LibvirtGuest, "start_as", refuse)
    monkeypatch.setattr(LibvirtGuest, "start", refuse)
    vm = machines.define()

    assert carried_out(machines.driver(), machines.impact(EventType.REBOOT, vm)) == ImpactFailed(
        f"{vm.name} is off: no room"
    )


@pytest.mark.parametrize("deed", ["ask_to_go_down", "state", "start_as"])
def test_a_host_that_goes_away_half_way_is_waited_for(
    machines: Machines, deed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that was asked to go down does not stay off because nobody could be reached for a moment."""
    vm = machines.define()
    do, silences = getattr(LibvirtGuest, deed), [deed] * 2

    def do_or_not(guest: LibvirtGuest, *given: object) -> object:
        has_begun = deed != "state" or machines.state(vm) == libvirt.VIR_DOMAIN_SHUTOFF
        if silences and has_begun:
            silences.pop()
            raise LibvirtUnreachable("libvirt on h1 cannot be reached")
        return do(guest, *given)

    monkeypatch.setattr(LibvirtGuest, deed, do_or_not)

    assert carried_out(machines.driver(), machines.impact(EventType.REBOOT, vm)) == ImpactDone()
    assert not silences
    assert machines.times(vm.name, *STARTED) == 2


def test_a_host_that_stays_away_is_not_waited_for_for_ever(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event fails, and says which machine is to be looked at."""

    def refuse(*_: object) -> None:
        raise LibvirtUnreachable("libvirt on h1 cannot be reached")

    monkeypatch.setattr(LibvirtGuest, "start_as", refuse)
    vm = machines.define()

    assert carried_out(machines.driver(longest="0s"), machines.impact(EventType.REBOOT, vm)) == ImpactFailed(
        f"libvirt on h1 cannot be reached; the work was left incomplete; check {vm.name}"
    )


def test_a_machine_that_libvirt_does_not_keep_is_not_let_go_down(machines: Machines) -> None:
    """It starts over in place, for once off it would be gone."""
    vm = machines.define()
    machines.domain(vm).undefine()
    asked = machines.impact(EventType.REBOOT, vm)

    assert isinstance(carried_out(machines.driver(grace="0s"), asked), ImpactDone)
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING
    assert steps_of(machines, asked)[:2] == ["asking", "asked"]


def test_a_machine_that_starts_over_by_itself_is_not_let_go_down(machines: Machines) -> None:
    """Where libvirt is told to bring it up again, nobody else does."""
    vm = machines.define()
    text = machines.domain(vm).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    machines.domain(vm).destroy()
    machines.connection.defineXML(text.replace("<on_poweroff>destroy", "<on_poweroff>restart"))
    machines.domain(vm).create()
    asked = machines.impact(EventType.REBOOT, vm)

    assert isinstance(carried_out(machines.driver(grace="0s"), asked), ImpactDone)
    asking = machines.driver()._executor._progress_store.read(asked.event.id).step("asking", vm.name)
    assert asking
    assert asking.seen["in_place"] == "yes"


def test_nothing_is_reset_on_suspicion(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Perhaps asked in place before a crash, and nothing heard after it: nobody knows, and nobody asks again."""
    pressed: list[str] = []
    monkeypatch.setattr(LibvirtGuest, "ask_to_reboot", lambda guest: pressed.append(guest.name))
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    asked_in_place(machines, vm, asked)

    assert when_ended(machines.driver(grace="0s"), asked) == ImpactUnknown(
        f"{vm.name} was asked to reboot; its host disconnected, so the result is unknown"
    )
    assert steps_of(machines, asked) == ["asking", "asked"]
    assert not pressed


def test_a_machine_that_was_started_since_has_started_over(machines: Machines) -> None:
    """Another id tells it, also of one that was to start over in place."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    asked_in_place(machines, vm, asked)
    machines.domain(vm).destroy()
    machines.domain(vm).create()

    assert when_ended(machines.driver(), asked) == ImpactDone()


def test_a_machine_that_is_off_is_started_by_a_reboot(machines: Machines) -> None:
    """Who asks for a restart wants it to run."""
    vm = machines.define(starts=False)

    assert carried_out(machines.driver(), machines.impact(EventType.REBOOT, vm)) == ImpactDone(
        detail=f"{vm.name} did not run and was started"
    )
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_machine_that_is_off_stays_off_when_its_host_reboots(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, *, is_cut_off: bool
) -> None:
    """Maintenance starts nothing that did not run; the others start over."""
    off, running = machines.define(starts=False), machines.define()
    asked = machines.impact(EventType.REBOOT, off, running, operation="host reboot")
    if is_cut_off:
        crash_after(machines.driver(), asked, 1, monkeypatch)

    done = when_ended(machines.driver(), asked) if is_cut_off else carried_out(machines.driver(), asked)
    assert done == ImpactDone(detail="" if is_cut_off else f"{off.name} did not run and stays off")
    assert machines.state(off) == libvirt.VIR_DOMAIN_SHUTOFF
    assert machines.times(off.name, *STARTED) == 0
    assert machines.times(running.name, *STARTED) == 2


@pytest.mark.parametrize("points", [1, 2, 3])
def test_a_start_cut_off_is_no_reason_for_a_reboot(
    machines: Machines, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that was off is started once, and then left alone."""
    vm = machines.define(starts=False)
    asked = machines.impact(EventType.REBOOT, vm)
    crash_after(machines.driver(), asked, points, monkeypatch)

    assert when_ended(machines.driver(), asked) == ImpactDone()
    assert machines.times(vm.name, *STARTED) == 1


def test_a_machine_that_somebody_took_away_meanwhile_is_missed(machines: Machines) -> None:
    """Its absence is not taken for a start."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    asked_in_place(machines, vm, asked)
    machines.domain(vm).undefine()
    machines.domain(vm).destroy()

    assert when_ended(machines.driver(), asked) == ImpactFailed(
        f"libvirt on h1 has no domain {vm.name}; list its domains with 'virsh list --all'"
    )
