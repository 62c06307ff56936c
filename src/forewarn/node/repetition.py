"""What happens to one machine again and again: a guest that reboots itself in a loop must not fill the journal."""

from datetime import datetime, timedelta

import msgspec

from forewarn.core.model import Seen, Sighting

MOST = 10
"""Sightings of one VM that are recorded within a while."""
WHILE = timedelta(minutes=1)
_REMEMBERED = 10_000


class _Lately(msgspec.Struct):
    since: datetime
    count: int = 0


class Repetition:
    """Counts what is seen of each VM."""

    def __init__(self) -> None:
        self._lately: dict[str, _Lately] = {}

    def admit(self, sighting: Sighting) -> Sighting | None:
        """Return what is to be recorded; None for what happens too often. A crash calls for a deed, and always is."""
        if sighting.what is Seen.CRASHED:
            return sighting
        lately = self._lately.get(sighting.vm)
        if lately is None or not lately.since <= sighting.at < lately.since + WHILE:
            self._make_room(sighting.at)
            lately = self._lately[sighting.vm] = _Lately(sighting.at)
        lately.count += 1
        if lately.count < MOST:
            return sighting
        if lately.count > MOST:
            return None
        detail = f"{sighting.detail}; it goes on like this, and is recorded again after a minute".removeprefix("; ")
        return msgspec.structs.replace(sighting, detail=detail)

    def _make_room(self, now: datetime) -> None:
        if len(self._lately) >= _REMEMBERED:
            self._lately = {vm: each for vm, each in self._lately.items() if now < each.since + WHILE}
