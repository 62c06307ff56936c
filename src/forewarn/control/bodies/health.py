"""Bodies about the health of the service, its workers and its cluster."""

from typing import Literal

import msgspec


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Health of the service."""

    status: Literal["live", "ready", "unready"]
    revision: int | None = None
    """The last revision of the journal."""


class ListenerView(msgspec.Struct, frozen=True, kw_only=True):
    """A socket that the service listens on."""

    part: Literal["metadata", "control"]
    address: str
    inode: int
    """The inode of the socket, as in /proc/net/tcp."""
    is_tls: bool = False


_LONG_SILENCE = 3.0
"""Seconds without a message after which a worker may be stuck."""


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A process that answers VMs."""

    number: int
    pid: int
    state: Literal["down", "loading", "joined", "listening"]
    """joined: it follows the commits, and does not answer yet."""
    revision: int
    """The last revision that it can show."""
    connections: int
    long_polls: int
    age: float
    """Seconds since its process was started."""
    leader_age: float
    """Seconds since it knew its leader to be well, when it last reported."""
    restarts: int
    silence: float = 0.0
    """Seconds since it last sent its leader a message; it reports each second."""

    @property
    def is_well(self) -> bool:
        """Whether it answers, as far as its leader knows."""
        return self.state == "listening" and self.silence < _LONG_SILENCE

    @property
    def summary(self) -> str:
        """The message to operators, in one line."""
        if self.state != "listening":
            return f"worker {self.number} does not answer: it is {self.state}"
        if not self.is_well:
            return f"worker {self.number} (process {self.pid}) may not answer: silent for {self.silence:.0f} s"
        return (
            f"worker {self.number} (process {self.pid}) answers at revision {self.revision},"
            f" {self.connections} connections, for {self.age:.0f} s"
        )


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node that shares the journal, as its last heartbeat described it."""

    name: str
    address: str
    release: str
    format: int
    """The newest format of facts that it can read."""
    revision: int
    """The last revision that it holds."""
    can_lead: bool
    age: float
    """Seconds since its last heartbeat."""


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """One node among those that share the journal."""

    node: str
    role: Literal["leading", "following", "changing"]
    leader: str
    """The node that leads; empty while none does, or it is not known."""
    term: int
    """The term of the leader; it grows with each change of leader."""
    heartbeat_age: float
    """Seconds since the database last answered a heartbeat of this node."""
    revisions_behind: int
    """Entries of the journal that this node does not hold yet."""
    behind: float
    """Seconds since this node certainly held everything that was durable."""
    is_behind: bool
    """Whether that is longer than the setting behind_after."""
    clock_skew: float
    """Seconds that the clock of this node is ahead of the database's, at least."""
    format: int
    """The format of facts that every node can read."""
    reloads: int
    """How often the journal did not continue what this node held, so that it was loaded again."""
    nodes: tuple[NodeView, ...]

    @property
    def summary(self) -> str:
        """The message to operators, in one line."""
        who = "leads" if self.role == "leading" else f"follows {self.leader or 'no node: none leads'}"
        lag = f", {self.revisions_behind} revisions behind for {self.behind:.0f} s" if self.is_behind else ""
        return f"node {self.node} {who} in term {self.term}{lag}, heartbeat {self.heartbeat_age:.1f} s ago"


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says about itself when another node asks."""

    role: Literal["leading", "following", "changing"]
    revision: int
    """The last revision that it holds."""
    behind: float
    """Seconds since it certainly held everything that was durable."""
    clock_skew: float
    """Seconds that its clock is ahead of the database's, at least."""
    warnings: tuple[str, ...]


class ClusterNodeView(NodeView, frozen=True, kw_only=True):
    """A node that shares the journal: its last heartbeat, and what it says about itself."""

    role: Literal["leading", "following", "changing", "silent"]
    """What it does; ``silent`` where it did not answer."""
    revisions_behind: int
    """Entries of the journal that it does not hold yet."""
    behind: float | None = None
    """Seconds since it certainly held everything that was durable; not known of a silent node."""
    clock_skew: float | None = None
    """Seconds that its clock is ahead of the database's, at least."""
    warnings: tuple[str, ...] = ()
    """What needs an operator there."""


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes that share the journal."""

    node: str
    """The node that answered."""
    leader: str
    """The node that leads; empty while none does, or it is not known."""
    term: int
    """The term of the leader; it grows with each change of leader."""
    revision: int
    """The last revision that any node knows of."""
    format: int
    """The format of facts that every node can read."""
    database: str
    nodes: tuple[ClusterNodeView, ...]
    warnings: tuple[str, ...]
    """What needs an operator in the cluster as a whole."""


class HealthDetail(Health, frozen=True, kw_only=True):
    """Health of the service, and warnings for an operator."""

    warnings: tuple[str, ...] = ()
    """One sentence each, with the remedy."""
    listeners: tuple[ListenerView, ...] | None = None
    """Listening TCP sockets for VMs and operators; null if unknown."""
    workers: tuple[WorkerView, ...] | None = None
    """The processes that answer VMs; null if one process does everything."""
    cluster: ClusterView | None = None
    """The nodes that share the journal; null where it is this node's own."""
