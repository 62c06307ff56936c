"""What happens to several nodes, to the messages between them, and to the database that they share."""

from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.environment.database import DatabaseFault


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
