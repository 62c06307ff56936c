"""What the node asks of a driver, the part that touches real machines.

    Attempted is durable
          │
       perform ──▶ Done | Failed                    the event ends
          │
          └──────▶ Underway ──▶ outcome_of at check_at, and so on until it ends

After a crash or a change of leader ``outcome_of`` comes first; only on ``ImpactNotBegun`` does ``perform`` follow.

A driver that observes machines says so by having ``watch``; one that can move a guest to a host that is
named, by a true ``moves_to_host``; one that never waits, by a true ``is_immediate``; one that refuses a leader that
was replaced, by a true ``fences_terms``.
"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from forewarn.clocks import Clock
from forewarn.core.event_types import moves_vms
from forewarn.core.model import Event, Host, Observation, Vm
from forewarn.core.placement import Capacity


class CandidateHost(msgspec.Struct, frozen=True):
    """A host that VMs of an event may be moved to. Whether there is room, the driver finds out."""

    host: Host
    vms: tuple[Vm, ...] = ()
    """The VMs of the event's group that stand there; one of another update or fault domain is a reason against it."""


class Impact(msgspec.Struct, frozen=True, omit_defaults=True, rename={"candidates": "berths"}):
    """What a driver is asked to do.

    Programs and stored records have its fields as JSON: the first five always, which is what the factories are for.
    """

    event: Event
    vms: tuple[Vm, ...]
    """The VMs of the event that are still there and not deallocated."""
    attempted_at: datetime
    """When the latest attempt was recorded."""
    deletes: bool = msgspec.field(default_factory=bool)
    """Whether the machines are to be removed for good, their disks too; else an eviction keeps them."""
    candidates: tuple[CandidateHost, ...] = msgspec.field(default_factory=lambda: ())
    """The other hosts of the fleet that have not failed and are not cordoned, where the event moves its VMs; only
    those that were named, where any was; empty for every other event."""
    term: int = 0
    """The term of the leader that asks; it grows with each change of leader. 0: there is no other node."""
    attempt: int = 0
    """The number of the latest attempt for this event; 1 for the first."""
    attempted_elsewhere: bool = False
    """Whether another node made the latest attempt, so that records on this one do not tell what came of it."""

    @property
    def moves(self) -> bool:
        """Whether the VMs are to leave their host."""
        return moves_vms(self.event)

    def candidates_for(self, vm: Vm) -> tuple[CandidateHost, ...]:
        """Return the hosts that a VM may be moved to: only the one that was planned for it, where one was."""
        planned = self.event.placements.get(vm.name)
        return tuple(candidate for candidate in self.candidates if planned in (None, candidate.host.name))

    @property
    def leaves_off(self) -> bool:
        """Whether a machine that is off stays off: maintenance of its host does not start it."""
        return self.event.operation.is_of_host and not self.is_failure

    @property
    def is_failure(self) -> bool:
        """Whether the machines are lost already, so that they can only be started anew."""
        return self.event.operation.is_failure


class ImpactDone(msgspec.Struct, frozen=True):
    """The impact is over, as announced."""

    hosts: dict[str, str] = {}
    """The host each moved VM stands on now."""
    detail: str = ""


class ImpactFailed(msgspec.Struct, frozen=True):
    """The impact did not come about, or not for all."""

    reason: str
    hosts: dict[str, str] = {}
    """The host each VM stands on now that was moved all the same."""


def refuse_type(event: Event) -> ImpactFailed:
    """Return what a driver says to a type of event that it has no impact for."""
    return ImpactFailed(f"the driver does not know events of type {event.type}, so nothing was done")


class ImpactUnderway(msgspec.Struct, frozen=True):
    """The impact was begun and is not over."""

    check_at: datetime
    """When it is worth asking again."""
    progress: str = ""
    """How far it is, in the driver's words; such as ``43 % of its memory is moved``."""


class ImpactNotBegun(msgspec.Struct, frozen=True):
    """Nothing was done yet, so that it is safe to perform."""


class ImpactUnknown(msgspec.Struct, frozen=True):
    """It cannot be determined what was done; the event ends Failed and is not repeated."""

    reason: str = ""


ImpactOutcome = ImpactDone | ImpactFailed | ImpactUnderway | ImpactNotBegun | ImpactUnknown


class Driver(Protocol):
    """Does the impact of events to machines. Its methods are called from several threads at once."""

    moves_live: bool
    """Whether it moves a running guest to another host without a restart."""

    def perform(self, impact: Impact) -> ImpactOutcome:
        """Do the impact, once.

        Blocks for a bounded time; returns ``ImpactUnderway`` when the impact lasts longer. Called again for the
        same event id, it does nothing a second time and returns what has come of the first call.
        """

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        """Tell what came of an impact, perhaps begun by an earlier process; never begin anything.

        What a crash left half-done it may finish, such as to let a guest go on that is still frozen.
        ``ImpactNotBegun`` is a promise that performing it now does not repeat anything. A driver that cannot
        promise it returns ``ImpactUnknown``.
        """

    def close(self) -> None:
        """Let go of everything held, and make calls that still block return soon. Impacts under way go on."""


def moves_to_host(driver: Driver) -> bool:
    """Return whether a driver can move a guest to the one host it is given; most drivers do not say so."""
    return bool(getattr(driver, "moves_to_host", False))


def is_immediate(driver: Driver) -> bool:
    """Return whether no call of a driver waits for anything, as it says by a true ``is_immediate``.

    Such a driver is called on the event loop, without a thread, and an attempt is recorded together with the start of
    its event.
    """
    return bool(getattr(driver, "is_immediate", False))


def fences_terms(driver: Driver) -> bool:
    """Return whether a driver refuses a leader that was replaced, as it says by a true ``fences_terms``.

    Such a driver stores the highest term that it was called with, at the machine or on the machine's host: in
    ``perform`` atomically with the beginning, in ``outcome_of`` before the answer. A call of a lower term begins
    nothing and returns ``ImpactUnknown``. What was begun is known there too, by the event's id, to whichever node
    asks. No other driver is called for an event that another leader has attempted.
    """
    return bool(getattr(driver, "fences_terms", False))


def has_local_records(driver: Driver) -> bool:
    """Return whether records on its node's disk, locked against other processes, say what was begun from that node.

    Such a driver is asked for the outcome of an event that its own node attempted in an earlier term, although it
    does not fence terms. It is not called to perform it.
    """
    return bool(getattr(driver, "has_local_records", False))


@runtime_checkable
class SupportsPower(Protocol):
    """What a driver has that starts and stops single VMs; one that has it and must not use it sets ``switches``."""

    def switch(self, vm: Vm, *, on: bool) -> ImpactOutcome:
        """Bring a VM to where it is to be, on or off, and return ``ImpactDone`` once it is there.

        It is called again after ``ImpactUnderway``, after a crash and after a change of leader: a VM that is
        there already is left alone. A VM that could not be started again is not stopped. A driver that fences terms
        is also given ``term``, and refuses a lower one than it has seen.
        """


def can_switch(driver: Driver) -> bool:
    """Return whether a driver starts and stops VMs; ``switches = False`` says that it does not."""
    return isinstance(driver, SupportsPower) and bool(getattr(driver, "switches", True))


class HostCommand(msgspec.Struct, frozen=True):
    """A command that a driver is asked to run on a host."""

    id: str
    """It stays the same when it is asked for again after a crash."""
    host: Host
    command: str
    """What an operator wrote; the driver knows how it is run there."""
    timeout: int
    """Seconds after which it is to be stopped."""
    attempted_at: datetime
    term: int = 0
    """The term of the leader that asks; 0 where one node has the journal for itself."""


class HostCommandEnded(msgspec.Struct, frozen=True):
    """A command on a host has ended by itself."""

    exit_status: int
    output: str = ""


HostCommandOutcome = HostCommandEnded | ImpactFailed | ImpactUnderway | ImpactNotBegun | ImpactUnknown


@runtime_checkable
class SupportsHostCommands(Protocol):
    """What a driver has that runs commands on hosts; one that has it and must not use it sets ``runs_commands``."""

    def run_on_host(self, command: HostCommand) -> HostCommandOutcome:
        """Run a command on a host, once; the same rules as for ``perform``."""

    def outcome_on_host(self, command: HostCommand) -> HostCommandOutcome:
        """Tell what came of a command, perhaps begun by an earlier process; never begin anything."""


def can_run_commands(driver: Driver) -> bool:
    """Return whether a driver runs commands on hosts; ``runs_commands = False`` says that it does not."""
    return isinstance(driver, SupportsHostCommands) and bool(getattr(driver, "runs_commands", True))


@runtime_checkable
class SupportsCapacity(Protocol):
    """What a driver has that knows the room on hosts."""

    def capacity(self, vms: tuple[Vm, ...], hosts: tuple[Host, ...]) -> Capacity:
        """Return what these VMs take and what these hosts have left, each without the other.

        Looks only, and takes a bounded time. A host that does not answer is unusable, with the reason.
        """


@runtime_checkable
class SupportsObservation(Protocol):
    """What a driver has that observes changes of machines that it did not make."""

    def watch(self, report: Callable[[Observation], None]) -> None:
        """Begin to report what happens to machines, from threads of its own, until it is closed.

        Called once. What an impact of its own makes visible is reported before the
        outcome of that impact is returned, or not at all: as long as the impact is under way it explains itself.
        """


@runtime_checkable
class SupportsResync(Protocol):
    """What a driver has that can tell again how the machines are that it watches."""

    def resync(self) -> None:
        """Report once more what ``watch`` reports when it begins: machines that are dead, and where the others are.

        Called after ``watch``, when this process leads again: what was reported since it led last is not on record
        here, and what happened while no node led is nowhere. The present state counts, so that a machine that was
        repaired meanwhile is not repaired again. The reports may come later than the call returns.
        """


@runtime_checkable
class SupportsLocation(Protocol):
    """What a driver has that looks for machines on all hosts of the fleet."""

    def know_hosts(self, names: tuple[str, ...]) -> None:
        """Take the names of all hosts of the fleet: at the start, and when they change. Returns at once."""


@runtime_checkable
class SupportsCheck(Protocol):
    """What a driver has that can tell whether it gets at its machines."""

    def check(self, vms: tuple[Vm, ...]) -> tuple[str, ...]:
        """Return what keeps it from these machines, one sentence each that names the remedy; nothing if nothing does.

        Looks only, and takes a bounded time; a service that uses the same machines may run meanwhile.
        """


@runtime_checkable
class SupportsSettingsCheck(Protocol):
    """What a driver type has that can tell more of its settings than that they can be read."""

    def check_settings(self, settings: dict[str, object], *, is_running: bool) -> tuple[str, ...]:
        """Return what would keep such a driver from its work, one sentence each that names the remedy.

        Makes no driver: where a service ``is_running``, that one holds what another would claim. Raises what
        ``from_settings`` would; looks only, does no harm, and takes a bounded time.
        """


class DriverType(Protocol):
    """What an entry point of the group ``forewarn.drivers`` names: a class that makes drivers."""

    def from_settings(
        self, settings: dict[str, object], clock: Clock, hurry: float, directory: Path | None = None
    ) -> Driver:
        """Make a driver; ``BadInput`` names the setting that is wrong or unknown, and the remedy.

        ``hurry`` divides simulated durations. In ``directory``, which the driver makes when it needs it, it
        keeps what must survive a restart; ``None`` where the node itself keeps nothing.
        """
