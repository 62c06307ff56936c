"""What operators ask of hosts: operations on one or several, labels, additions and removals."""

from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.actions.vm_requests import RequestLabel


class RequestHostSet(PlannedAction, frozen=True, kw_only=True):
    """Add a host to the fleet, or remove it."""

    sentence = "{who} has host {host} {change} with key {key}"
    chosen = "change"
    choices = ("added", "removed")
    who: str
    host: str
    change: str
    key: str


class RequestHostOperation(PlannedAction, frozen=True, kw_only=True):
    """An operation on all VMs of a host, or on the host itself."""

    sentence = "{who} asks for {operation} of host {host} with key {key}"
    chosen = "operation"
    choices = (
        "freeze",
        "reboot",
        "redeploy",
        "drain",
        "degrade",
        "fail",
        "repaired",
        "cordon",
        "uncordon",
        "enter-maintenance",
        "exit-maintenance",
    )
    who: str
    operation: str
    host: str
    key: str


class RequestDegradation(PlannedAction, frozen=True, kw_only=True):
    """A host is expected to fail after so many seconds; a nearer time replaces a later one."""

    sentence = "{who} expects host {host} to fail in {seconds} s with key {key}"
    who: str
    host: str
    seconds: float
    key: str


class RequestHostBulk(PlannedAction, frozen=True, kw_only=True):
    """The same operation on all hosts with names that match a glob."""

    sentence = "{who} asks for {operation} of all hosts of {pattern} with key {key}"
    chosen = "operation"
    choices = tuple(each for each in RequestHostOperation.choices if each != "degrade")
    who: str
    operation: str
    pattern: str
    key: str


class RequestHostLabel(PlannedAction, frozen=True, kw_only=True):
    """Set the label ``tier`` of a host, or take it away."""

    sentence = "{who} sets the label of host {host} to {value} with key {key}"
    chosen = "value"
    choices = RequestLabel.choices
    who: str
    host: str
    value: str
    key: str


class RequestHostSelection(PlannedAction, frozen=True, kw_only=True):
    """The same operation on all hosts that a selector means; the rest of the body as JSON, without blanks."""

    sentence = "{who} asks for {operation} of hosts by {selection} with key {key}"
    chosen = "operation"
    choices = (*(each for each in RequestHostOperation.choices if each != "drain"), "set", "remove")
    who: str
    operation: str
    selection: str
    key: str


class TryHostSelection(PlannedAction, frozen=True, kw_only=True):
    """A dry run of an operation on all hosts that a selector means."""

    sentence = "{who} tries {operation} of hosts by {selection}"
    chosen = "operation"
    choices = RequestHostSelection.choices
    who: str
    operation: str
    selection: str
