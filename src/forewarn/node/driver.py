"""What the node asks of a driver, the part that touches real machines.

    Attempted is durable
          │
       perform ──▶ Done | Failed                    the event ends
          │
          └──────▶ Underway ──▶ outcome_of at check_at, and so on until it ends

After a crash or a change of leader ``outcome_of`` comes first; only on ``NotBegun`` does ``perform`` follow.
"""

from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec

from forewarn.clocks import Clock
from forewarn.core.model import Event, Vm


class Impact(msgspec.Struct, frozen=True):
    """What a driver is asked to do."""

    event: Event
    vms: tuple[Vm, ...]
    """The VMs of the event that are still there and not deallocated."""
    attempted_at: datetime
    """When the latest attempt was recorded."""


class Done(msgspec.Struct, frozen=True):
    """The impact is over, as announced."""

    hosts: dict[str, str] = {}
    """The host each moved VM stands on now."""
    detail: str = ""


class Failed(msgspec.Struct, frozen=True):
    """The impact did not come about."""

    reason: str


class Underway(msgspec.Struct, frozen=True):
    """The impact was begun and is not over."""

    check_at: datetime
    """When it is worth asking again."""


class NotBegun(msgspec.Struct, frozen=True):
    """Nothing was done yet, so that it is safe to perform."""


class Unknowable(msgspec.Struct, frozen=True):
    """Nobody can tell what was done; the event ends Failed and is not repeated."""

    reason: str = ""


Outcome = Done | Failed | Underway | NotBegun | Unknowable


class Driver(Protocol):
    """Does the impact of events to machines. Its methods are called from several threads at once."""

    moves_live: bool
    """Whether it moves a running guest to another host without a restart."""

    def perform(self, impact: Impact) -> Outcome:
        """Do the impact, once.

        Blocks for a bounded time; returns ``Underway`` when the impact lasts longer. Called again for the
        same event id, it does nothing a second time and returns what has come of the first call.
        """

    def outcome_of(self, impact: Impact) -> Outcome:
        """Tell what came of an impact, perhaps begun by an earlier process; never do anything to a machine.

        ``NotBegun`` is a promise that performing it now does not repeat anything. A driver that cannot
        promise it returns ``Unknowable``.
        """

    def close(self) -> None:
        """Let go of everything held, and make calls that still block return soon. Impacts under way go on."""


class DriverType(Protocol):
    """What an entry point of the group ``forewarn.drivers`` names: a class that makes drivers."""

    def from_settings(
        self, settings: dict[str, object], clock: Clock, hurry: float, directory: Path | None = None
    ) -> Driver:
        """Make a driver; ``BadInput`` names the setting that is wrong or unknown, and the remedy.

        ``hurry`` divides simulated durations. In ``directory``, which the driver makes when it needs it, it
        keeps what must survive a restart; ``None`` where the node itself keeps nothing.
        """
