"""Limits on requests and connections: rate per VM, connections per caller and in total."""

import math
import sys
from typing import Protocol

import msgspec

_SPARE_FILES = 256
"""File descriptors that the process needs beside connections: journal, log, drivers."""


_UNLIMITED_FILES = 1 << 20
"""File descriptors to request if connections are unlimited."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of callers. Durations are whole seconds."""

    rate: float = 5.0
    """Requests per second and VM; 0 is no limit."""
    burst: int = 20
    """Requests a VM may make at once before the rate applies."""
    connections: int = 16_384
    """Open connections in all; 0 is no limit."""
    connections_per_caller: int = 64
    """Open connections per address; 0 is no limit."""
    arrival: int = 10
    """Timeout for a head to arrive, then for a body, and for a response to be read."""
    idle: int = 75
    """Timeout of a connection without a request."""
    linger: int = 2
    """How long to read on after an error response, so that the caller can read it."""


class RateLimitedCaller(Protocol):
    """A caller with counted requests."""

    spent_until: float
    """When all requests made so far are covered by the permitted rate."""


class RateLimiter:
    """Rate limiter with a burst; needs one number per caller."""

    def __init__(self, rate: float, burst: int) -> None:
        self.step = 1 / rate if rate > 0 else 0.0
        """Seconds of the permitted rate that a request costs."""
        self.interval = self.step
        """Seconds after a request for which ``admit`` decides; a later one needs no decision."""
        self.burst = burst * self.step
        self.longest = self.burst + self.step
        """Seconds that a caller can be ahead of its rate at most."""
        # A thousandth more, so that rounding never costs a request.
        self._slack = max(burst - 0.999, 0) * self.step

    def admit(self, who: RateLimitedCaller, now: float) -> int:
        """Count a request and return 0, or count nothing and return the seconds until the next may come."""
        ahead = who.spent_until - now + self.step - self.interval
        if ahead <= 0:
            who.spent_until = now + self.interval
        elif ahead <= self._slack:
            who.spent_until += self.step
        elif ahead > self.longest:
            # No caller can be that far ahead: the clock was set back. That must not lock the caller out.
            who.spent_until = now + self.interval
        else:
            return math.ceil(ahead - self._slack)
        return 0


def provide_files(limits: Limits, others: int = 0) -> tuple[int, str]:
    """Raise the limit of open files of this process to what ``limits`` needs.

    Return the number of connections that fit, and a warning if they are fewer than configured: beyond that number the
    journal and the control plane could not open files. ``others`` is the number of connections of the control plane.
    """
    try:
        import resource  # noqa: PLC0415 - Windows has none, and no such limit
    except ImportError:
        return limits.connections, ""
    spare = _SPARE_FILES + others
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    needed = limits.connections + spare if limits.connections else min(most, _UNLIMITED_FILES)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, most), hard))
    if needed <= most:
        return limits.connections, ""
    fit = max(most - spare, most // 2)
    return fit, (
        f"connections = {limits.connections} does not fit and is reduced to {fit}: this process may open"
        f" {hard} files; raise its hard limit (ulimit -Hn, or LimitNOFILE= in a unit) or set connections to {fit}"
    )
