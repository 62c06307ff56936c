"""How the agent's log tells its facts: one line each, for people first."""

import logging

from forewarn.agent.facts import (
    Approved,
    Begun,
    Consulted,
    Ended,
    Fact,
    Forgotten,
    Held,
    Joined,
    LeftOut,
    NotApproved,
    Released,
)
from forewarn.agent.handler import Direction, Done, Failed
from forewarn.client.changes import Change, ChangeKind
from forewarn.wire.dates import show_time
from forewarn.wire.shown import show_status, show_type
from forewarn.wire.words import show_id

log = logging.getLogger("forewarn.agent")

_CHANGES = {
    ChangeKind.NEW: "event new",
    ChangeKind.CHANGED: "event changed",
    ChangeKind.STARTED: "event started",
    ChangeKind.GONE: "event gone",
}


def tell_change(change: Change) -> None:
    """Log what became of an event."""
    event = change.event
    fields: dict[str, object] = {"event": show_id(event.id), "type": show_type(event.type)}
    if change.kind is ChangeKind.GONE:
        fields["ending"] = str(change.ending)
    else:
        fields["status"] = show_status(event.status)
        fields["resources"] = event.resources
        if event.not_before:
            fields["not_before"] = show_time(event.not_before)
        if event.description:
            fields["description"] = event.description
    log.info(_CHANGES[change.kind], extra={"fields": fields})


class Teller:
    """Logs facts; who gives the same answer again and again is quoted once."""

    def __init__(self) -> None:
        self._answers: dict[str, set[tuple[object, ...]]] = {}
        """By event: all that were quoted."""

    def __call__(self, fact: Fact) -> None:
        if isinstance(fact, Consulted | NotApproved):
            answer = (type(fact), *_answer(fact))
            quoted = self._answers.setdefault(fact.event, set())
            if answer in quoted:
                return
            quoted.add(answer)
        elif isinstance(fact, Forgotten):
            self._answers.pop(fact.event, None)
        tell_fact(fact)


def _answer(fact: Consulted | NotApproved) -> tuple[object, ...]:
    return (fact.agreed, fact.detail) if isinstance(fact, Consulted) else (fact.reason,)


def tell_fact(fact: Fact) -> None:
    """Log what the agent did, or what came of it."""
    fields: dict[str, object] = {
        key: getattr(fact, key) for key in ("event", "handler", "holder") if hasattr(fact, key)
    }
    if "event" in fields:
        fields["event"] = show_id(str(fields["event"]))
    level = logging.INFO
    match fact:
        case Begun(direction=direction, attempt=attempt):
            said = "begun" if direction is Direction.DO else "undo begun"
            if attempt > 1:
                fields["attempt"] = attempt
        case Ended(result=Done(detail=detail), direction=direction):
            said = "done" if direction is Direction.DO else "undone"
            fields |= {"detail": detail} if detail else {}
        case Ended(result=Failed(reason=reason), direction=direction):
            said = "failed" if direction is Direction.DO else "undo failed"
            level = logging.WARNING
            fields["reason"] = reason
        case LeftOut(reason=reason):
            said, level = "left out", logging.WARNING
            fields["reason"] = reason
        case Joined(of=of):
            said = "done already"
            fields["for"] = show_id(of)
        case Held(until=until):
            said = "held"
            fields["until"] = show_time(until)
        case Released():
            said = "ready"
        case Consulted(agreed=agreed, detail=detail):
            said = "coordinator agrees" if agreed else "coordinator does not agree yet"
            fields |= {"detail": detail} if detail else {}
        case Approved():
            said = "approved"
        case NotApproved(reason=reason):
            said, level = "not approved yet", logging.WARNING
            fields["reason"] = reason
        case Forgotten(not_undone=handlers) if handlers:
            said, level = "not all is put back, and it is not tried again", logging.WARNING
            fields["handlers"] = handlers
        case Forgotten(undone=handlers) if handlers:
            said = "all is put back"
        case _:
            return
    log.log(level, said, extra={"fields": fields})
