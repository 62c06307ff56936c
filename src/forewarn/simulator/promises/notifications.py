"""Notifications: each event's messages arrive at least once, in order, and only at receivers that may read them."""

import msgspec

from forewarn.simulator.actions.subscription_requests import RequestSubscription
from forewarn.simulator.exchanges import ControlExchange, ReceivedNotification
from forewarn.simulator.promises.memory import CheckerMemory

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


class _NewSubscription(msgspec.Struct):
    name: str


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
        self._removed: set[str] = set()
        self._newest: dict[tuple[str, str], tuple[int, int]] = {}
        """Revision and rank of the newest message, by subscription and event."""
        self._seen: dict[tuple[str, str], str] = {}
        """Type and event of each message, by subscription and message id."""

    def see_control(self, exchange: ControlExchange) -> None:
        """Learn which subscriptions there may be."""
        if exchange.method == "POST" and exchange.path == "/v1/subscriptions":
            if exchange.status == 201:
                name = msgspec.json.decode(exchange.body, type=_NewSubscription).name
                self._since.setdefault(name, exchange.ended_at)
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

    def _report(self, received: ReceivedNotification, what: str) -> None:
        words = f"{received.type} {received.id} to subscription {received.subscription}"
        self._memory.report(received.at, f"notification {words} {what}")
