"""The clock: every NotBefore is only as right as it is."""

import ctypes
import sys

from forewarn.cli.doctoring.finding import Findings

_UNSYNCHRONIZED = 5
_SIZE = 1024
"""More than the kernel's record takes; all zero, it asks and changes nothing."""


def examine_clock(findings: Findings) -> None:
    state = _state()
    if state is None or state < 0:
        findings.unsure("clock", "this system does not tell whether its clock is synchronized; see that it is")
    elif state == _UNSYNCHRONIZED:
        findings.unsure("clock", "the kernel does not know it to be synchronized; run chrony or systemd-timesyncd")
    else:
        findings.ok("clock", "synchronized")


def _state() -> int | None:
    """Return what the kernel says of its clock; None where it cannot be asked."""
    if sys.platform != "linux":
        return None
    try:
        return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_SIZE)))
    except (OSError, AttributeError):
        return None
