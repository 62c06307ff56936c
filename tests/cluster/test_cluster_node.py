"""A node leads while it holds the lease, and follows otherwise; nothing is done twice, whatever happens."""

import asyncio
from threading import Event
from time import monotonic

import pytest

from forewarn.cluster.leadership import KnownLeader
from forewarn.cluster.membership import LEASE
from forewarn.config.settings import MailSettings
from forewarn.control.notifications.dispatcher import Dispatcher
from forewarn.control.notifications.notification import Notification
from forewarn.core.commands import Approve, SetSubscription
from forewarn.core.errors import Unavailable
from forewarn.core.fact import FORMAT
from forewarn.core.model import Caller, CallerKind, Subscription, SubscriptionKind
from forewarn.journal.port import AppendUnknown, JournalFailed
from forewarn.journal.shared import NodeReport
from forewarn.node.writer import NotLeading
from tests.cluster.harness import OPERATOR, ClusterHarness, NodeUnderTest, run, until


def test_one_node_leads_and_the_others_follow() -> None:
    """What the leader commits, every node holds a moment later; a follower takes no operations."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "abc":
            await cluster.start(name)
        leader = await cluster.leader()
        await cluster.add_fleet()
        await cluster.pass_until(lambda: all(node.cluster_node.leader for node in cluster.nodes.values()))
        for node in cluster.nodes.values():
            await until(lambda node=node: "web-0" in node.node.replica.fleet.vms)  # type: ignore[misc]
            assert node.is_leading == (node is leader)
            known = node.cluster_node.leader
            assert known
            assert (known.name, known.address, known.term) == (leader.name, f"{leader.name}:8256", leader.node.term)
        with pytest.raises(NotLeading):
            await (await cluster.follower()).node.submit(cluster.restart("web-0"))
        cluster.check_agreement()

    run(story)


def test_another_node_leads_within_five_seconds_of_the_leaders_end() -> None:
    """It continues where the journal ends, in a higher term."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        first = await cluster.leader()
        await cluster.add_fleet()
        other, term = await cluster.follower(), first.node.term
        cluster.cut_off.add(first.name)
        assert await cluster.pass_until(lambda: other.is_leading) < 5
        assert not first.is_leading
        assert other.node.term > term
        await other.node.submit(cluster.restart("web-0"))
        cluster.cut_off.clear()
        await cluster.pass_until(lambda: first.node.replica.revision == cluster.store.revision)
        cluster.check_agreement()

    run(story)


def test_a_leader_is_told_of_once() -> None:
    """Also where this node hears nothing for a while, and then of the same leader in the same term."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        leader, follower = await cluster.leader(), await cluster.follower()
        await cluster.pass_until(lambda: follower.cluster_node.leader is not None)
        told: list[KnownLeader] = []
        follower.cluster_node.on_leader = told.append
        cluster.cut_off.add(follower.name)
        await cluster.pass_until(lambda: follower.cluster_node.leader is None)
        cluster.cut_off.clear()
        await cluster.pass_until(lambda: follower.cluster_node.leader is not None)
        assert told == []
        cluster.cut_off.add(leader.name)
        await cluster.pass_until(lambda: follower.is_leading)
        await cluster.pass_until(lambda: bool(told))
        assert [each.name for each in told] == [follower.name]

    run(story)


def test_a_node_describes_itself_and_the_others() -> None:
    """For operators: who leads in which term, and how far this node is behind."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        leader, follower = await cluster.leader(), await cluster.follower()
        await cluster.pass_until(lambda: follower.cluster_node.leader is not None)
        view = follower.cluster_node.view()
        assert (view.node, view.role, view.leader, view.term) == (
            follower.name,
            "following",
            leader.name,
            leader.node.term,
        )
        assert sorted(each.name for each in view.nodes) == ["a", "b"]
        assert view.behind == follower.cluster_node.age

    run(story)


@pytest.mark.end_to_end
def test_a_process_leads_several_times() -> None:
    """Deadlines, driver calls and notifications work each time as the first time."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        await cluster.add_fleet()
        terms = []
        for _ in range(5):
            leader = await cluster.leader()
            terms.append(leader.node.term)
            await leader.node.submit(cluster.restart("web-0"))
            done = len(cluster.machines.done)
            await cluster.pass_until(lambda done=done: len(cluster.machines.done) > done)  # type: ignore[misc]
            await cluster.pass_until(lambda leader=leader: not leader.node.replica.fleet.events)  # type: ignore[misc]
            cluster.cut_off.add(leader.name)
            await cluster.pass_until(lambda leader=leader: not leader.is_leading)  # type: ignore[misc]
            await cluster.leader()
            cluster.cut_off.clear()
        assert len({event for event, _ in cluster.machines.done}) == len(cluster.machines.done) == 5
        assert [term for _, term in cluster.machines.done] == terms == sorted(set(terms))

    run(story)


@pytest.mark.end_to_end
def test_a_leader_that_was_stopped_past_its_lease_calls_no_driver() -> None:
    """It was stopped between append and call: the call looks at the lease at the last moment."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        first = await cluster.leader()
        await cluster.add_fleet()
        second = await cluster.follower()
        attempted = first.node.replica
        called = Event()
        first.driver.before = lambda _: called.set()
        may_act, first.assembly.leader.may_act = (
            first.assembly.leader.may_act,
            lambda _: False,
        )  # it stands still here
        await first.node.submit(cluster.restart("web-0"))
        await until(lambda: any(event.attempts for event in attempted.fleet.events.values()))
        cluster.cut_off.add(first.name)
        await cluster.pass_until(lambda: second.is_leading)
        first.assembly.leader.may_act = may_act  # it goes on
        cluster.cut_off.clear()
        await cluster.pass_until(lambda: not second.node.replica.fleet.events)
        await cluster.advance(1)
        assert not called.is_set()
        assert [term for _, term in cluster.machines.done] == [second.node.term]

    run(story)


@pytest.mark.parametrize("others", ["", "b"])
def test_a_new_leader_finds_what_happened_while_nobody_led(others: str) -> None:
    """Whether it leads for the first time, or again: the driver tells how the machines are now."""

    async def story(cluster: ClusterHarness) -> None:
        first = await cluster.start("a")
        await cluster.leader()
        await cluster.add_fleet()
        for name in others:
            await cluster.start(name)
        cluster.cut_off.add("*")
        await cluster.pass_until(lambda: first.is_following)
        cluster.machines.hosts["web-1"] = "h2"
        first.driver.resync()  # nobody can record it
        cluster.cut_off = {"a"} if others else set()
        leader = await cluster.leader()
        assert leader.name == (others or "a")
        await cluster.pass_until(lambda: leader.node.replica.fleet.vms["web-1"].standing_on == "h2")

    run(story)


def test_a_new_lease_gives_no_right_to_act_in_the_term_before() -> None:
    """The parts of that term have not noticed yet that another node led in between."""

    async def story(cluster: ClusterHarness) -> None:
        node = await cluster.start("a")
        await cluster.leader()
        term, may_call = node.node.term, node.assembly.leader._may_call
        assert may_call(term)
        assert await node.cluster_node.confirm()

        async def stand_still() -> None:
            """Leave the role as it is."""

        node.cluster_node._adjust = stand_still  # type: ignore[method-assign]  # of this node alone
        other = NodeReport(name="b", process="b1", address="", release="", format=FORMAT)
        cluster.store.release("a", term)
        between = cluster.store.beat(other, 3.0).lease.term
        cluster.store.release("b", between)
        await cluster.pass_until(lambda: node.cluster_node.membership.term > between)

        assert not may_call(term)
        assert not await node.cluster_node.confirm()

    run(story)


def test_a_leader_that_was_replaced_refuses_no_approval_for_good() -> None:
    """It was stopped before it decided, and the next leader has announced the event since."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        first, second = await cluster.leader(), await cluster.follower()
        await cluster.add_fleet()

        async def stand_still() -> None:
            """Leave the role as it is."""

        first.cluster_node._adjust = stand_still  # type: ignore[method-assign]  # of this node alone
        cluster.cut_off.add(first.name)
        await cluster.pass_until(lambda: second.is_leading)
        await second.node.submit(cluster.restart("web-0"))
        (event,) = second.node.replica.fleet.events
        by = Caller(CallerKind.VM, "web-0")
        with pytest.raises(NotLeading):
            await first.node.writer.submit(Approve(id="approve", by=by, events=(event,)))

    run(story)


@pytest.mark.end_to_end
def test_a_call_that_was_under_way_when_the_leader_changed_is_refused_by_the_machine() -> None:
    """The thread was stopped after it had looked at the lease; the machine has seen a higher term since."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        first = await cluster.leader()
        term = first.node.term
        await cluster.add_fleet()
        second = await cluster.follower()
        reached, go_on = Event(), Event()

        def stand_still(_: str) -> None:
            reached.set()
            go_on.wait(20)

        first.driver.before = stand_still
        await first.node.submit(cluster.restart("web-0"))
        await until(reached.is_set)
        cluster.cut_off.add(first.name)
        await cluster.pass_until(lambda: second.is_leading)
        await cluster.pass_until(lambda: not second.node.replica.fleet.events)
        go_on.set()
        await until(lambda: bool(cluster.machines.refused))
        assert [term for _, term in cluster.machines.done] == [second.node.term]
        assert [term for _, term in cluster.machines.refused] == [term]

    run(story)


@pytest.mark.end_to_end
def test_a_driver_that_does_not_fence_terms_is_not_called_again() -> None:
    """The event ends as unknown; the call of the leader before does what it does, once."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        first = await cluster.leader()
        term = first.node.term
        await cluster.add_fleet()
        second = await cluster.follower()
        reached, go_on = Event(), Event()

        def stand_still(_: str) -> None:
            reached.set()
            go_on.wait(20)

        first.driver.before = stand_still
        await first.node.submit(cluster.restart("web-0"))
        await until(reached.is_set)
        (event,) = first.node.replica.fleet.events
        cluster.cut_off.add(first.name)
        await cluster.pass_until(lambda: second.is_leading)
        await cluster.pass_until(lambda: not second.node.replica.fleet.events)
        assert not cluster.machines.done
        go_on.set()
        await until(lambda: bool(cluster.machines.done))
        await cluster.advance(1)
        assert cluster.machines.done == [(event, term)]
        ended = [str(fact) for entry in second.journal.history(f"event:{event}") for fact in entry.facts]
        assert "unknown outcome, not repeated" in ended[-1]

    run(story, fences_terms=False)


@pytest.mark.end_to_end
def test_a_process_that_leads_again_waits_for_the_calls_that_it_began_before() -> None:
    """Else it would ask for the outcome before the first call has reached the machine, and call again."""

    async def story(cluster: ClusterHarness) -> None:
        node = await cluster.start("a")
        await cluster.leader()
        await cluster.add_fleet()
        reached, go_on = Event(), Event()

        def stand_still(_: str) -> None:
            reached.set()
            go_on.wait(20)

        node.driver.before = stand_still
        await node.node.submit(cluster.restart("web-0"))
        await until(reached.is_set)
        cluster.cut_off.add("a")
        await cluster.pass_until(lambda: not node.is_leading)
        cluster.cut_off.clear()
        await cluster.pass_until(lambda: node.is_leading)
        await cluster.advance(1)
        assert not cluster.machines.done
        go_on.set()
        await cluster.pass_until(lambda: not node.node.replica.fleet.events)
        assert len(cluster.machines.done) == 1

    run(story)


def test_a_command_of_which_the_answer_was_lost_is_recorded_once() -> None:
    """The leader lost the connection when its append was done; it finds the entry when it reads the journal again."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        leader = await cluster.leader()
        await cluster.add_fleet()
        before = cluster.store.revision

        def lose_answer(_: str, call: str) -> None:
            if call == "append":
                cluster.store.after = lambda *_: None
                raise AppendUnknown("the connection was lost")

        cluster.store.after = lose_answer
        command = cluster.restart("web-0")
        await leader.node.submit(command)
        assert [entry.command for entry in cluster.store.entries.entries(before)].count(command.id) == 1
        await cluster.advance(1)
        cluster.check_agreement()

    run(story)


@pytest.mark.end_to_end
def test_what_the_next_leader_appended_does_not_mislead_one_that_lost_an_answer() -> None:
    """Its append was not done, the lease ended, and the next leader appended at the same revision."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        first = await cluster.leader()
        await cluster.add_fleet()
        second = await cluster.follower()
        loop = asyncio.get_running_loop()
        reached, go_on = Event(), Event()

        def hang(node: str, call: str) -> None:
            if node == first.name and call == "append":
                reached.set()
                go_on.wait(20)
                raise AppendUnknown("the connection was lost")
            if node == first.name and call == "heartbeat" and not go_on.is_set():
                raise JournalFailed("the database does not answer")

        cluster.store.before = hang
        lost = loop.create_task(first.node.submit(cluster.restart("web-0")))
        await until(reached.is_set)
        await cluster.pass_until(lambda: second.is_leading)
        await second.node.submit(cluster.restart("web-1"))
        go_on.set()
        with pytest.raises(Unavailable, match="nothing was changed"):
            await lost
        await cluster.pass_until(lambda: first.is_following)
        await cluster.pass_until(lambda: first.node.replica.revision == cluster.store.revision)
        await cluster.pass_until(lambda: not second.node.replica.fleet.events)
        assert len(cluster.machines.done) == 1
        await cluster.advance(1)
        cluster.check_agreement()

    run(story)


def test_commands_that_wait_when_the_lease_is_lost_are_refused() -> None:
    """Nothing of them was recorded; the callers are told to send them again."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        leader = await cluster.leader()
        await cluster.add_fleet()
        revision = cluster.store.revision
        cluster.store.release(leader.name, cluster.store.term)  # the leader does not know yet
        commands = [leader.node.begin(cluster.restart(f"web-{n}")) for n in range(3)]
        for command in commands:
            with pytest.raises(NotLeading, match="nothing was changed"):
                await command
        assert not leader.cluster_node.membership.term
        assert cluster.store.revision == revision

    run(story)


class HangingChannels:
    """A subscriber that takes what it is sent, and does not answer."""

    sends_mail = False

    def __init__(self) -> None:
        self.is_called, self.goes_on = Event(), Event()

    def set_mail(self, mail: MailSettings) -> None:
        """There is none."""

    def channel_for(self, _: Subscription) -> "HangingChannels":
        return self

    def deliver(self, _: Notification) -> str:
        self.is_called.set()
        self.goes_on.wait(20)
        return ""


async def hang_on_notifications(cluster: ClusterHarness, node: NodeUnderTest) -> HangingChannels:
    """Let the leader send a notification to a subscriber that does not answer."""
    channels = HangingChannels()
    dispatcher = Dispatcher(node.node, node.journal, MailSettings(), channels=channels)
    node.assembly.leader.add(dispatcher)
    await node.assembly.leader.resign()
    await node.assembly.leader.lead()
    subscription = Subscription("s1", "audit", SubscriptionKind.WEBHOOK, "http://audit.example")
    await node.node.submit(SetSubscription(id="subscribe", by=OPERATOR, subscription=subscription))
    await node.node.submit(cluster.restart("web-2"))
    await until(channels.is_called.is_set)
    return channels


@pytest.mark.parametrize("end", ["stopped", "lost"])
def test_a_subscriber_that_hangs_does_not_delay_the_next_leader(end: str) -> None:
    """Neither where the leader stops, nor where it loses the lease and is to follow again."""

    async def story(cluster: ClusterHarness) -> None:
        first = await cluster.start("a")
        await cluster.leader()
        await cluster.add_fleet()
        channels = await hang_on_notifications(cluster, first)
        second = await cluster.start("b")
        began = monotonic()
        if end == "lost":
            first.cluster_node.membership.lose()
            await cluster.pass_until(lambda: first.is_following)
        else:
            draining = asyncio.create_task(first.cluster_node.drain())
            await cluster.pass_until(lambda: second.is_leading)
            await cluster.pass_until(draining.done)
        took = monotonic() - began
        channels.goes_on.set()
        assert took < 4, "it waited for the subscriber"

    run(story)


@pytest.mark.end_to_end
def test_a_leader_that_stops_passes_leadership_on() -> None:
    """Commands that VMs send meanwhile are carried out, by the one or by the other."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        first = await cluster.leader()
        await cluster.add_fleet()
        second = await cluster.follower()
        asked = asyncio.ensure_future(first.node.begin(cluster.restart("web-0")))
        draining = asyncio.create_task(first.cluster_node.drain())
        took = await cluster.pass_until(lambda: second.is_leading)
        assert took < 1
        later = asyncio.ensure_future(first.node.begin(cluster.restart("web-1")))
        await cluster.pass_until(draining.done)
        await asyncio.gather(asked, later)
        assert not first.is_leading
        assert first.node.term == 0
        await cluster.advance(10)
        assert second.is_leading
        cluster.check_agreement()

    run(story)


def test_the_only_node_stops_without_waiting_for_another() -> None:
    """Nobody can lead after it."""

    async def story(cluster: ClusterHarness) -> None:
        node = await cluster.start("a")
        await cluster.leader()
        draining = asyncio.create_task(node.cluster_node.drain())
        assert await cluster.pass_until(draining.done) < 1

    run(story)


@pytest.mark.end_to_end
def test_a_leader_that_stops_does_not_wait_for_a_silent_node() -> None:
    """A node that was not heard of for a lease may be dead or paused, and the supervisor waits for the stop."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        leader, silent = await cluster.leader(), await cluster.follower()
        await cluster.advance(2)  # it says that it can lead
        cluster.cut_off.add(silent.name)
        await cluster.advance(LEASE + 1)
        draining = asyncio.create_task(leader.cluster_node.drain())
        assert await cluster.pass_until(draining.done) < 1

    run(story)


def test_a_leader_that_may_lack_an_entry_is_not_certain() -> None:
    """After an append of unknown outcome, others may hold more than the leader; so they may after its lease."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        leader, follower = await cluster.leader(), await cluster.follower()
        assert await leader.cluster_node.confirm()
        assert not await follower.cluster_node.confirm()

        def lose_answer(node: str, call: str) -> None:
            if call == "append":
                cluster.cut_off.add(node)
                raise AppendUnknown("the connection was lost")

        cluster.store.after = lose_answer
        with pytest.raises(Unavailable):
            await cluster.add_fleet()
        await until(lambda: "web-0" in follower.node.replica.fleet.vms)
        assert leader.is_leading
        assert "web-0" not in leader.node.replica.fleet.vms
        assert not await leader.cluster_node.confirm()

    run(story)


def test_a_leader_reports_that_the_journal_lost_entries() -> None:
    """It loads the journal again; its health says so until it is restarted."""

    async def story(cluster: ClusterHarness) -> None:
        leader = await cluster.start("a")
        await cluster.leader()
        await cluster.add_fleet()
        cluster.store.fail_over(1)
        with pytest.raises(Unavailable):
            await leader.node.submit(cluster.restart("web-0"))
        await cluster.pass_until(lambda: not leader.node.replica.fleet.vms)

        assert "which the journal does not continue" in leader.node.warnings["diverged"]
        assert leader.cluster_node.view().reloads == 1

    run(story)


def test_a_leader_that_lost_entries_but_not_its_lease_leads_in_a_new_term() -> None:
    """The numbers of its lost attempts come again, so they may not come in the same term."""

    async def story(cluster: ClusterHarness) -> None:
        leader = await cluster.start("a")
        await cluster.leader()
        await cluster.add_fleet()
        await cluster.enrol()
        term = leader.node.term
        cluster.store.fail_over(1)
        reached, go_on = Event(), Event()

        def hang(_: str, call: str) -> None:
            if call == "append":
                reached.set()
                go_on.wait(20)

        cluster.store.before = hang
        asked = [leader.node.writer.begin(cluster.restart("web-0"))]
        await until(reached.is_set)
        asked.append(leader.node.writer.begin(cluster.restart("web-1")))
        go_on.set()
        for each in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(each, Unavailable)
        assert not leader.is_leading
        assert leader.node.replica.revision == 1
        assert leader.cluster_node.view().reloads == 1

        await cluster.pass_until(lambda: leader.is_leading)
        assert leader.node.term > term

    run(story)


def test_a_node_that_finds_lost_entries_when_it_is_to_lead_leads_in_the_next_term() -> None:
    """It may have led in this one before, and the numbers of its attempts come again."""

    async def story(cluster: ClusterHarness) -> None:
        node = await cluster.start("a")
        await cluster.leader()
        await cluster.add_fleet()
        await cluster.enrol()
        term = node.node.term
        cluster.cut_off.add("a")
        await cluster.pass_until(lambda: node.is_following)
        cluster.store.fail_over(1)
        cluster.store.lease_until = cluster.clock.seconds() + LEASE  # it is still its own in the database
        hold_following(cluster)
        cluster.cut_off.clear()
        await cluster.pass_until(lambda: node.is_leading)

        assert node.cluster_node.view().reloads == 1
        assert node.node.term > term
        assert node.node.replica.revision == 1

    run(story)


def hold_following(cluster: ClusterHarness) -> None:
    """Let no node find out by following what the journal holds."""
    fail = cluster.store.before

    def before(node: str, call: str) -> None:
        if call == "follow":
            raise JournalFailed("the database does not answer")
        fail(node, call)

    cluster.store.before = before
