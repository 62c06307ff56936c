"""Connects a node to its peers: the requests that it sends to other nodes, and the server for theirs."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from socket import socket
from typing import Any

from forewarn.clocks import Timer
from forewarn.cluster.cluster_node import ClusterNode
from forewarn.cluster.peers.certificates import PeerCertificates
from forewarn.cluster.peers.client import PeerClient
from forewarn.cluster.peers.command_forwarding import CommandForwarding, CommandReceiver
from forewarn.cluster.peers.control_forwarding import ControlForwarding, ControlReceiver
from forewarn.cluster.peers.document_forwarding import DocumentForwarding, DocumentReceiver
from forewarn.cluster.peers.messages import COMMANDS, DOCUMENT, REPORTS
from forewarn.cluster.peers.rates import NodeRates, RateExchange
from forewarn.cluster.peers.reporting import REPORT_EVERY, NodeReporting, ReportReceiver
from forewarn.cluster.peers.server import PeerServer
from forewarn.cluster.peers.status import StatusCollector
from forewarn.cluster.revisions import RevisionWaiter
from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.control.server.sockets import listen
from forewarn.core.errors import BadInput
from forewarn.journal.shared import SharedJournal
from forewarn.wiring import Assembly, limits_of

_TOPIC = "cluster_certificate"
_POLL_INTERVAL = timedelta(hours=1)


class ClusterPeers:
    """The peer port of this node, and its ways to the leader."""

    report_every = REPORT_EVERY
    """Time between two reports to the leader."""

    def __init__(self, assembly: Assembly, cluster_node: ClusterNode, address: ListenAddress) -> None:
        settings, node, clock = assembly.settings, assembly.node, assembly.node.clock
        self.certificates = self.read_certificates(settings, address)
        self._node = node
        self._address = address
        self._client = PeerClient(self.certificates, node.warnings)
        cluster_node.on_leader = self._client.abandon
        revisions = RevisionWaiter(node.replica)
        node.replica.subscribe(revisions)
        self._forwarding = CommandForwarding(self._client, cluster_node, revisions, node.writer.begin)
        node.forwarder = self._forwarding
        self.control = ControlForwarding(self._client, cluster_node, revisions)
        """Passes requests of operators on to the leader."""
        rates = NodeRates(assembly.metadata, assembly.document_cache, clock.seconds)
        assembly.metadata.set_limits(limits_of(settings))
        exchange = RateExchange(clock.seconds)
        self._reporting = NodeReporting(
            node.name,
            self._client,
            cluster_node,
            assembly.records,
            rates,
            exchange,
            clock,
            lambda: len(cluster_node.membership.state.members) if cluster_node.membership.state else 1,
            self.report_every,
        )
        self._messages = {
            COMMANDS: CommandReceiver(node.writer.begin, lambda: node.replica.revision).answer,
            REPORTS: ReportReceiver(assembly.records, exchange, clock.seconds).answer,
            DOCUMENT: DocumentReceiver(assembly.metadata, cluster_node.confirm).answer,
        }
        assembly.metadata.leader_documents = DocumentForwarding(self._client, cluster_node, cluster_node.confirm)
        place = assembly.journal.place if isinstance(assembly.journal, SharedJournal) else ""
        self.status = StatusCollector(
            self.certificates, cluster_node.view, lambda: node.replica.revision, node.warnings, place
        )
        """Asks all nodes how they are."""
        self._leadership = cluster_node
        self._server: PeerServer | None = None
        self._timer: Timer | None = None

    async def open(self) -> None:
        """Begin to answer the other nodes, and to report to the leader."""
        listening = self.listen(self._address)
        self._server = PeerServer(self._leadership, listening, self.certificates.server, self._messages)
        self._server.status = self.status.own
        await self._server.open()
        self._reporting.start()
        self._check_certificate()

    def read_certificates_again(self) -> Callable[[], None]:
        """Read the files of the certificates again; what is returned puts them in force."""
        renew = self.certificates.read_again()

        def put_in_force() -> None:
            renew()
            if self._timer:
                self._timer.cancel()
            self._check_certificate()

        return put_in_force

    def answer_control(self, app: Callable[..., Any]) -> None:
        """Answer requests of operators that other nodes pass on, with the application of the control API."""
        if self._server:
            self._server.control = ControlReceiver(app, lambda: self._node.replica.revision)

    async def close(self) -> None:
        """Finish what is under way, and answer no more requests."""
        if self._timer:
            self._timer.cancel()
        await self._reporting.stop()
        await self._forwarding.stop()
        if self._server:
            await self._server.close()
        self._client.close()
        self.status.close()

    def read_certificates(self, settings: Settings, address: ListenAddress) -> PeerCertificates:
        """Return this node's certificates; a simulated node has none."""
        certificate, authority = settings.cluster_certificate, settings.cluster_authority
        if certificate is None or authority is None:
            raise BadInput("cluster needs cluster_certificate and cluster_authority")
        return PeerCertificates(certificate, settings.cluster_key or certificate, authority, address.host)

    def listen(self, address: ListenAddress) -> socket:
        """Return a socket that listens on the peer port."""
        return listen(address)

    def _check_certificate(self) -> None:
        """Warn of an own certificate that the other nodes do not accept, or not for long."""
        if warning := self.certificates.warning(datetime.now(UTC)):
            self._node.warnings[_TOPIC] = warning
        else:
            self._node.warnings.pop(_TOPIC, None)
        self._timer = self._node.clock.call_later(_POLL_INTERVAL, self._check_certificate)
