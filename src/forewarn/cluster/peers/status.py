"""The state of all nodes, for operators: each node is asked, whichever of them the operator asks."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import asdict

from forewarn.cluster.leadership import KnownLeader
from forewarn.cluster.peers.certificates import PeerCertificates
from forewarn.cluster.peers.client import PeerClient
from forewarn.cluster.peers.messages import STATUS, decode_status
from forewarn.control.bodies import ClusterNodeView, ClusterStatus, ClusterView, NodeStatus, NodeView
from forewarn.core.errors import Unavailable

_ANSWER = 1.5
"""Seconds that a node may take."""
_LATE = 3.0
"""Seconds after which a heartbeat is late."""


class StatusCollector:
    """Asks every node of the cluster how it is."""

    def __init__(
        self,
        certificates: PeerCertificates,
        view: Callable[[], ClusterView],
        revision: Callable[[], int],
        warnings: Mapping[str, str],
        database: str,
    ) -> None:
        """``revision`` returns what this node holds, ``warnings`` are its own."""
        # A node that does not answer is shown in the status; it is not a warning of this node.
        self._client = PeerClient(certificates, {})
        self._view = view
        self._revision = revision
        self._warnings = warnings
        self._database = database

    def own(self) -> NodeStatus:
        """Say how this node is."""
        view = self._view()
        return NodeStatus(
            role=view.role,
            revision=self._revision(),
            behind=view.behind,
            clock_skew=view.clock_skew,
            warnings=tuple(self._warnings.values()),
        )

    async def collect(self) -> ClusterStatus:
        view = self._view()
        answers = await asyncio.gather(*(self._ask(node, view) for node in view.nodes))
        known = [answer.revision for answer in answers if isinstance(answer, NodeStatus)]
        revision = max([self._revision() + view.revisions_behind, *known, *(node.revision for node in view.nodes)])
        nodes = tuple(_join(node, answer, revision) for node, answer in zip(view.nodes, answers, strict=True))
        return ClusterStatus(
            node=view.node,
            leader=view.leader,
            term=view.term,
            revision=revision,
            format=view.format,
            database=self._database,
            nodes=nodes,
            warnings=tuple(_warnings(view, nodes)),
        )

    def close(self) -> None:
        self._client.close()

    async def _ask(self, node: NodeView, view: ClusterView) -> NodeStatus | str:
        """Return what a node says, or why it did not."""
        if node.name == view.node:
            return self.own()
        if not node.address:
            return "it has no address for other nodes (setting cluster)"
        try:
            said = await self._client.post(KnownLeader(node.name, node.address, view.term), STATUS, b"", _ANSWER)
            return decode_status(said)
        except (Unavailable, msgspec.DecodeError) as error:
            return str(error)


def _join(node: NodeView, answer: NodeStatus | str, revision: int) -> ClusterNodeView:
    fields = asdict(node)
    if isinstance(answer, str):
        behind = max(0, revision - node.revision)
        return ClusterNodeView(**fields, role="silent", revisions_behind=behind, warnings=(answer,))
    fields |= asdict(answer)
    return ClusterNodeView(**fields, revisions_behind=max(0, revision - answer.revision))


def _warnings(view: ClusterView, nodes: Iterable[ClusterNodeView]) -> Iterator[str]:
    if not view.leader:
        yield "no node leads at present: changes are refused until one does"
    releases: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        releases[node.release].append(node.name)
        if node.age > _LATE:
            late = f"node {node.name} sent its last heartbeat {node.age:.0f} s ago"
            yield f"{late}; check that it runs and reaches the database"
    if len(releases) > 1:
        versions = ", ".join(f"{release} ({', '.join(names)})" for release, names in sorted(releases.items()))
        yield f"the nodes run different releases: {versions}; finish the upgrade"
