"""The log of a node: one line for each fact, with its fields."""

import logging
from collections.abc import Iterator

import msgspec

from forewarn.core.facts import AnyFact, Entry, FleetChanged
from forewarn.core.fleet import Fleet
from forewarn.core.model import CallerKind
from forewarn.node.feed import Commit

log = logging.getLogger("forewarn.facts")


class FactLog:
    """Writes every committed fact to the log."""

    def load(self, fleet: Fleet) -> None:
        log.info(
            "fleet loaded: %d VMs, %d groups, %d hosts, %d unfinished events",
            len(fleet.vms),
            len(fleet.groups),
            len(fleet.hosts),
            len(fleet.events),
        )

    def publish(self, commit: Commit) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        for entry in commit.entries:
            for fact in entry.facts:
                log.info(fact.__struct_config__.tag, extra={"fields": dict(_fields(entry, fact))})


def _fields(entry: Entry, fact: AnyFact) -> Iterator[tuple[str, object]]:
    """Yield what a line tells of the fact: its own fields, an event's in place of the event."""
    yield "revision", entry.revision
    if isinstance(fact, FleetChanged):
        counts = {key: len(getattr(fact, key)) for key in fact.__struct_fields__}
        yield from ((key, count) for key, count in counts.items() if count)
    else:
        for key, value in msgspec.to_builtins(fact).items():
            if key == "event" and isinstance(value, dict):
                event = dict(value)
                yield "event", event.pop("id")
                yield from event.items()
            elif key not in ("fact", "at", "by"):
                yield key, _without_secrets(value)
    if entry.by.kind is not CallerKind.NODE:
        yield "by", str(entry.by)


def _without_secrets(value: object) -> object:
    """Leave out of a token or a subscription what is nobody's business."""
    if not isinstance(value, dict):
        return value
    return {key: each for key, each in value.items() if key not in ("hash", "secret")}
