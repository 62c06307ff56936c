"""What a journal promises that several nodes share: at most one of them leads, and only that one appends.

    heartbeat ──▶ the lease is free, and this node may lead ──▶ it leads, in a new term
        │
        └───────▶ the lease is its own ──▶ it is renewed        else: it follows

The database decides, by its own clock. A term never comes again, also where the database is restored or lost its last
commits: it is at least the time in seconds. An append of an earlier term adds nothing.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

import msgspec

from forewarn.journal.port import Journal, JournalFailed, NotWritten

LONGEST_SKEW = timedelta(seconds=2)
"""How far a leader's clock may be from the database's."""


class LeaseLost(NotWritten):
    """Another node leads, or the lease has ended; nothing was appended."""


class JournalDiverged(JournalFailed):
    """The journal does not continue what this process has read from it; load it again."""


DIVERGED = "diverged"
"""The topic of the warning that a journal was loaded again because it diverged."""


def describe_divergence(held: int, reason: str) -> str:
    """Say that a node held what the journal does not continue, and the remedy."""
    return (
        f"this node held revision {held}, which the journal does not continue ({reason}); it was loaded again:"
        " check that the database's standby is synchronous"
    )


class NodeNameTaken(JournalFailed):
    """Another process has the name of this node; give each node a name of its own."""


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a node tells the others with each heartbeat."""

    name: str
    process: str
    """An id that the process drew when it started: the lease belongs to a process, not to a name."""
    address: str
    """HOST:PORT where the other nodes reach it."""
    release: str
    """The release of Forewarn that it runs."""
    format: int
    """The newest format of facts that it can read."""
    revision: int = 0
    """The last revision that its replica holds."""
    can_lead: bool = True
    """Whether it takes the lease if that is free, and renews its own."""


class ClusterMember(msgspec.Struct, frozen=True, kw_only=True):
    """A node, as its last heartbeat described it."""

    report: NodeReport
    age: float
    """Seconds since its last heartbeat, by the database's clock."""


class LeaseState(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads."""

    term: int
    """0 before the first leader."""
    node: str
    """Empty where no node leads."""
    process: str
    """The process that holds it; empty where no node leads."""
    remaining: float
    """Seconds until the lease ends, by the database's clock.

    Where no node leads: not above 0, or the time until this node may take a lease that seems to have ended.
    """


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """What the database returned for a heartbeat."""

    lease: LeaseState
    revision: int
    """The last durable revision."""
    now: datetime
    """The database's clock."""
    format: int
    """The format of facts that every node can read; it never falls."""
    members: tuple[ClusterMember, ...]
    """The nodes that were heard of recently, this one included."""


@runtime_checkable
class SharedJournal(Journal, Protocol):
    """A journal in a database that several nodes use at the same time.

    ``load`` changes nothing and waits for no node; every node calls it. ``append`` raises ``LeaseLost`` unless this
    process holds the lease in the term that ``begin_term`` named. After ``AppendUnknown``, ``load`` and ``reopen``
    return only when that append can not take effect any more.

    ``entries`` and ``follow`` raise ``JournalDiverged`` where the last revision is below ``after``, or where the
    entries do not continue those that ``load``, ``append`` and ``entries`` had before up to ``after``. ``follow``
    returns False at once when a lease is released.
    """

    @property
    def place(self) -> str:
        """Where the database is, for people: nothing secret."""

    def heartbeat(self, report: NodeReport, lease: float) -> ClusterState:
        """Tell the others that this node is alive, and renew its lease or take a free one, for ``lease`` seconds.

        Note and lease change in one statement; the state is read after it. ``JournalFailed``: it is unknown whether
        the lease was renewed. ``NodeNameTaken``: another process of that name sent a heartbeat less than ``lease``
        seconds ago, and nothing changed. Called from a thread of its own, beside every other call, also before
        ``load``.
        """

    def begin_term(self, term: int) -> None:
        """Append in this term from now on; 0: do not append any more."""

    def release_lease(self, node: str, term: int) -> None:
        """End the lease now, so that another node can lead at once, and wake the others. Repeating it is harmless."""

    def leave(self, name: str, process: str) -> None:
        """Forget this process, which stops: no node waits for it, and another one may have its name at once."""


@runtime_checkable
class SupportsIdentity(Protocol):
    """A shared journal that knows its cluster, so that another one is not joined by mistake."""

    @property
    def place(self) -> str:
        """Where the database is, for people: nothing secret."""

    def cluster_id(self) -> str:
        """Return the id of the cluster, which never changes. ``JournalFailed``: this process lacks rights."""

    def join(self, fingerprints: Sequence[str]) -> bool:
        """Note the fingerprints of a node's authority; False, and nothing changes, where others are noted already.

        One that is the same suffices.
        """
