"""What operators and owners ask of groups and of their events."""

from forewarn.simulator.actions.host_requests import RequestHostSet
from forewarn.simulator.actions.planned_action import PlannedAction


class RequestTerms(PlannedAction, frozen=True, kw_only=True):
    """The terms as JSON, without blanks."""

    sentence = "{who} sets the terms of {group} to {terms} with key {key}"
    who: str
    group: str
    terms: str
    key: str


class RequestScaleIn(PlannedAction, frozen=True, kw_only=True):
    """Delete so many VMs of a scale set, chosen by the service."""

    sentence = "{who} scales in {group} by {count} with key {key}"
    who: str
    group: str
    count: int
    key: str


class RequestGroupSet(PlannedAction, frozen=True, kw_only=True):
    """Add a group to the fleet, or remove it."""

    sentence = "{who} has group {group} {change} with key {key}"
    chosen = "change"
    choices = RequestHostSet.choices
    who: str
    group: str
    change: str
    key: str


class RequestEventChange(PlannedAction, frozen=True, kw_only=True):
    """``event`` is a label such as E2, by the order in which events were seen."""

    sentence = "{who} asks to {verb} {event} with key {key}"
    chosen = "verb"
    choices = ("approve", "cancel", "postpone")
    who: str
    verb: str
    event: str
    key: str


class RequestCancellations(PlannedAction, frozen=True, kw_only=True):
    """Cancel all events of a group that are Scheduled."""

    sentence = "{who} cancels all events of {group} with key {key}"
    who: str
    group: str
    key: str


class RequestSelectedCancellations(PlannedAction, frozen=True, kw_only=True):
    """Cancel all events that a selector means; the selector as JSON, without blanks."""

    sentence = "{who} cancels the events with {selection} with key {key}"
    who: str
    selection: str
    key: str
