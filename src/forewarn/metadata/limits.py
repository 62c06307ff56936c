"""How much one caller, and all callers together, may ask of the service."""

import math
import sys
from typing import Protocol

import msgspec

_SPARE_FILES = 256
"""Files the process needs beside connections: journal, log, drivers."""


_UNLIMITED_FILES = 1 << 20
"""Files to ask for where connections are not limited."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller may do. Durations are whole seconds."""

    rate: float = 5.0
    """Requests per second and VM; 0 is no limit."""
    burst: int = 20
    """Requests a VM may make at once before the rate is felt."""
    connections: int = 16_384
    """Open connections in all; 0 is no limit."""
    connections_per_caller: int = 64
    """Open connections per address; 0 is no limit."""
    arrival: int = 10
    """How long a head may take to arrive, and then a body, and an answer to be taken."""
    idle: int = 75
    """How long a connection may stay open without a request."""
    linger: int = 2
    """How long a refused caller is listened to, so that it can read the refusal."""


class RateLimitedCaller(Protocol):
    """Somebody whose requests are counted."""

    spent_until: float
    """When all requests made so far will have been earned at the permitted rate."""


class RateLimiter:
    """So many requests per second, and a burst of them at once, in one number per caller."""

    def __init__(self, rate: float, burst: int) -> None:
        self.interval = 1 / rate if rate > 0 else 0.0
        self._burst = burst * self.interval
        # A thousandth more than it would be, so that rounding costs nobody a request.
        self._slack = max(burst - 0.999, 0) * self.interval

    def admit(self, who: RateLimitedCaller, now: float) -> int:
        """Count a request and return 0, or count nothing and return the seconds until the next may come."""
        ahead = who.spent_until - now
        if ahead <= 0:
            who.spent_until = now + self.interval
        elif ahead <= self._slack:
            who.spent_until += self.interval
        elif ahead > self._burst + self.interval:
            # Nobody can be that far ahead: the clock was set back. That must not shut anybody out.
            who.spent_until = now + self.interval
        else:
            return max(1, math.ceil(ahead - self._slack))
        return 0


def provide_files(limits: Limits, others: int = 0) -> tuple[int, str]:
    """Raise the number of files this process may open to what the limits need.

    Return the connections that fit, and what to say where those are fewer: beyond them, the journal and the other
    plane would find no file left. ``others`` are connections of that plane.
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
        f"connections = {limits.connections} is more than fits, and counts as {fit}: this process may open"
        f" {hard} files; raise its hard limit (ulimit -Hn, or LimitNOFILE= in a unit) or set connections to {fit}"
    )
