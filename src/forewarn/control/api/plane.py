"""What the routes of the control API work with, and who asks."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, cast

import msgspec
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.types import Scope

from forewarn.control.access import Bearer
from forewarn.control.api.idempotency import Locks
from forewarn.control.api.paging import Names
from forewarn.control.bodies import ListenerView, Sent
from forewarn.control.changes import Changes
from forewarn.control.drains import Drains
from forewarn.control.notices.delivery import Delivery
from forewarn.control.operations import Operations
from forewarn.control.record import Record
from forewarn.control.tokens import Doorkeeper
from forewarn.control.views import LastAsked
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller
from forewarn.core.outsiders import Role, Subscription
from forewarn.journal.port import Journal
from forewarn.node.driver import TellingCapacity
from forewarn.node.node import Node


class Peer(msgspec.Struct, frozen=True):
    """The user at the other end of the unix socket."""

    caller: Caller
    uid: int


PEER = "forewarn.peer"
"""Under which a connection through the unix socket says who is at its other end."""
_BEARER = "forewarn.bearer"


class Deliveries(Protocol):
    """Whoever tells subscribers."""

    def check(self, subscription: Subscription) -> None:
        """Refuse a subscriber that nothing can be delivered to with the settings as they are."""

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
        moves_to_host: bool = False,
        switches: bool = False,
        capacity: TellingCapacity | None = None,
        metrics: Callable[[], bytes] | None = None,
        deliveries: Deliveries | None = None,
    ) -> None:
        self.node = node
        self.journal = journal
        self.last_asked = last_asked
        self.metrics = metrics
        self.listeners: Callable[[], tuple[ListenerView, ...]] | None = None
        self.deliveries = deliveries
        self.operations = Operations(
            node, last_asked, moves_live=moves_live, moves_to_host=moves_to_host, switches=switches
        )
        self.drains = Drains(node, capacity)
        self.record = Record(node, journal)
        self.locks = Locks()
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


Behind = NamedDependency[Plane]
"""What a route is handed to work with."""
Asking = NamedDependency[Bearer]
"""Who asks, as a route is handed it."""


def admit(connection: ASGIConnection[Any, Any, Any, Any]) -> Bearer:
    """Find out who asks: the user at the other end of the unix socket, or whoever a token says."""
    plane = plane_of(connection.scope)
    peer = connection.scope["state"].get(PEER)
    if isinstance(peer, Peer):
        bearer = Bearer(peer.caller, Role.OPERATOR, uid=peer.uid)
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
