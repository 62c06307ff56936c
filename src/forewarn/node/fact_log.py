"""The log of a node: one line for each fact, with its fields."""

import logging
from collections.abc import Iterator
from logging import LogRecord
from time import time

from forewarn.core.facts import AnyFact, Asked, ChangesHeld, Fetched, FleetChanged, FleetDeclared
from forewarn.core.fleet import Fleet
from forewarn.core.model import CallerKind
from forewarn.node.feed import Commit
from forewarn.wire.facts import describe_held, show_record

log = logging.getLogger("forewarn.facts")

_NAMED = 20
"""How many held changes, requests or fetches one line names; history has all."""


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
        created = time()
        for entry in commit.entries:
            by = "" if entry.by.kind is CallerKind.NODE else str(entry.by)
            for fact in entry.facts:
                fields = {"revision": entry.revision, **dict(_fields(fact))}
                if by:
                    fields["by"] = by
                # Not ``log.info``: most of its time goes into what neither format of the log shows.
                record = LogRecord.__new__(LogRecord)
                vars(record).update(_RECORD, msg=fact.__struct_config__.tag, created=created, fields=fields)
                log.handle(record)


_RECORD = vars(LogRecord(log.name, logging.INFO, "", 0, "", (), None))


def _fields(fact: AnyFact) -> Iterator[tuple[str, object]]:
    """Yield what a line tells of the fact: its own fields, an event's in place of the event."""
    match fact:
        case _ if type(fact) not in _SHORTENED:
            for key, value in show_record(fact).items():
                if key == "event" and isinstance(value, dict):
                    event = dict(value)
                    yield "event", event.pop("id")
                    yield from event.items()
                elif key not in ("fact", "at", "by"):
                    yield key, value
        case FleetChanged() | FleetDeclared():
            yield from ((key, count) for key, count in fact.counts().items() if count)
        case ChangesHeld(changes=changes, ended=ended):
            yield from _shortened("held", [describe_held(held) for held in changes[:_NAMED]], len(changes))
            yield from _shortened("ended", [f"{each.kind} {each.name}" for each in ended[:_NAMED]], len(ended))
        case Asked(marks=marks):
            yield from _shortened("marks", show_record(Asked(marks[:_NAMED]))["marks"], len(marks))
        case Fetched(fetches=fetches):
            yield from _shortened("fetches", show_record(Fetched(fetches[:_NAMED]))["fetches"], len(fetches))


_SHORTENED = frozenset((FleetChanged, FleetDeclared, ChangesHeld, Asked, Fetched))


def _shortened(key: str, named: object, count: int) -> Iterator[tuple[str, object]]:
    if named:
        yield key, named
    if count > _NAMED:
        yield f"{key}_more", count - _NAMED
