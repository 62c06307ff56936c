"""Where something is played: the fleet, how long things take, and what goes wrong."""

from datetime import timedelta

import msgspec

from forewarn.config.settings import NoticeSettings
from forewarn.emulator.faults import Fault
from forewarn.fleetfile.parser import DesiredFleet


class ImpactDurations(msgspec.Struct, frozen=True, kw_only=True):
    """How long an event stays Started, by type; as long as on Azure where nothing else is said."""

    # Azure: medians of July 2025 are ten minutes from Started to gone, five for a live migration.
    freeze: timedelta = timedelta(minutes=10)
    reboot: timedelta = timedelta(minutes=10)
    redeploy: timedelta = timedelta(minutes=10)
    preempt: timedelta = timedelta(seconds=5)
    terminate: timedelta = timedelta(seconds=5)


class EmulationSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What is there before anything happens."""

    fleet: DesiredFleet
    notice: NoticeSettings = NoticeSettings()
    """The least notice of each type of event."""
    lasts: ImpactDurations = ImpactDurations()
    user_operation_limit: int = 0
    enrolled: bool = True
    """Groups are on from the beginning, as if their VMs had asked already."""
    faults: tuple[Fault, ...] = ()
