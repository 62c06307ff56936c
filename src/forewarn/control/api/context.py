"""Dependencies of the routes, and the authenticated principal of a request."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Protocol, cast

import msgspec
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.types import Receive, Scope, Send

from forewarn.control.api.idempotency import KeyLocks
from forewarn.control.api.paging import NameIndex
from forewarn.control.bodies import ClusterStatus, ClusterView, DeliveryReceipt, ListenerView, WorkerView
from forewarn.control.dashboard.known_lines import KnownLines, OwnedLines
from forewarn.control.dashboard.name_search import NameSearch
from forewarn.control.dashboard.sessions import CSRF_HEADER, LoginLinks, bearer_of, port_of, session_cookie
from forewarn.control.dashboard.states import DeallocatedVms
from forewarn.control.notifications.worker import DeliveryStatus
from forewarn.control.server.authentication import Authenticator
from forewarn.control.server.change_stream import ChangeStream
from forewarn.control.server.drain_planner import DrainPlanner
from forewarn.control.server.event_archive import EventArchive
from forewarn.control.server.metrics import MetricSources
from forewarn.control.server.operations import OperationViews
from forewarn.control.server.recent_events import RecentEvents
from forewarn.control.server.rollout_planner import RolloutPlanner
from forewarn.control.views import LastAsked
from forewarn.core.access import Principal
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, Role, Subscription
from forewarn.journal.port import Journal
from forewarn.node.driver import SupportsCapacity
from forewarn.node.histogram import Histogram
from forewarn.node.node import Node
from forewarn.node.rollout_checks import RolloutChecker


class Peer(msgspec.Struct, frozen=True):
    """The user at the other end of the unix socket."""

    caller: Caller
    uid: int


PEER = "forewarn.peer"
"""Key of the peer in the state of a connection through the unix socket."""


class ForwardedPrincipal(msgspec.Struct, frozen=True):
    """A principal that another node of the cluster has authenticated."""

    caller: Caller
    token: str = ""
    """The id of its token; empty where it came through the unix socket of that node."""
    uid: int | None = None


FORWARDED = "forewarn.forwarded"
"""Key of a ``ForwardedPrincipal`` in the state of a request; only the port for other nodes sets it."""
_PRINCIPAL = "forewarn.bearer"


class Deliveries(Protocol):
    """Delivery to subscriptions, as the routes use it."""

    def check(self, subscription: Subscription) -> None:
        """Raise Refused if nothing can be delivered to the subscription with the current settings."""

    def delivery_of(self, subscription: str) -> DeliveryStatus:
        """Return the delivery status of a subscription."""

    async def send_test(self, subscription: Subscription) -> DeliveryReceipt:
        """Send a test notification; raise ForewarnError with the reason if it was not delivered."""


class RequestForwarder(Protocol):
    """The way to the node that leads."""

    @property
    def is_leading(self) -> bool:
        """Whether this node leads, and answers every request itself."""

    async def forward(self, scope: Scope, receive: Receive, send: Send, principal: Principal) -> Receive | None:
        """Have a request answered by the leader. Where this node leads meanwhile, return what it is to receive.

        Raise Unavailable if it was not carried out, OutcomeUnknown if that is unknown; then nothing was sent back.
        """


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
        runs_commands: bool = False,
        checker: RolloutChecker | None = None,
        metrics: Callable[[], bytes] | None = None,
        deliveries: Deliveries | None = None,
    ) -> None:
        self.node = node
        self.journal = journal
        self.last_asked = last_asked
        self.metrics = metrics
        self.listeners: Callable[[], tuple[ListenerView, ...]] | None = None
        self.workers: Callable[[], tuple[WorkerView, ...]] | None = None
        self.forwarder: RequestForwarder | None = None
        """The way to the leader; None where this is the only node."""
        self.cluster: Callable[[], ClusterView] | None = None
        self.durations = Histogram(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
        """How long requests take until their answer begins."""
        self.metric_sources = MetricSources()
        """Counters of the metadata service, for the page on health."""
        self.cluster_status: Callable[[], Awaitable[ClusterStatus]] | None = None
        """Asks all nodes how they are; None where this is the only node."""
        self.deliveries = deliveries
        self.operations = OperationViews(
            node, last_asked, moves_live=moves_live, moves_to_host=moves_to_host, switches=switches
        )
        self.drains = DrainPlanner(node.replica, capacity)
        self.rollouts = RolloutPlanner(
            node,
            journal,
            checker or RolloutChecker(),
            capacity,
            runs_commands=runs_commands,
            moves_live=moves_live,
        )
        self.record = EventArchive(node, journal)
        self.recent = RecentEvents(node, journal)
        self.known_lines = KnownLines()
        self.owned_lines = OwnedLines()
        self.locks = KeyLocks()
        self.names = NameIndex(node.replica)
        self.search = NameSearch(lambda: node.replica.fleet)
        self.changes = ChangeStream(node, journal)
        self.authenticator = Authenticator(node.clock.now, node.clock.seconds)
        self.links = LoginLinks(node.clock.seconds)
        self.deallocated = DeallocatedVms(lambda: node.replica.fleet)

    def follow(self) -> None:
        """Start following commits, from the current fleet."""
        self.node.replica.subscribe(self.names, "Names")
        self.node.replica.subscribe(self.search, "Search")
        self.node.replica.subscribe(self.recent, "RecentEvents")
        self.node.replica.subscribe(self.known_lines, "KnownLines")
        self.node.replica.subscribe(self.owned_lines, "OwnedLines")
        self.node.replica.subscribe(self.changes, "Changes")
        self.node.replica.subscribe(self.deallocated, "Deallocated")

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
    """Authenticate a request: by the peer of the unix socket, by its token, or by the session of the dashboard."""
    context = context_of(connection.scope)
    state = connection.scope["state"]
    peer, forwarded = state.get(PEER), state.get(FORWARDED)
    if isinstance(peer, Peer):
        principal = Principal(peer.caller, Role.OPERATOR, uid=peer.uid)
    elif isinstance(forwarded, ForwardedPrincipal):
        principal = _forwarded(context, forwarded)
    else:
        client = connection.client
        headers = connection.headers
        token = connection.cookies.get(session_cookie(port_of(connection.scope)), "")
        authorization = headers.get("authorization", "") or bearer_of(
            token, str(connection.scope.get("method", "")), headers.get(CSRF_HEADER, "")
        )
        principal = context.authenticator.authenticate(context.fleet, authorization, client.host if client else "")
    state[_PRINCIPAL] = principal
    return principal


def _forwarded(context: ApiContext, forwarded: ForwardedPrincipal) -> Principal:
    """Return the principal that another node speaks for; its token is looked up here, where it may be revoked."""
    if not forwarded.token:
        return Principal(forwarded.caller, Role.OPERATOR, uid=forwarded.uid)
    return context.authenticator.principal_of(context.fleet, forwarded.token, forwarded.caller.origin)


def context_of(scope: Scope) -> ApiContext:
    return cast("ApiContext", scope["app"].state.context)


def principal_of(scope: Scope) -> Principal:
    return cast("Principal", scope["state"][_PRINCIPAL])
