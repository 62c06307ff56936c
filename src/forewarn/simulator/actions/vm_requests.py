"""What operators and owners ask of VMs: operations on one or several, moves, labels."""

from forewarn.simulator.actions.planned_action import PlannedAction


class RequestVmOperation(PlannedAction, frozen=True, kw_only=True):
    """An operation on one VM. ``key``: its idempotency key."""

    sentence = "{who} asks for {operation} of {vm} with key {key}"
    chosen = "operation"
    choices = ("restart", "redeploy", "freeze", "evict", "delete", "start", "deallocate")
    who: str
    operation: str
    vm: str
    key: str


class RequestBulk(PlannedAction, frozen=True, kw_only=True):
    """The same operation on all VMs with names that match a glob."""

    sentence = "{who} asks for {operation} of all of {pattern} with key {key}"
    chosen = "operation"
    choices = RequestVmOperation.choices
    who: str
    operation: str
    pattern: str
    key: str


class RequestTrial(PlannedAction, frozen=True, kw_only=True):
    """A dry run of an operation on all VMs with names that match a glob."""

    sentence = "{who} tries {operation} of all of {pattern}"
    chosen = "operation"
    choices = RequestVmOperation.choices
    who: str
    operation: str
    pattern: str


class RequestLabel(PlannedAction, frozen=True, kw_only=True):
    """Set the label ``tier`` of a VM, or take it away."""

    sentence = "{who} sets the label of {vm} to {value} with key {key}"
    chosen = "value"
    choices = ("front", "back", "none")
    who: str
    vm: str
    value: str
    key: str


class RequestTwice(PlannedAction, frozen=True, kw_only=True):
    """The same operation on one VM, sent twice at the same time."""

    sentence = "{who} asks twice at once for {operation} of {vm} with key {key}"
    chosen = "operation"
    choices = RequestVmOperation.choices
    who: str
    operation: str
    vm: str
    key: str


class RequestMove(PlannedAction, frozen=True, kw_only=True):
    """Move a VM to a named host."""

    sentence = "{who} moves {vm} to {host} with key {key}"
    who: str
    vm: str
    host: str
    key: str


class RecordMove(PlannedAction, frozen=True, kw_only=True):
    """Record that a VM is on a host: somebody else has moved its machine, or says so."""

    sentence = "{who} records that {vm} is on {host} with key {key}"
    who: str
    vm: str
    host: str
    key: str


class RequestReclaim(PlannedAction, frozen=True, kw_only=True):
    """Take back so many spot VMs, chosen by the service."""

    sentence = "{who} reclaims {count} spot VMs with key {key}"
    who: str
    count: int
    key: str


class RequestVmSelection(PlannedAction, frozen=True, kw_only=True):
    """The same operation on all VMs that a selector means; the rest of the body as JSON, without blanks."""

    sentence = "{who} asks for {operation} of VMs by {selection} with key {key}"
    chosen = "operation"
    choices = (*RequestVmOperation.choices, "move", "set", "remove")
    who: str
    operation: str
    selection: str
    key: str


class RequestVmChange(PlannedAction, frozen=True, kw_only=True):
    """Change keys of a VM, as a fleet file has them; the keys as JSON, without blanks."""

    sentence = "{who} changes {vm} to {keys} with key {key}"
    who: str
    vm: str
    keys: str
    key: str


class RequestHostReclaim(PlannedAction, frozen=True, kw_only=True):
    """Take back the spot VMs of a host."""

    sentence = "{who} reclaims the spot VMs of {host} with key {key}"
    who: str
    host: str
    key: str
