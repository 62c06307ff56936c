"""Heartbeats and the lease, on a session of their own.

By the clock of a server that was just promoted, or whose clock was set, the lease of a leader that lives may seem to
have ended. So a lease that another process holds is taken only where the clock of the server has gone on steadily for
the time of a lease: a leader that lives renews it meanwhile, and one that does not has stopped.
"""

from collections.abc import Callable
from math import inf
from threading import Lock as Mutex
from time import monotonic
from typing import TypeVar

import psycopg

from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.connection import LimitedConnection
from forewarn.journal.postgres.errors import translate_errors
from forewarn.journal.postgres.sessions import connect
from forewarn.journal.shared import ClusterMember, ClusterState, LeaseState, NodeNameTaken, NodeReport

_Value = TypeVar("_Value")
_LIMIT = 1.5
"""Seconds within which the database answers; a heartbeat of a long lease may take half as long as that."""
LONGEST_LEASE = 120.0
"""Seconds; none is taken for longer. One that would last longer was taken by another clock."""
_STEP = 0.25
"""Seconds by which the clock of the server is ahead of where it should be if it was set."""


class LeaseKeeper:
    """Sends heartbeats; one call at a time, from any thread."""

    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        self._connection: LimitedConnection | None = None
        self._ahead = -inf, -inf
        """Seconds by which the server's clock was ahead of this process's when it was last read: the range."""
        self._steady_since = inf
        """Since when, by the clock of this process, the session has found that the other clock was not set ahead."""
        self._mutex = Mutex()

    def heartbeat(self, report: NodeReport, lease: float) -> ClusterState:
        # While half of the lease is left, the heartbeat can be sent again to another server.
        return self._call(lambda connection: self._beat(connection, report, lease), max(lease / 2, _LIMIT))

    def release(self, node: str, term: int) -> None:
        self._call(lambda connection: connection.run("release", node=node, term=term))

    def leave(self, name: str, process: str) -> None:
        self._call(lambda connection: connection.run("leave", name=name, process=process))

    def close(self) -> None:
        with self._mutex:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _call(self, call: Callable[[LimitedConnection], _Value], limit: float = _LIMIT) -> _Value:
        """Call with the session; one that was lost since the last call is opened again."""
        with self._mutex, translate_errors(self._address.place):
            try:
                if self._connection is not None:
                    self._connection.limit = limit
                    try:
                        return call(self._connection)
                    except psycopg.OperationalError:
                        if not self._connection.closed:
                            raise
                self._connection = connect(self._address, limit)
                self._ahead, self._steady_since = (-inf, -inf), inf
                self._connection.run("limit_locks", seconds=limit)  # one that was given up takes no lease later
                return call(self._connection)
            except NodeNameTaken:
                raise
            except BaseException:
                self._close()
                raise

    def _beat(self, connection: LimitedConnection, report: NodeReport, lease: float) -> ClusterState:
        is_steady = monotonic() - self._steady_since >= lease
        is_noted = connection.run(
            "beat",
            name=report.name,
            process=report.process,
            address=report.address,
            release=report.release,
            format=report.format,
            revision=report.revision,
            can_lead=report.can_lead,
            lease=lease,
            ended_by=monotonic() + self._ahead[0] if is_steady else None,
        )
        asked_at = monotonic()
        ((term, leader, process, remaining, revision, now, format_),) = connection.run("read_state")
        ahead = now.timestamp() - monotonic(), now.timestamp() - asked_at
        if is_set := ahead[0] > self._ahead[1] + _STEP:
            self._steady_since = monotonic()
        self._ahead = ahead
        if not is_noted:
            raise NodeNameTaken(
                f"another process has the name of node {report.name!r}: give each node a name of its own, and each"
                " cluster a database of its own"
            )
        has_leader, is_own = remaining > 0, process == report.process
        if remaining > max(lease, LONGEST_LEASE):
            connection.run("shorten_lease", lease=lease, longest=max(lease, LONGEST_LEASE))
        if leader and not has_leader and not is_own:
            remaining = max(remaining, self._steady_since + lease - monotonic())
        # By another clock, nodes that are alive may seem to be gone: the next heartbeat raises the format.
        if has_leader and is_own and format_ < report.format and not is_set:
            connection.run("raise_format")
        members = connection.run("read_members")
        return ClusterState(
            lease=LeaseState(
                term=term,
                node=leader if has_leader else "",
                process=process if has_leader else "",
                remaining=remaining,
            ),
            revision=revision,
            now=now,
            format=format_,
            members=tuple(_member(*row) for row in members),
        )


def _member(
    name: str,
    process: str,
    address: str,
    release: str,
    format_: int,
    revision: int,
    can_lead: bool,  # noqa: FBT001 - a column
    age: float,
) -> ClusterMember:
    report = NodeReport(
        name=name,
        process=process,
        address=address,
        release=release,
        format=format_,
        revision=revision,
        can_lead=can_lead,
    )
    return ClusterMember(report=report, age=age)
