"""The pool: workers are started together, replaced when they end, and told nothing that is not durable."""

import asyncio

import pytest
from msgspec.structs import replace

from forewarn.core.commands import Approve, Enrol
from forewarn.core.errors import Unavailable
from forewarn.core.facts import Fetch
from forewarn.core.model import Caller, CallerKind
from forewarn.metadata.request_records import GroupAsked
from forewarn.metadata.service import make_delays
from forewarn.wire.versions import API_VERSIONS
from forewarn.workers.messages import (
    Answer,
    Applied,
    Busy,
    Configure,
    Entries,
    Listen,
    Listening,
    OtherRelease,
    Ready,
    StartFailed,
    Stop,
    Submit,
    WorkerReport,
)
from tests.node.harness import MINUTE, NodeHarness, run
from tests.workers.harness import SETTINGS, PoolHarness, pool_of, settle

SECOND = MINUTE / 60
VM = Caller(CallerKind.VM, "web-0")
ENROL = Enrol(id="enrolment", by=VM, group="web", vm="web-0")


def test_workers_answer_when_all_have_joined_and_those_of_an_earlier_leader_have_ended() -> None:
    """Nobody is shown old beside new."""

    async def story(node: NodeHarness) -> None:
        harness = PoolHarness(node)
        starting = asyncio.ensure_future(harness.pool.start())
        await settle()
        first, second = harness.started
        harness.join(first)
        await settle()
        assert (harness.ended_others, first.heard_of(Listen)) == (0, [])
        harness.join(second)
        await settle()
        assert harness.ended_others == 1
        assert first.heard_of(Listen) == second.heard_of(Listen) == [Listen()]
        first.say(Listening(()))
        await settle()
        assert not starting.done()
        second.say(Listening(()))
        await starting
        await harness.stop()

    run(story)


def test_workers_of_an_earlier_leader_end_before_anything_is_done_to_machines() -> None:
    """They would show an event as Scheduled that has its impact; the new ones do not answer yet."""

    async def story(node: NodeHarness) -> None:
        harness = PoolHarness(node)
        preparing = asyncio.ensure_future(harness.pool.prepare())
        await settle()
        for worker in harness.present:
            harness.join(worker)
        await preparing
        assert harness.ended_others == 1
        assert not any(worker.heard_of(Listen) for worker in harness.present)
        starting = asyncio.ensure_future(harness.pool.start())
        await settle()
        for worker in harness.present:
            worker.say(Listening(()))
        await starting
        assert (harness.ended_others, len(harness.started)) == (1, 2)
        await harness.stop()

    run(story)


def test_a_worker_that_cannot_start_keeps_the_service_from_starting() -> None:
    """Its reason is told; the others are ended."""

    async def story(node: NodeHarness) -> None:
        harness = PoolHarness(node)
        starting = asyncio.ensure_future(harness.pool.start())
        await settle()
        harness.started[0].say(StartFailed("cannot listen on 127.0.0.1:80"))
        harness.started[0].end("ended with exit code 0")
        with pytest.raises(Unavailable, match="worker 1 cannot start: cannot listen on"):
            await starting
        await harness.stop()

    run(story)


def test_a_worker_that_is_killed_during_the_start_is_replaced_a_few_times() -> None:
    """One that ends again and again keeps the service from starting."""

    async def story(node: NodeHarness) -> None:
        harness = PoolHarness(node, 1)
        starting = asyncio.ensure_future(harness.pool.start())
        for _ in range(4):
            await settle()
            assert not starting.done()
            harness.present[0].end()
            node.clock.advance(4 * SECOND)
        with pytest.raises(Unavailable, match="worker 1 cannot start: was killed by signal 9"):
            await starting
        await settle()
        await harness.stop()

    run(story)


def test_a_caller_is_answered_after_every_worker_holds_what_its_command_did() -> None:
    """Also the one that passed it on: its next answer must show it."""

    async def story(node: NodeHarness) -> None:
        await node.add_fleet(enrolled=False)
        async with pool_of(node) as harness:
            first, second = harness.present
            first.say(Submit(7, ENROL))
            await second.hears(Entries)
            assert first.heard_of(Answer) == []
            first.apply()
            await settle()
            assert first.heard_of(Answer) == []
            assert harness.memory.shown[0] < harness.pool.publication.revision
            second.apply()
            await settle()
            assert first.heard_of(Answer) == [Answer(7)]
            assert harness.memory.shown[0] == node.node.replica.revision

    run(story)


def test_a_refused_command_is_answered_with_the_reason() -> None:
    """It changes nothing, so nobody is asked to apply anything."""

    async def story(node: NodeHarness) -> None:
        await node.add_fleet()
        async with pool_of(node) as harness:
            first, second = harness.present
            first.say(Submit(1, Approve(id="a", by=VM, events=("missing",))))
            await first.hears(Answer)
            (answer,) = first.heard_of(Answer)
            assert isinstance(answer, Answer)
            assert (answer.id, answer.kind) == (1, "Refused")
            assert second.heard_of(Entries) == []

    run(story)


def test_a_worker_that_ends_is_replaced_at_once_and_then_later_each_time() -> None:
    """What it had open is no longer counted; the one that replaces it joins and answers."""

    async def story(node: NodeHarness) -> None:
        async with pool_of(node) as harness:
            first = harness.present[0]
            harness.memory.workers[0].connections = 9
            first.end()
            assert harness.pool.connections == 0
            node.clock.advance(0 * SECOND)
            await settle()
            second = harness.present[0]
            assert second is not first
            harness.join(second)
            assert second.heard_of(Listen) == [Listen()]
            second.end()
            node.clock.advance(0.9 * SECOND)
            await settle()
            assert harness.present[0] is second
            node.clock.advance(0.1 * SECOND)
            await settle()
            assert harness.present[0] is not second
            assert [view.restarts for view in harness.pool.views()] == [2, 0]

    run(story)


def test_what_a_process_said_last_is_not_taken_for_a_message_of_its_successor() -> None:
    """It may arrive after the end of the process; a worker that joined twice would never be waited for rightly."""

    async def story(node: NodeHarness) -> None:
        await node.add_fleet(enrolled=False)
        async with pool_of(node) as harness:
            ended, other = harness.present
            ended.end()
            node.clock.advance(0 * SECOND)
            await settle()
            ended.say(Ready(node.node.replica.revision))
            assert [view.state for view in harness.pool.views()] == ["loading", "listening"]
            enrolling = asyncio.ensure_future(node.node.submit(ENROL))
            await other.hears(Entries)
            assert harness.present[0].heard_of(Entries) == []
            other.apply()
            await enrolling

    run(story)


def test_an_answer_to_a_process_that_has_ended_does_not_reach_its_successor() -> None:
    """Both number their commands from one: the successor would take it for the answer to a command of its own."""

    async def story(node: NodeHarness) -> None:
        await node.add_fleet(enrolled=False)
        async with pool_of(node) as harness:
            ended, other = harness.present
            ended.say(Submit(1, ENROL))
            await other.hears(Entries)
            ended.end()
            node.clock.advance(0 * SECOND)
            await settle()
            other.apply()
            await settle()
            assert node.node.replica.fleet.groups["web"].enrolled_at
            assert harness.present[0] is not ended
            assert harness.present[0].heard_of(Answer) == []

    run(story)


def test_a_worker_that_has_proven_itself_is_replaced_at_once_again() -> None:
    """Failures long ago do not count."""

    async def story(node: NodeHarness) -> None:
        async with pool_of(node) as harness:
            for _ in range(2):
                harness.present[0].end()
                node.clock.advance(2 * SECOND)
                await settle()
                harness.join(harness.present[0])
                harness.present[0].say(Listening(()))
            node.clock.advance(10 * SECOND)
            harness.present[0].end()
            node.clock.advance(0 * SECOND)
            await settle()
            assert len(harness.started) == 5

    run(story)


def test_a_worker_that_is_silent_is_killed_and_replaced() -> None:
    """The command is done when its process is gone."""

    async def story(node: NodeHarness) -> None:
        await node.add_fleet(enrolled=False)
        async with pool_of(node) as harness:
            silent, quick = harness.present
            enrolling = asyncio.ensure_future(node.node.submit(ENROL))
            await quick.hears(Entries)
            quick.apply()
            node.clock.advance(0.9 * SECOND)
            assert [worker.is_killed for worker in harness.present] == [False, False]
            node.clock.advance(0.2 * SECOND)
            assert [worker.is_killed for worker in harness.present] == [True, False]
            await settle()
            assert not enrolling.done()
            silent.end()
            await enrolling
            assert harness.pool.views()[0].restarts == 1

    run(story)


def test_signs_of_life_keep_a_busy_worker_alive() -> None:
    """As long as it takes in a large change."""

    async def story(node: NodeHarness) -> None:
        await node.add_fleet(enrolled=False)
        async with pool_of(node, 1) as harness:
            (busy,) = harness.present
            enrolling = asyncio.ensure_future(node.node.submit(ENROL))
            await busy.hears(Entries)
            for _ in range(5):
                node.clock.advance(0.8 * SECOND)
                busy.say(Busy())
            assert not busy.is_killed
            busy.apply()
            await enrolling

    run(story)


def test_a_worker_that_read_more_than_is_shown_waits_until_it_is() -> None:
    """It loaded an entry that was durable and not yet applied by the others."""

    async def story(node: NodeHarness) -> None:
        await node.add_fleet(enrolled=False)
        async with pool_of(node) as harness:
            first, second = harness.present
            second.end()
            node.clock.advance(0 * SECOND)
            await settle()
            newest = harness.present[1]
            newest.say(Ready(node.node.replica.revision + 1))
            assert newest.heard_of(Listen) == []
            enrolling = asyncio.ensure_future(node.node.submit(ENROL))
            await first.hears(Entries)
            assert newest.heard_of(Entries) == newest.heard_of(Listen) == []
            first.apply()
            await enrolling
            assert newest.heard_of(Listen) == [Listen()]

    run(story)


def test_a_worker_that_lacks_something_answers_when_it_has_applied_it() -> None:
    """Else it would show less than the others."""

    async def story(node: NodeHarness) -> None:
        await node.add_fleet()
        async with pool_of(node) as harness:
            harness.present[0].end()
            node.clock.advance(0 * SECOND)
            await settle()
            late = harness.present[0]
            late.say(Ready(1))
            assert late.heard_of(Listen) == []
            late.say(Applied(node.node.replica.revision))
            assert late.heard_of(Listen) == [Listen()]

    run(story)


def test_reports_reach_the_records_of_the_leader() -> None:
    """Who asked last, and who was shown an event."""

    async def story(node: NodeHarness) -> None:
        await node.add_fleet()
        async with pool_of(node) as harness:
            node.clock.advance(MINUTE)
            now = node.clock.seconds()
            fetch = Fetch("e1", "web-0", node.clock.now())
            harness.present[0].say(WorkerReport((GroupAsked("web", now - 5, "web-1"),), (fetch,)))
            harness.present[1].say(WorkerReport((GroupAsked("web", now - 9, "web-0"),)))
            asked = harness.records.last_asked("web")
            assert asked is not None
            assert (asked.by, asked.at) == ("web-1", node.clock.now() - 5 * SECOND)
            assert harness.records.take_fetches() == (fetch,)

    run(story)


def test_counters_are_those_of_all_workers_and_never_fall() -> None:
    """What a worker counted that has ended stays counted."""

    async def story(node: NodeHarness) -> None:
        async with pool_of(node) as harness:
            counted = ((3, 1),) + ((0, 0),) * (len(API_VERSIONS) - 1)
            for worker in harness.present:
                report = WorkerReport(documents=counted, refusals={403: 2}, long_polls=4, leader_age=0.5)
                worker.say(replace(report, delays=(2, 1) + (0,) * (len(make_delays().counts) - 2)))
            harness.memory.workers[0].connections, harness.memory.workers[1].connections = 5, 6
            for _ in range(2):
                name = API_VERSIONS[0].name
                assert list(harness.pool.documents())[:2] == [(name, 200, 6), (name, 304, 2)]
                assert harness.pool.refusals() == {403: 4}
                assert harness.pool.connections == 11
                assert harness.pool.delays().counts[:3] == (4, 2, 0)
                harness.present[0].end()
                harness.memory.workers[0].connections = 5
            down, up = harness.pool.views()
            assert (down.state, up.state, up.long_polls, up.leader_age) == ("down", "listening", 4, 0.5)
            assert "does not answer: it is down" in down.summary
            assert "(process 1001) answers at revision 0, 6 connections" in up.summary
            assert list(harness.pool.addresses) == [("127.0.0.1:8254", 7)]

    run(story)


def test_changed_settings_are_passed_on_and_kept_for_those_that_start_later() -> None:
    """A worker that is replaced must not fall back to the old ones."""

    async def story(node: NodeHarness) -> None:
        async with pool_of(node) as harness:
            changed = Configure(replace(SETTINGS, default_vm="web-0"))
            harness.pool.configure(changed.settings)
            assert [worker.heard[-1] for worker in harness.present] == [changed, changed]
            harness.present[0].end()
            node.clock.advance(0 * SECOND)
            await settle()
            assert harness.present[0].heard == [changed]

    run(story)


def test_a_worker_that_does_not_stop_in_time_is_killed() -> None:
    """All are asked to finish their answers first."""

    async def story(node: NodeHarness) -> None:
        harness = PoolHarness(node)
        await harness.start()
        stopping = asyncio.ensure_future(harness.pool.stop())
        await settle()
        assert [worker.heard[-1] for worker in harness.present] == [Stop(), Stop()]
        harness.present[0].end("ended with exit code 0")
        node.clock.advance(8 * SECOND)
        assert [worker.is_killed for worker in harness.present] == [False, True]
        harness.present[1].end()
        await stopping
        assert len(harness.started) == 2

    run(story)


def test_the_leader_gives_signs_of_life() -> None:
    """Workers tell by them how old what they show may be."""

    async def story(node: NodeHarness) -> None:
        async with pool_of(node) as harness:
            node.clock.advance(3 * SECOND)
            assert harness.memory.leader_alive_at == node.clock.seconds()

    run(story)


def test_a_worker_that_reports_nothing_is_killed_without_a_commit() -> None:
    """Its connections hang; those that report are left alone, and an operator is told of the silence before."""

    async def story(node: NodeHarness) -> None:
        async with pool_of(node) as harness:
            silent, well = harness.present
            for _ in range(4):
                node.clock.advance(SECOND)
                well.say(WorkerReport())
            assert [view.is_well for view in harness.pool.views()] == [False, True]
            assert "silent for 4 s" in harness.pool.views()[0].summary
            assert not silent.is_killed
            node.clock.advance(1.5 * SECOND)
            assert (silent.is_killed, well.is_killed) == (True, False)

    run(story)


def test_a_worker_that_hangs_while_it_loads_is_killed() -> None:
    """After a minute of silence: it gives signs of life meanwhile, but for the longest steps."""

    async def story(node: NodeHarness) -> None:
        async with pool_of(node) as harness:
            harness.present[0].end()
            node.clock.advance(SECOND)
            await settle()
            loading, well = harness.present
            for second in range(100):
                node.clock.advance(SECOND)
                well.say(WorkerReport())
                if second < 45:
                    loading.say(Busy())
            assert not loading.is_killed
            for _ in range(6):
                node.clock.advance(SECOND)
                well.say(WorkerReport())
            assert (loading.is_killed, well.is_killed) == (True, False)

    run(story)


def test_a_leader_that_was_stopped_kills_no_worker_for_its_own_silence() -> None:
    """What they said meanwhile is not read yet."""

    async def story(node: NodeHarness) -> None:
        async with pool_of(node) as harness:
            node.clock.advance(2 * SECOND)
            alive_every = harness.pool._alive_every
            harness.pool._alive_every = 60 * SECOND  # the next sign of life is the last before it is stopped
            node.clock.advance(SECOND)
            harness.pool._alive_every = alive_every
            node.clock.advance(61 * SECOND)
            assert not any(worker.is_killed for worker in harness.present)

    run(story)


def test_an_operator_is_told_of_a_worker_that_does_not_end() -> None:
    """A process in uninterruptible sleep cannot be killed, and commits wait for it."""

    async def story(node: NodeHarness) -> None:
        await node.add_fleet(enrolled=False)
        async with pool_of(node, 1) as harness:
            (stuck,) = harness.present
            enrolling = asyncio.ensure_future(node.node.submit(ENROL))
            await stuck.hears(Entries)
            node.clock.advance(3 * SECOND)
            assert "workers" not in node.node.warnings
            node.clock.advance(10 * SECOND)
            assert harness.pool.stuck_for == pytest.approx(12.0)
            assert "(process 1000)" in node.node.warnings["workers"]
            stuck.end()
            await enrolling
            node.clock.advance(SECOND)
            assert harness.pool.stuck_for == 0.0
            assert "workers" not in node.node.warnings

    run(story)


def test_a_worker_of_another_release_is_not_started_again() -> None:
    """The files were replaced by an upgrade: those that run answer on, and an operator is told the remedy."""

    async def story(node: NodeHarness) -> None:
        async with pool_of(node) as harness:
            harness.present[0].end()
            node.clock.advance(SECOND)
            await settle()
            harness.present[0].say(OtherRelease("99.0"))
            harness.present[0].end("ended with exit code 0")
            node.clock.advance(60 * SECOND)
            await settle()
            assert len(harness.started) == 3
            assert "release 99.0 was installed" in node.node.warnings["upgraded"]
            assert [view.state for view in harness.pool.views()] == ["down", "listening"]

    run(story)
