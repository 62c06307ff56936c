"""Whether this VM's clock can be trusted to tell how much time an event leaves."""

import logging
from datetime import datetime, timedelta

from forewarn.config.durations import show_duration
from forewarn.wire.dates import read_time

log = logging.getLogger("forewarn.agent")

_TOLERANCE = timedelta(seconds=5)
"""What an eviction, announced thirty seconds ahead, can bear."""


def clock_trouble(date: str, now: datetime) -> str:
    """Say that the endpoint's clock, read off an answer's Date, and this VM's differ; empty where they agree."""
    try:
        ahead = read_time(date) - now
    except ValueError:
        return ""  # not every endpoint tells the time
    if abs(ahead) <= _TOLERANCE:
        return ""
    apart = show_duration(timedelta(seconds=round(abs(ahead).total_seconds())))
    side = "behind" if ahead > timedelta(0) else "ahead of"
    return f"this VM's clock is {apart} {side} the endpoint's, so times are reckoned wrongly; set the clock"


class ClockCheck:
    """Compares the clocks with each document, and logs it once when they differ."""

    def __init__(self) -> None:
        self.trouble = ""

    def compare(self, date: str, now: datetime) -> None:
        found = clock_trouble(date, now)
        if found and not self.trouble:
            log.warning("%s", found)
        self.trouble = found
