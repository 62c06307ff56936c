"""Which entries are old enough to be deleted."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import takewhile

from forewarn.core.facts import Entry


def batches_to_release(
    oldest: Iterable[Entry], now: datetime, history: timedelta, size: int
) -> Iterator[list[Entry]]:
    """Yield the oldest entries that are not to be kept any more, ``size`` at a time.

    Entries dated in the future, by a clock that was wrong, neither go by themselves nor keep older ones.
    """
    waiting: list[Entry] = []
    for entry in takewhile(lambda entry: entry.at < now - history or entry.at > now, oldest):
        waiting.append(entry)
        if entry.at <= now and len(waiting) >= size:
            yield waiting
            waiting = []
    while waiting and waiting[-1].at > now:
        waiting.pop()
    if waiting:
        yield waiting
