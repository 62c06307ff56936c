"""The effect of an approval: whether its events started, within a time limit."""

from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum

from forewarn.client.backoff import add_jitter, backoff_seconds
from forewarn.client.endpoint_problem import EndpointProblem
from forewarn.client.session import ClientSession, id_of, seconds_of
from forewarn.client.steps import Pause, Steps
from forewarn.core.model import EventStatus
from forewarn.wire.document import Document, ScheduledEvent

_POLL = 1.0
"""Azure: one request per second is recommended."""


class Effect(StrEnum):
    """The effect of the approval of one event."""

    STARTED = "started"
    GONE = "gone"
    """The event has ended or was canceled."""
    WAITING = "waiting"
    """The event is still Scheduled. The service refuses unknown ids, so the approval is recorded: the event waits for
    other approvals, its turn, or quiet hours."""
    UNCONFIRMED = "unconfirmed"
    """The event is still Scheduled, and the service accepts any id: it may have ignored the approval."""


def wait_for_effects(
    talk: ClientSession, events: Iterable[ScheduledEvent | str], within: timedelta
) -> Steps[dict[str, Effect]]:
    """Wait until the events have started or ended, at most ``within``; return the effect by id.

    Raise the problem if the service does not respond at the end.
    """
    ids = tuple(map(id_of, events))
    end = talk.seconds() + seconds_of(within, "within")
    failures = 0
    while True:
        try:
            fetched = yield from talk.fetch()
        except EndpointProblem as trouble:
            wait = backoff_seconds(failures, trouble.retry_after, talk.chance())
            if talk.seconds() + wait > end:
                raise trouble.error from None
            talk.log.begin(trouble.kind, str(trouble))
            failures += 1
        else:
            talk.log.over()
            failures = 0
            found = _compare(ids, fetched.document)
            left = end - talk.seconds()
            if Effect.WAITING not in found.values():
                return found
            if left <= 0:
                break
            wait = min(add_jitter(_POLL, talk.chance()), left)
        yield Pause(wait)
    if (yield from talk.refuses_unknown()):
        return found
    return {id_: Effect.UNCONFIRMED if effect is Effect.WAITING else effect for id_, effect in found.items()}


def _compare(ids: tuple[str, ...], document: Document | None) -> dict[str, Effect]:
    statuses = dict.fromkeys((event.id for event in document.unreadable), "unreadable") if document else {}
    statuses |= {event.id: event.status for event in document.events} if document else {}
    return {id_: _effect(statuses.get(id_)) for id_ in ids}


def _effect(status: str | None) -> Effect:
    if status is None:
        return Effect.GONE
    return Effect.STARTED if status == EventStatus.STARTED else Effect.WAITING
