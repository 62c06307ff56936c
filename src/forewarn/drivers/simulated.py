"""Driver ``simulated``: touches no machine; an impact lasts for a configured time.

It keeps no state: the outcome follows from the time of the attempt, also after a crash. VMs that are redeployed, or
that were on a failed host, are on another host afterwards, as with a driver of real machines.

Every node computes the same outcome and no call begins anything, so there is no term to fence.
"""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

import msgspec
from msgspec.structs import replace

from forewarn.clocks import Clock
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput
from forewarn.core.model import EventType, Operation, Vm
from forewarn.drivers.candidates import explain_no_candidate, sort_by_preference
from forewarn.node.driver import (
    HostCommand,
    HostCommandEnded,
    HostCommandOutcome,
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactOutcome,
    ImpactUnderway,
    refuse_type,
)

Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]

UNANNOUNCED_FREEZE = 5.0


class SimulatedSettings(msgspec.Struct, frozen=True):
    """Duration of an impact by event type, and whether live migration is simulated."""

    freeze: Seconds | None = None
    """Seconds that a Freeze lasts; the announced duration if not set."""
    reboot: Seconds = 30.0
    """Seconds that a Reboot lasts."""
    redeploy: Seconds = 60.0
    """Seconds that a Redeploy lasts."""
    preempt: Seconds = 5.0
    """Seconds that a Preempt lasts."""
    terminate: Seconds = 5.0
    """Seconds that a Terminate lasts."""
    host_command: Seconds = 30.0
    """Seconds that a command on a host takes."""
    host_command_status: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0
    """The exit status of commands on hosts."""
    moves_live: bool = False
    """Whether guests are reported to move to another host while they run."""


_IMPACTS = frozenset(EventType) & frozenset(SimulatedSettings.__struct_fields__)
"""The types that there is a duration for."""


class SimulatedDriver:
    """Waits instead of changing machines."""

    is_immediate = True
    fences_terms = True

    def __init__(self, settings: SimulatedSettings, clock: Clock, hurry: float) -> None:
        self.moves_live = settings.moves_live
        self._settings = settings
        self._clock = clock
        self._hurry = hurry

    @classmethod
    def from_settings(
        cls, settings: dict[str, object], clock: Clock, hurry: float, directory: Path | None = None
    ) -> Self:
        if hurry <= 0:
            raise BadInput(f"hurry is {hurry}; it divides durations and must be more than 0")
        return cls(read_table("driver 'simulated'", settings, SimulatedSettings), clock, hurry)

    def perform(self, impact: Impact) -> ImpactOutcome:
        return self.outcome_of(impact)

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        if impact.event.type not in _IMPACTS:
            return refuse_type(impact.event)
        lasts = timedelta(seconds=self._seconds(impact) / self._hurry)
        ends_at = impact.attempted_at + lasts
        if self._clock.now() < ends_at:
            return ImpactUnderway(ends_at, f"ends at {ends_at.time().isoformat('seconds')} UTC")
        return (
            _moved(impact)
            if impact.moves and impact.event.operation is not Operation.VM_FAIL
            else ImpactDone(detail="simulated")
        )

    def switch(self, vm: Vm, *, on: bool, term: int = 0) -> ImpactOutcome:
        return ImpactDone(detail="simulated")

    def run_on_host(self, command: HostCommand) -> HostCommandOutcome:
        return self.outcome_on_host(command)

    def outcome_on_host(self, command: HostCommand) -> HostCommandOutcome:
        ends_at = command.attempted_at + timedelta(seconds=self._settings.host_command / self._hurry)
        if self._clock.now() < ends_at:
            return ImpactUnderway(ends_at)
        return HostCommandEnded(self._settings.host_command_status, "simulated")

    def close(self) -> None:
        pass

    def _seconds(self, impact: Impact) -> float:
        seconds: float | None = getattr(self._settings, impact.event.type)
        if seconds is not None:
            return seconds
        return float(impact.event.duration) if impact.event.duration >= 0 else UNANNOUNCED_FREEZE


def _moved(impact: Impact) -> ImpactOutcome:
    """Return the new host of each VM; a VM without a host, or without a candidate, stays where it is."""
    candidates = {candidate.host.name: candidate for candidate in impact.candidates}
    if impact.is_failure and not candidates:
        return ImpactFailed("no other host is up; declare or repair one")
    hosts: dict[str, str] = {}
    for vm in impact.vms:
        planned = impact.event.placements.get(vm.name)
        if planned and planned not in candidates:
            return ImpactFailed(explain_no_candidate(vm, impact.event), hosts)
        if vm.standing_on and candidates:
            best = candidates[planned] if planned else sort_by_preference(vm, candidates.values())[0]
            candidates[best.host.name] = replace(best, vms=(*best.vms, vm))
            hosts[vm.name] = best.host.name
    return ImpactDone(hosts, "simulated")
