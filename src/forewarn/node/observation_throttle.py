"""What happens to one machine again and again: a guest that reboots itself in a loop must not fill the journal."""

from datetime import datetime, timedelta

import msgspec

from forewarn.core.model import Observation, ObservationKind

LIMIT = 10
"""Sightings of one VM that are recorded within a while."""
WINDOW = timedelta(minutes=1)
_REMEMBERED = 10_000


class _RecentObservations(msgspec.Struct):
    since: datetime
    count: int = 0


class ObservationThrottle:
    """Counts what is seen of each VM."""

    def __init__(self) -> None:
        self._recent: dict[str, _RecentObservations] = {}

    def admit(self, observation: Observation) -> Observation | None:
        """Return what is to be recorded; None for what happens too often. A crash calls for a deed, and always is."""
        if observation.what is ObservationKind.CRASHED:
            return observation
        recent = self._recent.get(observation.vm)
        if recent is None or not recent.since <= observation.at < recent.since + WINDOW:
            self._make_room(observation.at)
            recent = self._recent[observation.vm] = _RecentObservations(observation.at)
        recent.count += 1
        if recent.count < LIMIT:
            return observation
        if recent.count > LIMIT:
            return None
        detail = f"{observation.detail}; it goes on like this, and is recorded again after a minute".removeprefix(
            "; "
        )
        return msgspec.structs.replace(observation, detail=detail)

    def _make_room(self, now: datetime) -> None:
        if len(self._recent) >= _REMEMBERED:
            self._recent = {vm: each for vm, each in self._recent.items() if now < each.since + WINDOW}
