"""Notifications: each event's messages arrive at least once, in order, and only at receivers that may read them."""

from collections import Counter
from collections.abc import Iterator
from math import inf

import msgspec

from forewarn.simulator.actions.subscription_requests import RequestSubscription
from forewarn.simulator.exchanges import ControlExchange, ReceivedNotification
from forewarn.simulator.promises.event_memory import EventMemory
from forewarn.simulator.promises.memory import CheckerMemory, wall_second

_PREFIX = "io.forewarn.event."
_RANKS = {
    "scheduled": 0,
    "approved": 1,
    "postponed": 1,
    "advanced": 1,
    "started": 2,
    "completed": 3,
    "failed": 3,
    "canceled": 3,
}
_LAST = 3
_AROUND = 1.0
_LONGEST_PAUSE = 300.0
"""Seconds after which a receiver that was down is tried again at the latest; a test tries it at once."""
_DELIVERED = 10.0
"""Seconds in which everything that waited has arrived."""


class _NewSubscription(msgspec.Struct):
    name: str
    groups: tuple[str, ...] = ()


class NotificationPromises:
    """Checks what the receivers of notifications get."""

    def __init__(self, memory: CheckerMemory) -> None:
        self._memory = memory
        self._groups: dict[str, set[str]] = {}
        """The groups that each subscription may be about, by all that the plan asks for under its name."""
        for action in memory.plan.actions:
            if isinstance(action, RequestSubscription):
                named = {action.group} if action.group != "all" else memory.members.all_groups
                self._groups.setdefault(action.name, set()).update(named)
        self._since: dict[str, float] = {}
        """When each subscription was acknowledged."""
        self._asked: dict[str, set[tuple[str, str]]] = {}
        """Who may have made each subscription, and with which key."""
        self._wanted: dict[str, tuple[str, ...]] = {}
        """The groups of each subscription that was acknowledged; none where it has all."""
        self._tested_at: dict[str, float] = {}
        """When the last test of each subscription was sent that arrived."""
        self._removed: set[str] = set()
        self._newest: dict[tuple[str, str], tuple[int, int]] = {}
        """Revision and rank of the newest message, by subscription and event."""
        self._seen: dict[tuple[str, str], str] = {}
        """Type and event of each message, by subscription and message id."""
        self._behind: set[str] = set()
        """Subscriptions that were told of what is no longer in the journal."""

    def see_control(self, exchange: ControlExchange) -> None:
        """Learn which subscriptions there may be."""
        if exchange.method == "POST" and exchange.path == "/v1/subscriptions":
            new = msgspec.json.decode(exchange.body, type=_NewSubscription)
            if not 400 <= exchange.status < 500:
                self._asked.setdefault(new.name, set()).add((exchange.who, exchange.key))
            if exchange.status == 201:
                self._since.setdefault(new.name, exchange.ended_at)
                self._wanted.setdefault(new.name, new.groups)
        elif exchange.method == "POST" and exchange.path.startswith("/v1/subscriptions/") and exchange.status < 300:
            self._tested_at[exchange.path.split("/")[3]] = exchange.sent_at
        elif exchange.method == "DELETE" and exchange.path.startswith("/v1/subscriptions/"):
            self._removed.add(exchange.path.rpartition("/")[2])

    def see(self, received: ReceivedNotification) -> None:
        """Check one message, when it arrives."""
        groups = self._groups.get(received.subscription)
        if groups is None:
            self._report(received, "was sent although nobody asked for the subscription")
        elif received.group and received.group not in groups:
            self._report(received, f"is about {received.group}, which the subscription does not name")
        key = received.subscription, received.id
        said = f"{received.type} {received.event}"
        if self._seen.setdefault(key, said) != said:
            self._report(received, f"has the id of another message: {self._seen[key]}")
        if received.type == "io.forewarn.missed":
            self._behind.add(received.subscription)
        if not received.event or not received.type.startswith(_PREFIX):
            return
        place = received.subscription, received.event
        rank = _RANKS.get(received.type.removeprefix(_PREFIX), 0)
        revision, newest = self._newest.get(place, (0, 0))
        if received.revision > revision:
            if rank < newest:
                self._report(received, "came after a later state of its event")
            self._newest[place] = received.revision, rank
        # An older revision is a repetition: a message may come twice.

    def settle(self, now: float) -> None:
        """Expect that the end of every event that began under a subscription was told."""
        for (subscription, event), (_, rank) in self._newest.items():
            if subscription in self._removed or subscription not in self._since:
                continue
            known = self._memory.events.get(event)
            if rank < _LAST and known is not None and known.is_over_since(now - 60.0):
                self._memory.report(now, f"the end of {known} was not told to subscription {subscription}")
        told = Counter((subscription, what) for (subscription, _), what in self._seen.items())
        for subscription in sorted(self._wanted.keys() - self._removed - self._behind):
            if len(self._asked[subscription]) == 1:
                self._tells_everything(subscription, told, now)

    def _tells_everything(self, subscription: str, told: Counter[tuple[str, str]], now: float) -> None:
        """Check that what happened to the events of its groups since the subscription was acknowledged was told."""
        groups, since = self._wanted[subscription], self._since[subscription]
        tested_at = self._tested_at.get(subscription, 0.0)
        until = max(tested_at if tested_at < now - _DELIVERED else 0.0, now - _LONGEST_PAUSE)
        is_steady = self._memory.clock.is_steady(0.0, now)
        for event in self._memory.events.values():
            if not event.timeline or (groups and event.group not in groups):
                continue
            if is_steady:
                steps = _steps_between(event, since + _AROUND, until)
            else:
                was_scheduled = event.scheduled_at > since and event.is_over_since(until)
                steps = (step for step in _steps_between(event, 0.0, inf) if was_scheduled and _RANKS[step] > 1)
            for what, count in Counter(steps).items():
                if told[subscription, f"{_PREFIX}{what} {event.id}"] < count:
                    text = f"{event} was {what} and subscription {subscription} was not told"
                    self._memory.report(now, text if count == 1 else f"{text} {count} times")

    def _report(self, received: ReceivedNotification, what: str) -> None:
        words = f"{received.type} {received.id} to subscription {received.subscription}"
        self._memory.report(received.at, f"notification {words} {what}")


def _steps_between(event: EventMemory, begin: float, end: float) -> Iterator[str]:
    """Yield the types of the messages about what happened to an event between two seconds, by its record."""
    for step in event.timeline.steps if event.timeline else ():
        what = step.what.lower()
        if (
            what in _RANKS
            and begin < wall_second(step.at) < end
            and not (what == "scheduled" and event.without_notice)
        ):
            yield what
