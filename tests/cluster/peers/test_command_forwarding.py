"""Commands on their way to the leader: acknowledged when durable and held here, refused as by the leader."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from forewarn.cluster.leadership import KnownLeader
from forewarn.cluster.peers.command_forwarding import CommandForwarding, CommandReceiver
from forewarn.cluster.peers.messages import COMMANDS, CommandResults, encode
from forewarn.cluster.revisions import RevisionWaiter
from forewarn.core.commands import Approve, CheckDeadlines, Command, Enrol, Postponement
from forewarn.core.errors import ForewarnError, LimitReached, OutcomeUnknown, Refused, Unavailable
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, Caller, CallerKind
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import Recovered
from forewarn.node.replica import Replica
from tests.cluster.peers.authority import Authority
from tests.cluster.peers.harness import FixedLeadership, PeerPort, peer_client, peer_port
from tests.metadata.harness import NOW, on_both_loops
from tests.ports import free_port

VM = Caller(CallerKind.VM, "web-0", "10.0.0.1")
ENROL = Enrol(id="c0", by=VM, group="web", vm="web-0")


def approve(id_: str, *postponements: Postponement) -> Approve:
    return Approve(id=id_, by=VM, events=("e1",), postponements=postponements)


class Leader:
    """What takes commands on the leader: the test says what comes of each."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.has_heard = asyncio.Event()
        self.requests = 0
        self.revision = 0
        self.do: Callable[[Command], Awaitable[object]] = self._succeed
        self._receiver = CommandReceiver(self.begin, lambda: self.revision)

    def begin(self, command: Command) -> "asyncio.Future[object]":
        self.heard.append(command.id)
        self.has_heard.set()
        return asyncio.ensure_future(self.do(command))

    async def answer(self, body: bytes) -> bytes:
        self.requests += 1
        return await self._receiver.answer(body)

    async def _succeed(self, _: Command) -> None:
        pass


class Follower:
    """A node that passes commands on."""

    def __init__(self, forwarding: CommandForwarding, leadership: FixedLeadership, replica: Replica) -> None:
        self.forwarding = forwarding
        self.leadership = leadership
        self.replica = replica
        self.submit = forwarding.begin


@asynccontextmanager
async def leader_port(authority: Authority, leader: Leader, *, is_leading: bool = True) -> AsyncIterator[PeerPort]:
    async with peer_port(authority.files(), {COMMANDS: leader.answer}, is_leading=is_leading) as port:
        yield port


@asynccontextmanager
async def follower_of(
    authority: Authority, leader: KnownLeader | None, seconds: float = 5.0, here: Leader | None = None
) -> AsyncIterator[Follower]:
    replica = Replica(MemoryJournal())
    replica.load(Recovered(Fleet(), 0))
    waiter = RevisionWaiter(replica)
    replica.subscribe(waiter)
    leadership = FixedLeadership(leader)
    async with peer_client(authority.files()) as client:
        forwarding = CommandForwarding(client, leadership, waiter, (here or Leader()).begin, seconds)
        yield Follower(forwarding, leadership, replica)
        await forwarding.stop()
    await replica.close()


@on_both_loops
async def test_a_command_is_acknowledged_when_the_replica_holds_it(authority: Authority) -> None:
    """A VM that is answered sees what it did in its next request."""
    leader = Leader()
    leader.revision = 1
    async with leader_port(authority, leader) as port, follower_of(authority, port.known()) as follower:
        reply = follower.submit(ENROL)
        await leader.has_heard.wait()
        done, _ = await asyncio.wait([reply], timeout=0.2)
        assert not done
        follower.replica.apply([Entry(1, NOW, "c0", NODE, ())])
        await reply


@on_both_loops
async def test_an_answer_of_another_length_fails_the_callers(authority: Authority) -> None:
    """What became of their commands is unknown; nobody waits for ever."""

    async def answer_too_much(_: bytes) -> bytes:
        return encode(CommandResults(0, (None, None)))

    async with (
        peer_port(authority.files(), {COMMANDS: answer_too_much}) as port,
        follower_of(authority, port.known(), 0.0) as follower,
    ):
        with pytest.raises(OutcomeUnknown, match="answered 2 of 1 commands"):
            await asyncio.wait_for(follower.submit(approve("c0", Postponement("e1", 60))), 10)


@on_both_loops
async def test_commands_that_wait_together_go_in_one_request(authority: Authority) -> None:
    """Each of them is carried out once, in order."""
    leader = Leader()
    async with leader_port(authority, leader) as port, follower_of(authority, port.known()) as follower:
        await asyncio.gather(*(follower.submit(approve(f"c{number}")) for number in range(500)))
    assert leader.heard == [f"c{number}" for number in range(500)]
    assert leader.requests == 1


@on_both_loops
async def test_a_command_that_takes_long_delays_no_other(authority: Authority) -> None:
    """It waits for a large change, the others do not."""
    leader, release = Leader(), asyncio.Event()

    async def do(command: Command) -> None:
        if command.id == "slow":
            await release.wait()

    leader.do = do
    async with leader_port(authority, leader) as port, follower_of(authority, port.known()) as follower:
        slow = follower.submit(approve("slow"))
        await leader.has_heard.wait()
        await follower.submit(approve("fast"))
        assert not slow.done()
        release.set()
        await slow


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(Refused("no"), Refused), (LimitReached("no"), Refused), (ForewarnError("no"), ForewarnError)],
)
def test_a_refusal_keeps_its_class(authority: Authority, raised: ForewarnError, kind: type[ForewarnError]) -> None:
    """The other commands of the request are not concerned."""
    leader = Leader()

    async def do(command: Command) -> None:
        if command.id == "bad":
            raise raised

    async def run() -> None:
        leader.do = do
        async with leader_port(authority, leader) as port, follower_of(authority, port.known()) as follower:
            good, bad = follower.submit(approve("good")), follower.submit(approve("bad"))
            await good
            with pytest.raises(ForewarnError, match="no") as refused:
                await bad
            assert type(refused.value) is kind

    asyncio.run(run())


@on_both_loops
async def test_a_node_that_leads_no_more_names_the_one_that_does(authority: Authority) -> None:
    """The command goes on to that one, without a pause."""
    old, new = Leader(), Leader()
    async with (
        leader_port(authority, new) as new_port,
        leader_port(authority, old, is_leading=False) as old_port,
        follower_of(authority, old_port.known(term=1), seconds=0.0) as follower,
    ):
        old_port.leadership.leader = new_port.known(term=2)
        await follower.submit(ENROL)
    assert (old.heard, new.heard) == ([], ["c0"])


@on_both_loops
async def test_nodes_that_name_each_other_are_not_asked_for_ever(authority: Authority) -> None:
    """A node that names a leader of the same term, or an earlier one, knows nothing new."""
    leader = Leader()
    async with (
        leader_port(authority, leader, is_leading=False) as port,
        follower_of(authority, port.known(term=2), seconds=0.0) as follower,
    ):
        port.leadership.leader = port.known(term=2)
        with pytest.raises(Unavailable, match="does not lead any more"):
            await follower.submit(ENROL)


@on_both_loops
async def test_a_command_waits_some_time_for_a_leader(authority: Authority) -> None:
    """A change of the leader is no error that a VM sees."""
    leader = Leader()
    gone = KnownLeader("n2", f"127.0.0.1:{free_port()}", 1)
    async with leader_port(authority, leader) as port, follower_of(authority, gone) as follower:
        reply = follower.submit(ENROL)
        done, _ = await asyncio.wait([reply], timeout=0.1)
        assert not done
        follower.leadership.leader = None
        done, _ = await asyncio.wait([reply], timeout=0.2)
        assert not done
        follower.leadership.leader = port.known(term=2)
        await reply


@on_both_loops
async def test_without_a_leader_the_service_is_unavailable(authority: Authority) -> None:
    """Nothing was done; the caller may ask again."""
    async with follower_of(authority, None, seconds=0.0) as follower:
        with pytest.raises(Unavailable, match="no node leads at present") as refused:
            await follower.submit(ENROL)
        assert not isinstance(refused.value, OutcomeUnknown)


@on_both_loops
async def test_a_node_that_leads_itself_meanwhile_carries_the_command_out(authority: Authority) -> None:
    """The command had waited for a leader."""
    here = Leader()
    async with follower_of(authority, None, here=here) as follower:
        reply = follower.submit(ENROL)
        await asyncio.sleep(0)
        follower.leadership.is_leading = True
        await reply
    assert here.heard == ["c0"]


@on_both_loops
async def test_a_command_with_a_lost_response_is_sent_again(authority: Authority) -> None:
    """Approving twice is harmless; a wish for more time would count twice, so that its outcome is unknown."""
    leader = Leader()

    async def lose(command: Command) -> None:
        if leader.heard.count(command.id) == 1:
            raise OutcomeUnknown("it is not known whether this was recorded")

    leader.do = lose
    async with leader_port(authority, leader) as port, follower_of(authority, port.known()) as follower:
        wish = follower.submit(approve("wish", Postponement("e1", 60)))
        await follower.submit(approve("word"))
        with pytest.raises(OutcomeUnknown):
            await wish
    assert leader.heard.count("word") == 2
    assert leader.heard.count("wish") == 1


@on_both_loops
async def test_a_leader_that_resigns_meanwhile_has_done_nothing(authority: Authority) -> None:
    """Its refusal is no answer to the VM: the next leader is asked."""
    leader = Leader()

    async def resign(command: Command) -> None:
        if leader.heard.count(command.id) == 1:
            raise Unavailable("this node does not lead any more")

    leader.do = resign
    async with leader_port(authority, leader) as port, follower_of(authority, port.known()) as follower:
        await follower.submit(approve("wish", Postponement("e1", 60)))
    assert leader.heard == ["wish", "wish"]


@on_both_loops
async def test_only_what_vms_say_is_passed_on(authority: Authority) -> None:
    """Deadlines and results of drivers are the leader's own."""
    async with follower_of(authority, None) as follower:
        with pytest.raises(Unavailable, match="does not lead"):
            await follower.submit(CheckDeadlines(id="c1", by=NODE, events=()))
