"""Checks the system clock: whether it is synchronized, and whether a wrong clock has announced events."""

import ctypes
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from forewarn.cli.doctoring.finding import DoctorReport

if TYPE_CHECKING:
    from forewarn.audit.timeline import EventView

_FAR = timedelta(days=365)
_UNSYNCHRONIZED = 5
_SIZE = 1024
"""More than the kernel's record takes; all zero, it asks and changes nothing."""


def examine_clock(findings: DoctorReport) -> None:
    state = _state()
    if state is None or state < 0:
        findings.unsure(
            "clock", "this system does not report whether its clock is synchronized; make sure that it is"
        )
    elif state == _UNSYNCHRONIZED:
        findings.unsure("clock", "the kernel reports it as not synchronized; run chrony or systemd-timesyncd")
    else:
        findings.ok("clock", "synchronized")


def examine_events(events: "Iterable[EventView]", findings: DoctorReport) -> None:
    """Report events with a NotBefore more than a year ahead, which a wrong clock may have announced."""
    now = datetime.now(UTC)
    for event in events:
        if event.not_before is not None and event.not_before - now > _FAR:
            findings.wrong(
                "events",
                f"event {event.id} of {', '.join(event.resources)} is not to start before "
                f"{event.not_before:%Y-%m-%dT%H:%M:%SZ}, more than a year ahead; if a wrong clock announced it, "
                f"take it back with: forewarn event cancel {event.id}",
            )


def _state() -> int | None:
    """Return the kernel's clock state; None where it is not available."""
    if sys.platform != "linux":
        return None
    try:
        return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_SIZE)))
    except (OSError, AttributeError):
        return None
