"""The control API on a node that follows: what changes something is done by the leader, as the same principal."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.cluster.leadership import KnownLeader
from forewarn.cluster.peers.client import PeerClient
from forewarn.cluster.peers.control_forwarding import ControlForwarding, ControlReceiver
from forewarn.cluster.peers.server import PeerServer
from forewarn.cluster.revisions import RevisionWaiter
from forewarn.config.values import ListenAddress
from forewarn.control.server.sockets import listen
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, CallerKind
from forewarn.http.codec import HttpRequest
from forewarn.journal.port import Recovered
from forewarn.node.feed import Commit
from forewarn.node.replica import Replica
from tests.cluster.peers.authority import Authority
from tests.cluster.peers.harness import FixedLeadership, peer_client
from tests.harness import ApiHarness, open_harness


class FollowerHarness(ApiHarness):
    """A node that follows another one, which runs in another thread."""

    def start(self) -> None:
        self._thread.start()
        self.run(self._load)

    async def _load(self) -> None:
        self.node.replica.load(Recovered(Fleet(), 0))

    def load(self, fleet: Fleet) -> None:
        """Follow from the first entry on: nothing is loaded."""

    def publish(self, commit: Commit) -> None:
        """Take in what the leader committed, a moment later."""
        self.loop.call_soon_threadsafe(lambda: self.loop.call_later(0.02, self.node.replica.apply, commit.entries))


class Pair:
    """A leader and a follower."""

    def __init__(self, leader: ApiHarness, follower: FollowerHarness, authority: Authority) -> None:
        self.leader = leader
        self.follower = follower
        self.leadership = FixedLeadership(is_leading=True)
        self.known = FixedLeadership()
        self.client = PeerClient(authority.files(), follower.node.warnings)
        self._authority = authority
        self._server: PeerServer | None = None

    def open(self) -> None:
        leader, follower = self.leader, self.follower
        leader.run(self._open_port)
        waiter = RevisionWaiter(follower.node.replica)
        follower.node.replica.subscribe(waiter)
        follower.context.forwarder = ControlForwarding(self.client, self.known, waiter, timeout=1.0)

    async def _open_port(self) -> None:
        listening = listen(ListenAddress("127.0.0.1", 0))
        certificate = self._authority.files().server
        self._server = PeerServer(self.leadership, listening, certificate, {})
        app, replica = self.leader.control_plane.app, self.leader.node.replica
        assert app is not None
        self._server.control = ControlReceiver(app, lambda: replica.revision)
        await self._server.open()
        self.known.leader = KnownLeader("n1", f"127.0.0.1:{listening.getsockname()[1]}", 1)

    def close(self) -> None:
        self.follower.loop.call_soon_threadsafe(self.client.close)
        assert self._server is not None
        self.leader.run(self._server.close)


@pytest.fixture
def pair(tmp_path: Path, authority: Authority) -> Iterator[Pair]:
    for name in ("leader", "follower"):
        (tmp_path / name).mkdir()
    follower = FollowerHarness(tmp_path / "follower")
    follower.start()
    try:
        follower.open()
        with open_harness(tmp_path / "leader") as leader:
            pair = Pair(leader, follower, authority)
            pair.open()
            follow(leader.node.replica, follower)
            try:
                yield pair
            finally:
                pair.close()
    finally:
        follower.stop()


def follow(replica: Replica, follower: FollowerHarness) -> None:
    """Begin with what the leader has committed already."""
    entries = tuple(replica._journal.entries(0, 1_000))
    follower.run(lambda: _apply(follower.node.replica, entries))
    replica.feed.subscribe(follower)


async def _apply(replica: Replica, entries: tuple[object, ...]) -> None:
    replica.apply(entries)  # type: ignore[arg-type]


RESTART = {"operation": "restart"}


def test_a_change_is_carried_out_by_the_leader_and_visible_here_at_once(pair: Pair) -> None:
    """The response comes back unchanged, after this node holds what it tells of."""
    said = pair.follower.ask("POST", "/v1/vms/web-0/operations", RESTART)

    assert said.status == 201, said
    (announced,) = said.json["announcements"]
    assert pair.follower.node.replica.revision == pair.leader.node.replica.revision
    assert pair.follower.ask("GET", "/v1/events").json["items"][0]["id"] == announced["event"]["id"]
    direct = pair.leader.ask("POST", "/v1/vms/db/operations", RESTART)
    assert said.headers.keys() == direct.headers.keys()


def test_a_refusal_of_the_leader_comes_back_unchanged(pair: Pair) -> None:
    """Status, problem and words are those of the leader."""
    said = pair.follower.ask("POST", "/v1/vms/web-9/operations", RESTART)
    direct = pair.leader.ask("POST", "/v1/vms/web-9/operations", RESTART)

    assert (said.status, said.body) == (direct.status, direct.body) == (404, direct.body)


def test_a_key_holds_on_every_node(pair: Pair) -> None:
    """The user of the unix socket is the same principal on all nodes, as far as its number is."""
    headers = {"Idempotency-Key": "k1"}
    first = pair.follower.ask("POST", "/v1/vms/web-0/operations", RESTART, headers=headers)
    for node in (pair.leader, pair.follower):
        again = node.ask("POST", "/v1/vms/web-0/operations", RESTART, headers=headers)
        assert again.headers["idempotent-replayed"] == "true"
        assert again.body == first.body
    assert pair.follower.ask("POST", "/v1/vms/db/operations", RESTART, headers=headers).status == 409


def test_a_token_is_checked_here_and_its_principal_acts_there(pair: Pair) -> None:
    """A viewer is refused before the leader is asked; the record names the token and the address of its bearer."""
    owner = pair.follower.token("olga", "owner", "web")
    viewer = pair.follower.token("vera", "viewer")
    asked = pair.leader.node.replica.revision

    assert pair.follower.ask("POST", "/v1/vms/web-0/operations", RESTART, token="").status == 401
    assert pair.follower.ask("POST", "/v1/vms/web-0/operations", RESTART, token=viewer).status == 403
    assert pair.leader.node.replica.revision == asked
    assert pair.follower.ask("POST", "/v1/vms/db/operations", RESTART, token=owner).status == 404
    assert pair.follower.ask("POST", "/v1/vms/web-0/operations", RESTART, token=owner).status == 201
    entry = next(iter(reversed(list(pair.leader.journal.entries(0, 1_000)))))
    assert entry.by == Caller(CallerKind.OWNER, "olga", "127.0.0.1")


def test_a_token_that_the_leader_knows_to_be_revoked_acts_no_more(pair: Pair) -> None:
    """The node that was asked has not heard of it yet."""
    token = pair.leader.token("ada")
    revoked = pair.leader.ask("GET", "/v1/tokens").json["items"][0]["id"]
    pair.leader.node.replica.feed.unsubscribe(pair.follower)
    assert pair.leader.ask("DELETE", f"/v1/tokens/{revoked}").status == 204

    assert pair.follower.ask("POST", "/v1/vms/db/operations", RESTART, token=token).status == 401


def test_a_large_body_is_passed_on_as_it_comes(pair: Pair) -> None:
    """It is never held whole by the node that passes it on."""
    vms = [{"name": f"v{number}", "group": "pool", "host": "h1"} for number in range(3_000)]
    lines = b"".join(json.dumps({"vms": [vm]}).encode() + b"\n" for vm in vms)
    assert len(lines) > 65_536
    connection = pair.follower.connect()
    connection.request(
        "PATCH",
        "/v1/fleet",
        iter([lines[at : at + 10_000] for at in range(0, len(lines), 10_000)]),
        {"Content-Type": "application/jsonl"},
        encode_chunked=True,
    )
    answer = connection.getresponse()
    said = answer.read()
    connection.close()

    assert answer.status == 200, said
    assert len(pair.follower.node.replica.fleet.vms) == 3_004


def test_reads_are_answered_here(pair: Pair) -> None:
    """Also while no leader can be asked."""
    pair.known.leader = None

    assert len(pair.follower.ask("GET", "/v1/vms").json["items"]) == 4
    assert pair.follower.ask("GET", "/v1/health").status == 200
    assert pair.follower.ask("GET", "/v1/groups/web").status == 200


def test_what_only_the_leader_knows_is_asked_from_it(pair: Pair) -> None:
    """How far a started event is; without a leader that is unknown."""
    event = pair.follower.ask("POST", "/v1/vms/web-0/operations", RESTART).json["announcements"][0]["event"]["id"]
    pair.leader.node.progress[event.lower()] = "3 of 5 steps"

    assert pair.follower.ask("GET", f"/v1/events/{event}").json["progress"] == "3 of 5 steps"
    pair.known.leader = None
    assert "progress" not in pair.follower.ask("GET", f"/v1/events/{event}").json


def test_without_a_leader_a_change_is_refused_after_some_time(pair: Pair) -> None:
    """Nothing was done, and the caller is told to send it again."""
    pair.known.leader = None

    said = pair.follower.ask("POST", "/v1/vms/web-0/operations", RESTART)
    assert said.status == 503
    assert said.json["detail"] == "no node leads at present; send it again"


def test_a_change_waits_for_a_leader(pair: Pair) -> None:
    """The one that was known does not lead any more; a moment later another one does."""
    leader, pair.known.leader = pair.known.leader, None
    pair.follower.loop.call_soon_threadsafe(
        lambda: pair.follower.loop.call_later(0.2, setattr, pair.known, "leader", leader)
    )

    assert pair.follower.ask("POST", "/v1/vms/web-0/operations", RESTART).status == 201


def test_a_node_that_led_refers_only_to_a_later_term(pair: Pair) -> None:
    """Else it would be asked for ever."""
    pair.leadership.is_leading, pair.leadership.leader = False, pair.known.leader

    said = pair.follower.ask("POST", "/v1/vms/web-0/operations", RESTART)
    assert said.status == 503
    assert "does not lead" in said.json["detail"]


def test_a_node_that_leads_meanwhile_carries_the_change_out_itself(pair: Pair) -> None:
    """The request is not lost: its body was kept."""
    pair.known.leader = None
    pair.follower.loop.call_soon_threadsafe(
        lambda: pair.follower.loop.call_later(0.2, setattr, pair.known, "is_leading", True)
    )

    said = pair.follower.ask("POST", "/v1/vms/web-9/operations", RESTART)
    assert said.json["detail"].startswith("there is no VM 'web-9'")


def test_the_peer_port_needs_a_principal(pair: Pair, authority: Authority) -> None:
    """A request that names none is not carried out."""

    async def ask() -> int:
        async with peer_client(authority.files()) as client:
            assert pair.known.leader is not None
            request = HttpRequest(method="POST", target="/control/v1/vms/web-0/operations", host="n1", body=b"{}")
            async with client.begin(pair.known.leader, request) as response:
                return response.status

    assert asyncio.run(ask()) == 400


def test_nobody_but_a_node_can_name_a_principal(pair: Pair) -> None:
    """On the control port the header means nothing."""
    headers = {"forewarn-principal": "gqZjYWxsZXI="}

    assert pair.leader.ask("POST", "/v1/vms/web-0/operations", RESTART, token="", headers=headers).status == 401
    assert pair.leader.ask("POST", "/control/v1/vms/web-0/operations", RESTART, headers=headers).status == 404
