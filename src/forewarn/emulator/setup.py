"""The initial state of an emulation: fleet, notices, durations and faults."""

from datetime import timedelta

import msgspec

from forewarn.config.settings import NoticeSettings
from forewarn.emulator.faults import Fault
from forewarn.fleetfile.parser import DesiredFleet


class ImpactDurations(msgspec.Struct, frozen=True, kw_only=True):
    """How long an event stays Started, by type; the defaults are Azure's."""

    # Azure: medians of July 2025 are ten minutes from Started to gone, five for a live migration.
    freeze: timedelta = timedelta(minutes=10)
    reboot: timedelta = timedelta(minutes=10)
    redeploy: timedelta = timedelta(minutes=10)
    preempt: timedelta = timedelta(seconds=5)
    terminate: timedelta = timedelta(seconds=5)


class EmulationSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The initial state of an emulation."""

    fleet: DesiredFleet
    notice: NoticeSettings = NoticeSettings()
    """The least notice of each type of event."""
    lasts: ImpactDurations = ImpactDurations()
    user_operation_limit: int = 0
    enrolled: bool = True
    """Whether groups are enrolled from the start."""
    faults: tuple[Fault, ...] = ()
