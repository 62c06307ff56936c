"""How many events of one document the agent follows. Pure."""

from collections.abc import Container

import msgspec

from forewarn.agent.decision.rules import concerns
from forewarn.wire.document import Document, ScheduledEvent

MOST_EVENTS = 2_000
"""Events of one document that the agent follows; Azure shows a handful. The rest is ignored."""


def limit_events(document: Document, vm: str, known: Container[str], most: int = MOST_EVENTS) -> Document:
    """Return the document with at most ``most`` events: those of this VM first, then those already known."""
    if len(document.events) <= most:
        return document

    def rank(event: ScheduledEvent) -> tuple[bool, bool]:
        return not concerns(event, vm), event.id not in known

    ranked = sorted(range(len(document.events)), key=lambda number: rank(document.events[number]))
    kept = sorted(ranked[:most])
    return msgspec.structs.replace(document, events=tuple(document.events[number] for number in kept))
