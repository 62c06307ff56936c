"""What the routes of the control API work with, and who asks."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, cast

import msgspec
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.types import Scope

from forewarn.control.access import Bearer
from forewarn.control.api.idempotency import Keys
from forewarn.control.api.paging import Names
from forewarn.control.bodies import Sent
from forewarn.control.changes import Changes
from forewarn.control.notices.delivery import Delivery
from forewarn.control.operations import Operations
from forewarn.control.record import Record
from forewarn.control.tokens import Doorkeeper
from forewarn.control.views import LastAsked
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller
from forewarn.core.outsiders import Role, Subscription
from forewarn.journal.port import Journal
from forewarn.node.node import Node

PEER = "forewarn.peer"
"""Under which a connection through the unix socket says who is at its other end."""
_BEARER = "forewarn.bearer"


class Deliveries(Protocol):
    """Whoever tells subscribers."""

    def delivery_of(self, subscription: str) -> Delivery:
        """Say whether messages get through."""

    async def send_test(self, subscription: Subscription) -> Sent:
        """Send a message that says it is a test; raise ForewarnError that says why it did not arrive."""


class Plane:
    """The parts behind the routes."""

    def __init__(
        self,
        node: Node,
        journal: Journal,
        last_asked: LastAsked,
        *,
        moves_live: bool = False,
        metrics: Callable[[], bytes] | None = None,
        deliveries: Deliveries | None = None,
    ) -> None:
        self.node = node
        self.journal = journal
        self.last_asked = last_asked
        self.metrics = metrics
        self.deliveries = deliveries
        self.operations = Operations(node, last_asked, moves_live=moves_live)
        self.record = Record(node, journal)
        self.keys = Keys()
        self.names = Names(node)
        self.changes = Changes(node, journal)
        self.doorkeeper = Doorkeeper(node.clock.now, node.clock.seconds)

    async def follow(self) -> None:
        """Begin to follow what is committed, from the fleet as it is at that moment."""

        def begin(fleet: Fleet) -> None:
            for listener in (self.names, self.changes):
                listener.load(fleet)
                self.node.feed.subscribe(listener)

        await self.node.look(begin)

    def now(self) -> datetime:
        return self.node.clock.now()

    def command_id(self, bearer: Bearer, key: str | None, what: str, data: msgspec.Struct | None = None) -> str:
        """Return the id of the command that a request is, by its ``Idempotency-Key``."""
        return self.keys.command_id(bearer, key, what.encode() + b"\n" + msgspec.json.encode(data))


Behind = NamedDependency[Plane]
"""What a route is handed to work with."""
Asking = NamedDependency[Bearer]
"""Who asks, as a route is handed it."""


def admit(connection: ASGIConnection[Any, Any, Any, Any]) -> Bearer:
    """Find out who asks: the user at the other end of the unix socket, or whoever a token says."""
    plane = plane_of(connection.scope)
    peer = connection.scope["state"].get(PEER)
    if isinstance(peer, Caller):
        bearer = Bearer(peer, Role.OPERATOR)
    else:
        client = connection.client
        bearer = plane.doorkeeper.admit(
            plane.node.fleet, connection.headers.get("authorization", ""), client.host if client else ""
        )
    connection.scope["state"][_BEARER] = bearer
    return bearer


def plane_of(scope: Scope) -> Plane:
    return cast("Plane", scope["app"].state.plane)


def bearer_of(scope: Scope) -> Bearer:
    """Return who sends a request that was let in."""
    return cast("Bearer", scope["state"][_BEARER])


def provide_plane(scope: Scope) -> Plane:
    """Hand a route what it works with."""
    return plane_of(scope)


def provide_bearer(scope: Scope) -> Bearer:
    """Hand a route who asks."""
    return bearer_of(scope)
