"""Dependencies of the routes, and the authenticated principal of a request."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, cast

import msgspec
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.types import Scope

from forewarn.control.api.idempotency import KeyLocks
from forewarn.control.api.paging import NameIndex
from forewarn.control.bodies import DeliveryReceipt, ListenerView
from forewarn.control.notifications.worker import DeliveryStatus
from forewarn.control.server.authentication import Authenticator
from forewarn.control.server.change_stream import ChangeStream
from forewarn.control.server.drain_planner import DrainPlanner
from forewarn.control.server.event_archive import EventArchive
from forewarn.control.server.operations import OperationViews
from forewarn.control.views import LastAsked
from forewarn.core.access import Principal
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, Role, Subscription
from forewarn.journal.port import Journal
from forewarn.node.driver import SupportsCapacity
from forewarn.node.node import Node


class Peer(msgspec.Struct, frozen=True):
    """The user at the other end of the unix socket."""

    caller: Caller
    uid: int


PEER = "forewarn.peer"
"""Key of the peer in the state of a connection through the unix socket."""
_PRINCIPAL = "forewarn.bearer"


class Deliveries(Protocol):
    """Delivery to subscriptions, as the routes use it."""

    def check(self, subscription: Subscription) -> None:
        """Raise Refused if nothing can be delivered to the subscription with the current settings."""

    def delivery_of(self, subscription: str) -> DeliveryStatus:
        """Return the delivery status of a subscription."""

    async def send_test(self, subscription: Subscription) -> DeliveryReceipt:
        """Send a test notification; raise ForewarnError with the reason if it was not delivered."""


class ApiContext:
    """The objects that the routes use."""

    def __init__(
        self,
        node: Node,
        journal: Journal,
        last_asked: LastAsked,
        *,
        moves_live: bool = False,
        moves_to_host: bool = False,
        switches: bool = False,
        capacity: SupportsCapacity | None = None,
        metrics: Callable[[], bytes] | None = None,
        deliveries: Deliveries | None = None,
    ) -> None:
        self.node = node
        self.journal = journal
        self.last_asked = last_asked
        self.metrics = metrics
        self.listeners: Callable[[], tuple[ListenerView, ...]] | None = None
        self.deliveries = deliveries
        self.operations = OperationViews(
            node, last_asked, moves_live=moves_live, moves_to_host=moves_to_host, switches=switches
        )
        self.drains = DrainPlanner(node.replica, capacity)
        self.record = EventArchive(node, journal)
        self.locks = KeyLocks()
        self.names = NameIndex(node.replica)
        self.changes = ChangeStream(node, journal)
        self.authenticator = Authenticator(node.clock.now, node.clock.seconds)

    def follow(self) -> None:
        """Start following commits, from the current fleet."""
        self.node.replica.subscribe(self.names, "Names")
        self.node.replica.subscribe(self.changes, "Changes")

    @property
    def fleet(self) -> Fleet:
        """The committed fleet."""
        return self.node.replica.fleet

    def now(self) -> datetime:
        return self.node.clock.now()


ContextDependency = NamedDependency[ApiContext]
"""Parameter of a route: its context."""
PrincipalDependency = NamedDependency[Principal]
"""Parameter of a route: the authenticated principal."""


def authenticate(connection: ASGIConnection[Any, Any, Any, Any]) -> Principal:
    """Authenticate a request: by the user at the other end of the unix socket, or by its token."""
    context = context_of(connection.scope)
    peer = connection.scope["state"].get(PEER)
    if isinstance(peer, Peer):
        principal = Principal(peer.caller, Role.OPERATOR, uid=peer.uid)
    else:
        client = connection.client
        principal = context.authenticator.authenticate(
            context.fleet, connection.headers.get("authorization", ""), client.host if client else ""
        )
    connection.scope["state"][_PRINCIPAL] = principal
    return principal


def context_of(scope: Scope) -> ApiContext:
    return cast("ApiContext", scope["app"].state.context)


def principal_of(scope: Scope) -> Principal:
    return cast("Principal", scope["state"][_PRINCIPAL])


def provide_context(scope: Scope) -> ApiContext:
    return context_of(scope)


def provide_principal(scope: Scope) -> Principal:
    return principal_of(scope)
