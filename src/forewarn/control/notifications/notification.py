"""Notifications as CloudEvents 1.0: one for each fact of an event.

    fact              type
    Announced         io.forewarn.event.scheduled
    Approved          io.forewarn.event.approved
    Postponed         io.forewarn.event.postponed
    BroughtForward    io.forewarn.event.advanced
    Started(AtOnce)   io.forewarn.event.started
    Completed         io.forewarn.event.completed
    Failed            io.forewarn.event.failed
    Canceled          io.forewarn.event.canceled
    FleetChanged      io.forewarn.vm.removed, for each group that VMs were removed from
    RolloutStarted    io.forewarn.rollout.started; likewise paused, finished and late

The id of a message is made of the revision and the number of its fact: delivered again, it has the same id.
"""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum

import msgspec

from forewarn.core import facts, lifecycle
from forewarn.core.facts import AnyFact, Entry, EventFact
from forewarn.core.model import Event, Subscription
from forewarn.core.rollouts import facts as rollout_facts
from forewarn.core.rollouts.sentences import describe, name_of
from forewarn.wire.azure_names import show_id
from forewarn.wire.event_json import make_notification_event

CLOUD_EVENTS = "application/cloudevents+json; charset=utf-8"


class NotificationType(StrEnum):
    """What a message is about, as CloudEvents spells it."""

    SCHEDULED = "io.forewarn.event.scheduled"
    APPROVED = "io.forewarn.event.approved"
    POSTPONED = "io.forewarn.event.postponed"
    ADVANCED = "io.forewarn.event.advanced"
    STARTED = "io.forewarn.event.started"
    COMPLETED = "io.forewarn.event.completed"
    FAILED = "io.forewarn.event.failed"
    CANCELED = "io.forewarn.event.canceled"
    VM_REMOVED = "io.forewarn.vm.removed"
    ROLLOUT_STARTED = "io.forewarn.rollout.started"
    ROLLOUT_PAUSED = "io.forewarn.rollout.paused"
    ROLLOUT_FINISHED = "io.forewarn.rollout.finished"
    ROLLOUT_LATE = "io.forewarn.rollout.late"
    MISSED = "io.forewarn.missed"
    TEST = "io.forewarn.test"


_TYPES: dict[type[AnyFact], NotificationType] = {
    **{fact: NotificationType(f"io.forewarn.event.{status}") for fact, status in lifecycle.LEADS_TO.items()},
    facts.Approved: NotificationType.APPROVED,
    facts.Postponed: NotificationType.POSTPONED,
    facts.BroughtForward: NotificationType.ADVANCED,
}

_ROLLOUTS: dict[type[AnyFact], NotificationType] = {
    rollout_facts.RolloutStarted: NotificationType.ROLLOUT_STARTED,
    rollout_facts.RolloutPaused: NotificationType.ROLLOUT_PAUSED,
    rollout_facts.RolloutEnded: NotificationType.ROLLOUT_FINISHED,
    rollout_facts.RolloutLate: NotificationType.ROLLOUT_LATE,
}


class Notification(msgspec.Struct, frozen=True):
    """One thing to tell."""

    id: str
    type: NotificationType
    revision: int
    at: datetime
    by: str = ""
    reason: str = ""
    event: Event | None = None
    """The event as the fact left it; none when the message is about VMs, or about the messages themselves."""
    group: str = ""
    """The group that VMs were removed from."""
    vms: tuple[str, ...] = ()
    rollout: str = ""
    """The rollout that it is about."""

    @property
    def ordering_key(self) -> str:
        """What messages are kept in order by: the event, or nothing but itself."""
        return self.event.id if self.event else self.rollout or self.id


def notification_of(entry: Entry, number: int, event: Event) -> Notification | None:
    """Return the notification of a fact, with the event after it; None if there is none."""
    fact = entry.facts[number]
    type_ = _TYPES.get(type(fact))
    if type_ is None:
        return None
    by = fact.by if isinstance(fact, facts.Approved | facts.Postponed) else entry.by
    return Notification(f"{entry.revision}-{number}", type_, entry.revision, entry.at, str(by), _reason(fact), event)


def is_notified(fact: AnyFact) -> bool:
    """Return whether a fact may be something to tell."""
    if isinstance(fact, facts.FleetChanged):
        return bool(fact.removed_vms)
    return isinstance(fact, EventFact) or type(fact) in _ROLLOUTS


def rollout_notification(entry: Entry, number: int) -> Notification | None:
    """Return the notification of a fact about a rollout; None if there is none."""
    fact = entry.facts[number]
    type_ = _ROLLOUTS.get(type(fact))
    if type_ is None or not isinstance(fact, rollout_facts.RolloutFact):
        return None
    return Notification(
        f"{entry.revision}-{number}",
        type_,
        entry.revision,
        entry.at,
        str(entry.by),
        describe(fact),
        rollout=name_of(fact),
    )


def removal_notifications(entry: Entry, number: int) -> Iterator[Notification]:
    """Yield one notification for each group that lost VMs by a change of the fleet."""
    fact = entry.facts[number]
    if not isinstance(fact, facts.FleetChanged):
        return
    lost: dict[str, list[str]] = {}
    gone = frozenset(fact.removed_vms)
    for vm in fact.before_vms:
        if vm.name in gone:
            lost.setdefault(vm.group, []).append(vm.name)
    for group, names in lost.items():
        id_ = f"{entry.revision}-{number}-{group}"
        reason = "removed from the fleet without an event"
        yield Notification(
            id_,
            NotificationType.VM_REMOVED,
            entry.revision,
            entry.at,
            str(entry.by),
            reason,
            group=group,
            vms=tuple(names),
        )


def gap_notification(first: int, last: int, at: datetime) -> Notification:
    """Return the message that the journal no longer holds undelivered entries."""
    reason = (
        f"what happened from revision {first} to {last} was not delivered, and the journal no longer holds it;"
        " read the current state again"
    )
    return Notification(f"missed-{first}-{last}", NotificationType.MISSED, last, at, reason=reason)


def make_test_notification(id: str, at: datetime, subscription: str) -> Notification:
    reason = f"this is a test of the subscription {subscription!r}; nothing has happened"
    return Notification(f"test-{id}", NotificationType.TEST, 0, at, reason=reason)


def matches_subscription(message: Notification, subscription: Subscription) -> bool:
    """Return whether a subscriber asked for such messages."""
    event = message.event
    if message.rollout:
        return not subscription.types and not subscription.groups
    if message.group:
        return not subscription.types and (not subscription.groups or message.group in subscription.groups)
    return event is None or (
        (not subscription.groups or event.group in subscription.groups)
        and (not subscription.types or event.type in subscription.types)
    )


def cloud_event(message: Notification, source: str) -> bytes:
    """Write a message as CloudEvents 1.0 has it, in structured mode."""
    event = message.event
    body = {
        "specversion": "1.0",
        "id": message.id,
        "source": source,
        "type": message.type,
        **({"subject": subject} if (subject := _subject(message)) else {}),
        "time": message.at,
        "datacontenttype": "application/json",
        "data": make_notification_event(event, message.by, message.reason) if event else _data(message),
    }
    return msgspec.json.encode(body)


def _subject(message: Notification) -> str:
    return show_id(message.event.id) if message.event else message.group or message.rollout


def _data(message: Notification) -> dict[str, object]:
    if message.rollout:
        return {"Rollout": message.rollout, "By": message.by, "Detail": message.reason}
    if not message.group:
        return {"Detail": message.reason}
    return {"Group": message.group, "Resources": message.vms, "By": message.by, "Detail": message.reason}


def _reason(fact: AnyFact) -> str:
    match fact:
        case facts.Announced(event=event):
            return event.reason
        case facts.StartedAtOnce(event=event):
            return "; ".join(filter(None, (event.without_notice, event.reason)))
        case facts.Approved(counts=False):
            return "recorded, but it does not count: each VM of the event must approve for itself"
        case facts.Postponed(seconds=seconds, reason=reason):
            return f"by {seconds} s: {reason}" if reason else f"by {seconds} s"
        case facts.BroughtForward():
            return "the hardware is expected to fail earlier than was announced"
        case facts.Started(because=because) | facts.Canceled(because=because):
            return because
        case facts.Completed(detail=detail):
            return detail
        case facts.Failed(reason=reason):
            return reason
        case _:
            return ""
