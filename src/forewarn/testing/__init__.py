"""Public test support: scheduled events for an application's tests, contract suites for plugins.

from forewarn.testing import ScheduledEvents

with ScheduledEvents("web-0", "web-1") as events:
    events.vm("web-0").reboot()
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forewarn.testing.scheduled_events import ScheduledEvents

__all__ = ["ScheduledEvents"]


def __getattr__(name: str) -> object:
    """Import the emulator lazily: a contract suite alone does not need it."""
    if name == "ScheduledEvents":
        from forewarn.testing.scheduled_events import ScheduledEvents  # noqa: PLC0415 - see above

        return ScheduledEvents
    raise AttributeError(name)
