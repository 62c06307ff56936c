"""How long to wait before asking again: growing pauses, none of them the same for two VMs."""

_FIRST, _LONGEST = 1.0, 15.0
"""Seconds. A Preempt leaves thirty, so nobody sleeps longer than half of that unless he is told to."""
_JITTER = 0.2


def add_jitter(seconds: float, chance: float) -> float:
    """Return about so many seconds, a fifth more or less."""
    return seconds * (1 - _JITTER + 2 * _JITTER * chance)


def backoff_seconds(attempt: int, wish: float, chance: float) -> float:
    """Return how long to wait after so many failures in a row, and no shorter than the service wishes."""
    growing = min(_FIRST * 2.0 ** min(attempt, 10), _LONGEST)
    return max(wish * (1 + _JITTER * chance), add_jitter(growing, chance))
