"""The warning about recorded quiet hours that this machine cannot read; health and ``forewarn doctor`` show it."""

import logging
from itertools import islice

from forewarn.core import quiet_hours
from forewarn.core.facts import FleetChanged, GroupSet
from forewarn.core.fleet import Fleet
from forewarn.node.feed import Commit

log = logging.getLogger(__name__)

TOPIC = "quiet hours"
_NAMED = 5


class QuietWarnings:
    """Warns of groups that are quiet all the time, because the machine does not know their time zone."""

    def __init__(self, warnings: dict[str, str]) -> None:
        self._warnings = warnings

    def load(self, fleet: Fleet) -> None:
        unreadable = (
            f"group {name}: {reason}"
            for name, group in fleet.groups.items()
            if (reason := quiet_hours.unreadable(group.terms.policy.quiet_hours))
        )
        self._warnings.pop(TOPIC, None)
        if told := list(islice(unreadable, _NAMED)):
            said = "; ".join(told)
            self._warnings[TOPIC] = f"no platform maintenance starts where quiet hours cannot be read: {said}"
            log.warning(
                "quiet hours cannot be read; no platform maintenance starts", extra={"fields": {"reason": said}}
            )

    def publish(self, commit: Commit) -> None:
        # New quiet hours are refused where they cannot be read, so that only recorded ones are to be looked at.
        if TOPIC in self._warnings and any(
            isinstance(fact, (GroupSet, FleetChanged)) for entry in commit.entries for fact in entry.facts
        ):
            self.load(commit.fleet)
