"""Subscriptions to notifications."""

from forewarn.simulator.actions.planned_action import PlannedAction


class RequestSubscription(PlannedAction, frozen=True, kw_only=True):
    """Notifications about one group, or about ``all``."""

    sentence = "ann subscribes {name} to {group} with key {key}"
    name: str
    group: str
    key: str


class RequestUnsubscription(PlannedAction, frozen=True, kw_only=True):
    """The end of a subscription."""

    sentence = "ann removes the subscription {name} with key {key}"
    name: str
    key: str
