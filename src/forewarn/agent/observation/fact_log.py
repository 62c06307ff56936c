"""Logs the agent's facts and the changes of events, one line each."""

import logging

from forewarn.agent.decision.facts import (
    AgentFact,
    ApprovalFailed,
    ApprovalGiven,
    CallBegun,
    CallEnded,
    CallShared,
    CoordinatorConsulted,
    EventForgotten,
    HandlerSkipped,
    HoldPlaced,
    HoldReleased,
)
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.client.changes import Change, ChangeKind
from forewarn.wire.azure_names import show_id
from forewarn.wire.dates import show_time
from forewarn.wire.event_json import show_status, show_type

log = logging.getLogger("forewarn.agent")

_CHANGES = {
    ChangeKind.NEW: "event new",
    ChangeKind.CHANGED: "event changed",
    ChangeKind.STARTED: "event started",
    ChangeKind.GONE: "event gone",
}


def log_change(change: Change) -> None:
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


class AgentFactLog:
    """Logs facts; equal replies of the coordinator or the endpoint are logged once per event."""

    def __init__(self) -> None:
        self._answers: dict[str, set[tuple[object, ...]]] = {}
        """By event: the replies logged so far."""

    def __call__(self, fact: AgentFact) -> None:
        if isinstance(fact, CoordinatorConsulted | ApprovalFailed):
            answer = (type(fact), *_answer(fact))
            quoted = self._answers.setdefault(fact.event, set())
            if answer in quoted:
                return
            quoted.add(answer)
        elif isinstance(fact, EventForgotten):
            self._answers.pop(fact.event, None)
        log_fact(fact)


def _answer(fact: CoordinatorConsulted | ApprovalFailed) -> tuple[object, ...]:
    return (fact.agreed, fact.detail) if isinstance(fact, CoordinatorConsulted) else (fact.reason,)


def log_fact(fact: AgentFact) -> None:
    fields: dict[str, object] = {
        key: getattr(fact, key) for key in ("event", "handler", "holder") if hasattr(fact, key)
    }
    if "event" in fields:
        fields["event"] = show_id(str(fields["event"]))
    level = logging.INFO
    match fact:
        case CallBegun(direction=direction, attempt=attempt):
            said = "begun" if direction is Direction.DO else "undo begun"
            if attempt > 1:
                fields["attempt"] = attempt
        case CallEnded(result=HandlerDone(detail=detail), direction=direction):
            said = "done" if direction is Direction.DO else "undone"
            fields |= {"detail": detail} if detail else {}
        case CallEnded(result=HandlerFailed(reason=reason), direction=direction):
            said = "failed" if direction is Direction.DO else "undo failed"
            level = logging.WARNING
            fields["reason"] = reason
        case HandlerSkipped(reason=reason):
            said, level = "left out", logging.WARNING
            fields["reason"] = reason
        case CallShared(of=of):
            said = "done already"
            fields["for"] = show_id(of)
        case HoldPlaced(until=until):
            said = "held"
            fields["until"] = show_time(until)
        case HoldReleased():
            said = "ready"
        case CoordinatorConsulted(agreed=agreed, detail=detail):
            said = "coordinator agrees" if agreed else "coordinator does not agree yet"
            fields |= {"detail": detail} if detail else {}
        case ApprovalGiven():
            said = "approved"
        case ApprovalFailed(reason=reason):
            said, level = "not approved yet", logging.WARNING
            fields["reason"] = reason
        case EventForgotten(not_undone=handlers) if handlers:
            said, level = "undo incomplete; it is not retried", logging.WARNING
            fields["handlers"] = handlers
        case EventForgotten(undone=handlers) if handlers:
            said = "undo complete"
        case _:
            return
    log.log(level, said, extra={"fields": fields})
