"""Warnings about the committed fleet; health and ``forewarn doctor`` show each until its cause is gone."""

import logging
from collections.abc import Iterator
from itertools import islice
from typing import get_args

from forewarn.core import quiet_hours
from forewarn.core.facts import DeclarationFact, FleetChanged, GroupSet, RecordSetChanged
from forewarn.core.fleet import Fleet
from forewarn.node.feed import Commit
from forewarn.wire.facts import describe_held

log = logging.getLogger(__name__)

HELD_TOPIC = "held changes"
QUIET_TOPIC = "quiet hours"
_NAMED = 5
_HOLDING = get_args(RecordSetChanged | DeclarationFact)
"""The facts after which other changes may be held."""


class HeldChangeWarnings:
    """Keeps the node's warning about held changes up to date."""

    def __init__(self, warnings: dict[str, str]) -> None:
        self._warnings = warnings

    def load(self, fleet: Fleet) -> None:
        if fleet.last_applied.waiting or fleet.last_applied.guarded:
            self._warnings[HELD_TOPIC] = "; ".join(_warnings(fleet))
        else:
            self._warnings.pop(HELD_TOPIC, None)

    def publish(self, commit: Commit) -> None:
        if commit.holds(_HOLDING):
            self.load(commit.fleet)


def _warnings(fleet: Fleet) -> Iterator[str]:
    last = fleet.last_applied
    if last.waiting:
        sentences = [describe_held(held) for held in islice(last.waiting.values(), _NAMED)]
        yield f"{_counted(len(last.waiting))} held: " + _listed(sentences, len(last.waiting))
    if last.guarded:
        names = [name for _, name in islice(last.guarded, _NAMED)]
        yield (
            f"the fleet file no longer has {_listed(names, len(last.guarded))}; a start does not remove so many VMs: "
            "run 'forewarn fleet apply FILE --yes' to remove them, or put them back into the file"
        )


def _counted(count: int) -> str:
    return "1 change of the fleet file is" if count == 1 else f"{count} changes of the fleet file are"


def _listed(sentences: list[str], count: int) -> str:
    more = f" and {count - len(sentences)} more" if count > len(sentences) else ""
    return ", ".join(sentences) + more


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
        self._warnings.pop(QUIET_TOPIC, None)
        if sentences := list(islice(unreadable, _NAMED)):
            said = "; ".join(sentences)
            self._warnings[QUIET_TOPIC] = f"no platform maintenance starts where quiet hours cannot be read: {said}"
            log.warning(
                "quiet hours cannot be read; no platform maintenance starts", extra={"fields": {"reason": said}}
            )

    def publish(self, commit: Commit) -> None:
        # New quiet hours are refused where they cannot be read, so that only recorded ones are to be looked at.
        if QUIET_TOPIC in self._warnings and commit.holds((GroupSet, FleetChanged)):
            self.load(commit.fleet)
