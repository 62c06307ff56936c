"""Where something is played: the fleet, how long things take, and what goes wrong."""

from datetime import timedelta

import msgspec

from forewarn.config.settings import Notice
from forewarn.control.wish import Wish
from forewarn.emulator.faults import Fault


class Lasts(msgspec.Struct, frozen=True, kw_only=True):
    """How long an event stays Started, by type; as long as on Azure where nothing else is said."""

    # Azure: medians of July 2025 are ten minutes from Started to gone, five for a live migration.
    freeze: timedelta = timedelta(minutes=10)
    reboot: timedelta = timedelta(minutes=10)
    redeploy: timedelta = timedelta(minutes=10)
    preempt: timedelta = timedelta(seconds=5)
    terminate: timedelta = timedelta(seconds=5)


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """What is there before anything happens."""

    fleet: Wish
    notice: Notice = Notice()
    """The least notice of each type of event."""
    lasts: Lasts = Lasts()
    user_operation_limit: int = 0
    enrolled: bool = True
    """Groups are on from the beginning, as if their VMs had asked already."""
    faults: tuple[Fault, ...] = ()
