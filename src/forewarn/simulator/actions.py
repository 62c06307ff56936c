"""What a simulation does at which second: one record each, and one sentence that a person writes and reads.

A plan is a list of actions. It is data: it can be printed, shortened, saved and run again. The sentence of an action
holds all of its fields, so that a saved plan is read back from its text.
"""

import re
from functools import cache
from typing import Any, ClassVar, Self, get_type_hints

import msgspec

from forewarn.simulator.environment.database import DatabaseFault
from forewarn.simulator.environment.journal import AppendFault

_FIELD = re.compile(r"\{(\w+)\}")


class PlannedAction(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happens in a simulation."""

    sentence: ClassVar[str] = ""
    """Its words, with its fields in braces. No field is empty or has a blank in it."""
    chosen: ClassVar[str] = ""
    """The field that has one of ``choices``; empty where there is none."""
    choices: ClassVar[tuple[str, ...]] = ()

    at: float
    """Seconds after the beginning."""

    def __str__(self) -> str:
        return _FIELD.sub(lambda found: str(getattr(self, found[1])), self.sentence)

    @classmethod
    def parse(cls, at: float, words: str) -> Self | None:
        """Return the action that such a sentence describes; None where it is not one of this kind."""
        found = _pattern(cls).fullmatch(words)
        if found is None:
            return None
        types = get_type_hints(cls)
        fields: dict[str, Any] = {name: types[name](value) for name, value in found.groupdict().items()}
        return cls(at=at, **fields)


@cache
def _pattern(kind: type[PlannedAction]) -> re.Pattern[str]:
    return re.compile(_FIELD.sub(r"(?P<\1>\\S+)", kind.sentence))


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


class RequestHostSet(PlannedAction, frozen=True, kw_only=True):
    """Add a host to the fleet, or remove it."""

    sentence = "{who} has host {host} {change} with key {key}"
    chosen = "change"
    choices = ("added", "removed")
    who: str
    host: str
    change: str
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


class RequestEventChange(PlannedAction, frozen=True, kw_only=True):
    """``event`` is a label such as E2, by the order in which events were seen."""

    sentence = "{who} asks to {verb} {event} with key {key}"
    chosen = "verb"
    choices = ("approve", "cancel", "postpone")
    who: str
    verb: str
    event: str
    key: str


class RequestTerms(PlannedAction, frozen=True, kw_only=True):
    """The terms as JSON, without blanks."""

    sentence = "{who} sets the terms of {group} to {terms} with key {key}"
    who: str
    group: str
    terms: str
    key: str


class RequestReclaim(PlannedAction, frozen=True, kw_only=True):
    """Take back so many spot VMs, chosen by the service."""

    sentence = "{who} reclaims {count} spot VMs with key {key}"
    who: str
    count: int
    key: str


class RequestScaleIn(PlannedAction, frozen=True, kw_only=True):
    """Delete so many VMs of a scale set, chosen by the service."""

    sentence = "{who} scales in {group} by {count} with key {key}"
    who: str
    group: str
    count: int
    key: str


class RequestFleetChange(PlannedAction, frozen=True, kw_only=True):
    """A change of the fleet through the control API; the change as JSON, without blanks."""

    sentence = "{who} patches the fleet with {change} with key {key}"
    who: str
    change: str
    key: str


class EditFleetFile(PlannedAction, frozen=True, kw_only=True):
    """What an editor does to the fleet file. The service reads it at its next start."""

    sentence = "the fleet file is edited: {edit} {subject} {value}"
    chosen = "edit"
    choices = (
        "add-vm",
        "remove-vm",
        "rehost-vm",
        "regroup-vm",
        "set-spot",
        "add-host",
        "remove-host",
        "spoil",
        "mend",
    )
    edit: str
    subject: str
    value: str


class ApplyFleetFile(PlannedAction, frozen=True, kw_only=True):
    """Have the running service apply its fleet file, as a reload does."""

    sentence = "the fleet file is applied"


class RequestToken(PlannedAction, frozen=True, kw_only=True):
    """Give an owner another token, or an operator."""

    sentence = "ann creates a token for {owner} of {group} with key {key}"
    owner: str
    group: str
    key: str


class RequestRevocation(PlannedAction, frozen=True, kw_only=True):
    """Take the newest token of an owner back."""

    sentence = "ann revokes the token of {owner} with key {key}"
    owner: str
    key: str


class RequestCancellations(PlannedAction, frozen=True, kw_only=True):
    """Cancel all events of a group that are Scheduled."""

    sentence = "{who} cancels all events of {group} with key {key}"
    who: str
    group: str
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


class RequestGroupSet(PlannedAction, frozen=True, kw_only=True):
    """Add a group to the fleet, or remove it."""

    sentence = "{who} has group {group} {change} with key {key}"
    chosen = "change"
    choices = RequestHostSet.choices
    who: str
    group: str
    change: str
    key: str


class RequestRotation(PlannedAction, frozen=True, kw_only=True):
    """Give the token of an owner another secret. The owner then tries the old one, which may be valid for a while."""

    sentence = "ann rotates the token of {owner} with an overlap of {overlap} s with key {key}"
    owner: str
    overlap: int
    key: str


class RequestPassingToken(PlannedAction, frozen=True, kw_only=True):
    """Give an owner another token, which expires after so many seconds."""

    sentence = "ann creates a token for {owner} of {group} for {seconds} s with key {key}"
    owner: str
    group: str
    seconds: int
    key: str


VIEWER = "vic"
"""Who may read everything, and change nothing."""


class RequestViewer(PlannedAction, frozen=True, kw_only=True):
    """Give the viewer a token."""

    sentence = "ann creates a token for the viewer with key {key}"
    key: str


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


class RequestRollout(PlannedAction, frozen=True, kw_only=True):
    """Start a rollout; its terms as JSON, without blanks."""

    sentence = "{who} starts rollout {rollout} with {terms} with key {key}"
    who: str
    rollout: str
    terms: str
    key: str


class RequestRolloutChange(PlannedAction, frozen=True, kw_only=True):
    """Steer a rollout; ``withdraw`` pauses it and withdraws what is Scheduled."""

    sentence = "{who} wants to {verb} rollout {rollout} with key {key}"
    chosen = "verb"
    choices = ("pause", "withdraw", "resume", "cancel", "retry")
    who: str
    verb: str
    rollout: str
    key: str


class RequestRolloutSkip(PlannedAction, frozen=True, kw_only=True):
    """Leave a host out of a rollout."""

    sentence = "{who} lets rollout {rollout} skip {host} with key {key}"
    who: str
    rollout: str
    host: str
    key: str


class RequestRolloutEdit(PlannedAction, frozen=True, kw_only=True):
    """Change the terms of a rollout; what changes as JSON, without blanks."""

    sentence = "{who} edits rollout {rollout} to {terms} with key {key}"
    who: str
    rollout: str
    terms: str
    key: str


class TryRollout(PlannedAction, frozen=True, kw_only=True):
    """Have a rollout planned, without starting it."""

    sentence = "{who} plans rollout {rollout} with {terms}"
    who: str
    rollout: str
    terms: str


class FailGate(PlannedAction, frozen=True, kw_only=True):
    """What the gates of rollouts ask for is not well, or does not answer, for a while."""

    sentence = "the gate of rollouts is {state} for {seconds} s"
    chosen = "state"
    choices = ("failing", "unreachable")
    state: str
    seconds: float


class RefuseNotifications(PlannedAction, frozen=True, kw_only=True):
    """The receivers of notifications are down."""

    sentence = "receivers of notifications are down for {seconds} s"
    seconds: float


class ReadEverything(PlannedAction, frozen=True, kw_only=True):
    """Read every list of the control API."""

    sentence = "{who} reads everything"
    who: str


class KillService(PlannedAction, frozen=True, kw_only=True):
    """Kill the service after so many more callbacks of it."""

    sentence = "the service is killed after {callbacks} callbacks"
    callbacks: int


class LosePower(PlannedAction, frozen=True, kw_only=True):
    """Kill the service, and whatever its driver runs beside it."""

    sentence = "the machine of the service loses power"


class RestartService(PlannedAction, frozen=True, kw_only=True):
    """Stop the service in order, and start it again."""

    sentence = "the service is restarted"


class FailAppends(PlannedAction, frozen=True, kw_only=True):
    """What becomes of the next appends: an ``AppendFault``."""

    sentence = "the next {count} appends are {fault}"
    chosen = "fault"
    choices = tuple(map(str, AppendFault))
    count: int
    fault: str


class FillDisk(PlannedAction, frozen=True, kw_only=True):
    """Refuse every append for a while."""

    sentence = "the disk is full for {seconds} s"
    seconds: float


class HideDisk(PlannedAction, frozen=True, kw_only=True):
    """Let nothing be read from the disk for a while."""

    sentence = "the disk is unreadable for {seconds} s"
    seconds: float


class DamageDriverRecord(PlannedAction, frozen=True, kw_only=True):
    """Append half a line to the newest progress file of the driver, as a power failure leaves it."""

    sentence = "a progress file of the driver is torn"


class FailDriver(PlannedAction, frozen=True, kw_only=True):
    """What becomes of the next calls of the driver."""

    sentence = "the next {count} driver calls: {fault}"
    chosen = "fault"
    choices = ("fails", "raises", "hangs", "late")
    count: int
    fault: str


class BefallMachine(PlannedAction, frozen=True, kw_only=True):
    """Something happens to a machine that the service did not ask for; ``host`` is where it was moved, or ``-``."""

    sentence = "machine {vm} {what} by itself, host {host}"
    chosen = "what"
    choices = ("crashed", "rebooted", "stopped", "started", "gone", "moved")
    vm: str
    what: str
    host: str


class StepClock(PlannedAction, frozen=True, kw_only=True):
    """Set the wall clock of the service ahead, or back where it is negative."""

    sentence = "the clock of the service steps by {seconds} s"
    seconds: float


class DriftClock(PlannedAction, frozen=True, kw_only=True):
    """Let the wall clock of the service run too fast by this rate, or too slow where it is negative."""

    sentence = "the clock of the service drifts by {rate}"
    rate: float


class LoseRequests(PlannedAction, frozen=True, kw_only=True):
    """Lose this share of what is sent, for a while."""

    sentence = "the network loses {chance} of what is sent for {seconds} s"
    chance: float
    seconds: float


class DelayRequests(PlannedAction, frozen=True, kw_only=True):
    """Let what is sent travel longer, for a while."""

    sentence = "the network delays by up to {delay} s for {seconds} s"
    delay: float
    seconds: float


class RebootGuest(PlannedAction, frozen=True, kw_only=True):
    """End the programs of a guest at once and start them again after so many seconds."""

    sentence = "guest {vm} is killed and back after {seconds} s"
    vm: str
    seconds: float


class DamageMemory(PlannedAction, frozen=True, kw_only=True):
    """Torn: half a line more at the end. Flipped: one byte in the middle."""

    sentence = "the memory of the agent in {vm} is {how}, and the agent restarts"
    chosen = "how"
    choices = ("torn", "flipped")
    vm: str
    how: str


class KillNode(PlannedAction, frozen=True, kw_only=True):
    """Kill a node after so many more callbacks of it. ``leader`` is the node that leads then."""

    sentence = "node {node} is killed after {callbacks} callbacks"
    node: str
    callbacks: int


class RestartNode(PlannedAction, frozen=True, kw_only=True):
    """Stop a node in order, so that it passes leadership on, and start it again."""

    sentence = "node {node} is restarted"
    node: str


class PauseNode(PlannedAction, frozen=True, kw_only=True):
    """Let nothing of a node run for a while, as SIGSTOP does."""

    sentence = "node {node} is paused for {seconds} s"
    node: str
    seconds: float


class CutNodeOff(PlannedAction, frozen=True, kw_only=True):
    """Let a node not reach the database for a while."""

    sentence = "node {node} does not reach the database for {seconds} s"
    node: str
    seconds: float


class CutNodes(PlannedAction, frozen=True, kw_only=True):
    """Let two nodes not reach each other for a while."""

    sentence = "nodes {node} and {other} do not reach each other for {seconds} s"
    node: str
    other: str
    seconds: float


class SkewNode(PlannedAction, frozen=True, kw_only=True):
    """Set the wall clock of a node ahead, or back where it is negative."""

    sentence = "the clock of node {node} steps by {seconds} s"
    node: str
    seconds: float


class DisturbPeers(PlannedAction, frozen=True, kw_only=True):
    """Disturb what nodes say to each other, for a while; connections are broken once."""

    sentence = "messages between nodes are {fault} for {seconds} s"
    chosen = "fault"
    choices = ("lost", "delayed", "repeated", "broken")
    fault: str
    seconds: float


class StopDatabase(PlannedAction, frozen=True, kw_only=True):
    """Let no node reach the database for a while."""

    sentence = "the database is down for {seconds} s"
    seconds: float


class FailOver(PlannedAction, frozen=True, kw_only=True):
    """The primary dies, and a standby takes over; where it is not synchronous, without the last entries."""

    sentence = "the database is down for {seconds} s, and its standby takes over without {entries} entries"
    seconds: float
    entries: int


class FailDatabase(PlannedAction, frozen=True, kw_only=True):
    """What becomes of the next appends to the database: a ``DatabaseFault``."""

    sentence = "the next {count} appends to the database are {fault}"
    chosen = "fault"
    choices = tuple(map(str, DatabaseFault))
    count: int
    fault: str


class LoseHeartbeats(PlannedAction, frozen=True, kw_only=True):
    """Let the next heartbeats of nodes have no answer; some of them are noted all the same."""

    sentence = "the next {count} heartbeats are not answered"
    count: int


class DelayHeartbeats(PlannedAction, frozen=True, kw_only=True):
    """Let heartbeats take long, for a while."""

    sentence = "heartbeats take up to {delay} s for {seconds} s"
    delay: float
    seconds: float


class LoseDatabaseNotifications(PlannedAction, frozen=True, kw_only=True):
    """Let nodes not be notified of entries, for a while; they look by themselves now and then."""

    sentence = "nodes are not notified of entries for {seconds} s"
    seconds: float


COMMANDS: tuple[type[PlannedAction], ...] = (
    RequestVmOperation,
    RequestBulk,
    RequestTrial,
    RequestLabel,
    RequestHostSet,
    RequestTwice,
    RequestMove,
    RequestHostOperation,
    RequestDegradation,
    RequestEventChange,
    RequestTerms,
    RequestReclaim,
    RequestScaleIn,
    RequestFleetChange,
    EditFleetFile,
    ApplyFleetFile,
    RequestToken,
    RequestRevocation,
    RequestCancellations,
    RequestHostBulk,
    RequestHostLabel,
    RequestGroupSet,
    RequestRotation,
    RequestPassingToken,
    RequestViewer,
    RequestSubscription,
    RequestUnsubscription,
    RefuseNotifications,
    ReadEverything,
    RequestRollout,
    RequestRolloutChange,
    RequestRolloutSkip,
    RequestRolloutEdit,
    TryRollout,
)
"""What operators, owners and editors of the fleet file do."""

FAULTS: tuple[type[PlannedAction], ...] = (
    KillService,
    LosePower,
    RestartService,
    FailAppends,
    FillDisk,
    HideDisk,
    DamageDriverRecord,
    FailDriver,
    BefallMachine,
    StepClock,
    DriftClock,
    LoseRequests,
    DelayRequests,
    RebootGuest,
    DamageMemory,
    FailGate,
)
"""What happens to the service and to what it stands on."""

NODE_FAULTS: tuple[type[PlannedAction], ...] = (
    KillNode,
    RestartNode,
    PauseNode,
    CutNodeOff,
    CutNodes,
    SkewNode,
    DisturbPeers,
    StopDatabase,
    FailOver,
    FailDatabase,
    LoseHeartbeats,
    DelayHeartbeats,
    LoseDatabaseNotifications,
)
"""What happens to several nodes, and to the database that they share."""

KINDS = (*COMMANDS, *FAULTS, *NODE_FAULTS)


def parse_action(at: float, words: str) -> PlannedAction:
    """Return the action that a sentence describes; raise ValueError where there is none."""
    for kind in KINDS:
        if action := kind.parse(at, words):
            return action
    raise ValueError(f"{words!r} describes no action of a simulation")
