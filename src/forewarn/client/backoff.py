"""Backoff between requests: growing pauses with jitter, so that VMs do not retry together."""

_FIRST, _LONGEST = 1.0, 15.0
"""Seconds. The notice of a Preempt is 30 s, so pauses are at most half of it unless the service asks for more."""
_JITTER = 0.2


def add_jitter(seconds: float, chance: float) -> float:
    """Return the seconds with up to 20 % of jitter."""
    return seconds * (1 - _JITTER + 2 * _JITTER * chance)


def backoff_seconds(attempt: int, least: float, chance: float) -> float:
    """Return the pause after this many consecutive failures; at least what the service asked for."""
    growing = min(_FIRST * 2.0 ** min(attempt, 10), _LONGEST)
    return max(least * (1 + _JITTER * chance), add_jitter(growing, chance))
