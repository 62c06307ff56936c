"""The log of a node: one line for each fact, with its fields."""

import logging
from collections.abc import Iterator

from forewarn.core.facts import AnyFact, ChangesHeld, Entry, FleetChanged, FleetDeclared
from forewarn.core.fleet import Fleet
from forewarn.core.model import CallerKind
from forewarn.node.feed import Commit
from forewarn.wire.facts import describe_held, show_record

log = logging.getLogger("forewarn.facts")

_NAMED = 20
"""How many held changes one line names; history has all."""


class FactLog:
    """Writes every committed fact to the log."""

    def load(self, fleet: Fleet) -> None:
        fields = {
            "vms": len(fleet.vms),
            "groups": len(fleet.groups),
            "hosts": len(fleet.hosts),
            "unfinished_events": len(fleet.events),
        }
        log.info("fleet loaded", extra={"fields": fields})

    def publish(self, commit: Commit) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        for entry in commit.entries:
            for fact in entry.facts:
                log.info(fact.__struct_config__.tag, extra={"fields": dict(_fields(entry, fact))})


def _fields(entry: Entry, fact: AnyFact) -> Iterator[tuple[str, object]]:
    """Yield what a line tells of the fact: its own fields, an event's in place of the event."""
    yield "revision", entry.revision
    if isinstance(fact, FleetChanged | FleetDeclared):
        yield from ((key, count) for key, count in fact.counts().items() if count)
    elif isinstance(fact, ChangesHeld):
        yield from _shortened("held", [describe_held(held) for held in fact.changes[:_NAMED]], len(fact.changes))
        yield from _shortened("ended", [f"{each.kind} {each.name}" for each in fact.ended[:_NAMED]], len(fact.ended))
    else:
        for key, value in show_record(fact).items():
            if key == "event" and isinstance(value, dict):
                event = dict(value)
                yield "event", event.pop("id")
                yield from event.items()
            elif key not in ("fact", "at", "by"):
                yield key, value
    if entry.by.kind is not CallerKind.NODE:
        yield "by", str(entry.by)


def _shortened(key: str, names: list[str], count: int) -> Iterator[tuple[str, object]]:
    if names:
        yield key, names
    if count > len(names):
        yield f"{key}_more", count - len(names)
