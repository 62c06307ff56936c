"""A VM that has seen a newer document than this node holds is not shown an older one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from forewarn.core.facts import FleetChanged
from forewarn.core.model import GroupKind, GroupTerms, Vm
from forewarn.metadata.limits import Limits
from forewarn.metadata.monotonic_reads import AwaitedChanges, LeaderDocument
from tests.metadata.harness import EVENTS, GENEROUS, RunningMetadataHarness, get, harness, on_both_loops

LEADERS = LeaderDocument(b"web-9", b'"\r\nContent-Length: 6\r\n\r\nleader')


class FakeLeader:
    """The documents of the leader, as the test says."""

    def __init__(self, document: LeaderDocument | None = LEADERS) -> None:
        self.is_leading = False
        self.is_certain = True
        self.document = document
        self.asked: list[tuple[str, int]] = []

    async def confirm(self) -> bool:
        return self.is_certain

    async def fetch(self, vm: str, version: int) -> LeaderDocument | None:
        self.asked.append((vm, version))
        return self.document


def seen(tag: str, *fields: str, method: str = "GET") -> bytes:
    return get(EVENTS, f'If-None-Match: "{tag}"', *fields, method=method)


def held(running: RunningMetadataHarness) -> int:
    return running.document_cache.groups["web"].incarnation


@asynccontextmanager
async def impatient(limits: Limits = GENEROUS) -> AsyncIterator[RunningMetadataHarness]:
    """Run a service that waits a moment instead of a second, where nothing comes."""
    async with harness(limits) as running:
        running.service.longest_wait = 0.02
        yield running


@pytest.mark.parametrize("fields", [(), ("Prefer: wait=30",)], ids=["plain", "long-poll"])
def test_a_request_waits_until_this_node_holds_what_the_caller_has_seen(fields: tuple[str, ...]) -> None:
    """Then it is answered from here; the leader is not asked."""

    @on_both_loops
    async def run() -> None:
        leader = FakeLeader()
        async with harness() as running:
            running.service.leader_documents = leader
            ahead = held(running) + 2
            caller = await running.call(seen(f"web-{ahead - 1}", *fields))
            await running.settle()
            running.announce("e1")
            running.announce("e2")
            answer = await caller.answer()
            assert answer.status == 200
            assert answer.fields["etag"] == f'"web-{ahead}"'
            assert leader.asked == []

    run(run_loop=asyncio.run)


@on_both_loops
async def test_a_request_that_is_reached_exactly_waits_for_nothing_more() -> None:
    """The caller has the newest document: 304."""
    async with harness() as running:
        running.service.leader_documents = FakeLeader()
        caller = await running.call(seen(f"web-{held(running) + 1}"))
        await running.settle()
        running.announce("e1")
        assert (await caller.answer()).status == 304


@pytest.mark.parametrize("fields", [(), ("Prefer: wait=30",)], ids=["plain", "long-poll"])
def test_the_newest_tag_of_several_counts(fields: tuple[str, ...]) -> None:
    """A caller that also keeps the document of this node has seen a newer one: 304 would show it the older one."""

    @on_both_loops
    async def run() -> None:
        leader = FakeLeader()
        async with impatient() as running:
            both = f'web-{held(running)}", "web-8'
            assert (await running.ask(seen(both))).status == 304
            running.service.leader_documents = leader
            assert (await running.ask(seen(both, *fields))).body == b"leader"
            leader.is_leading = True
            answer = await running.ask(seen(both, *fields))
            assert (answer.status, answer.fields["etag"]) == (200, f'"web-{held(running)}"')
            older = await running.ask(seen(f'web-0", "web-{held(running)}'))
            assert older.status == 304

    run(run_loop=asyncio.run)


@on_both_loops
async def test_a_node_that_stays_behind_answers_with_the_document_of_the_leader() -> None:
    """With the headers of every response, and without a body to HEAD."""
    leader = FakeLeader()
    async with impatient() as running:
        running.service.leader_documents = leader
        answer = await running.ask(seen("web-8"))
        assert (answer.status, answer.fields["etag"], answer.body) == (200, '"web-9"', b"leader")
        assert answer.fields["date"]
        assert (await running.ask(seen("web-8", method="HEAD"))).body == b""
        waited = await running.ask(seen("web-8", "Prefer: wait=30"))
        assert (waited.status, waited.fields["preference-applied"], waited.body) == (200, "wait", b"leader")
        unchanged = await running.ask(seen("web-9"))
        assert (unchanged.status, unchanged.body) == (304, b"")
        assert [vm for vm, _ in leader.asked] == ["web-0"] * 4


@on_both_loops
async def test_without_a_leader_the_caller_is_told_to_ask_again() -> None:
    """An older document would be wrong."""
    async with impatient() as running:
        running.service.leader_documents = FakeLeader(None)
        answer = await running.ask(seen("web-9"))
        assert (answer.status, answer.fields["retry-after"]) == (503, "1")


@on_both_loops
async def test_the_tag_of_another_group_counts_as_well() -> None:
    """The VM moved to a group, where its incarnation is higher, and this node has not heard of it."""
    leader = FakeLeader()
    async with impatient() as running:
        running.service.leader_documents = leader
        assert (await running.ask(seen("other-9"))).body == b"leader"


@on_both_loops
async def test_a_vm_that_moves_meanwhile_is_shown_its_new_group_which_waits() -> None:
    """The move arrives here while the request waits."""
    async with harness() as running:
        running.service.leader_documents = FakeLeader()
        running.commit(FleetChanged(groups=(GroupTerms("api", GroupKind.AVAILABILITY_SET),)))
        caller = await running.call(seen("api-4"))
        await running.settle()
        moved = Vm("web-0", "api", address="127.0.0.1")
        running.commit(FleetChanged(vms=(moved,)))
        for number in range(5):
            running.announce(f"e{number}", group="api")
        assert (await caller.answer()).fields["etag"].startswith('"api-')


@pytest.mark.parametrize("tag", ["web-0", "web", "", "-", "web-99999999999999999999", 'x", "y'])
def test_other_tags_change_nothing(tag: str) -> None:
    """Those of older documents, of nothing, and those that no node of this service wrote."""

    @on_both_loops
    async def run() -> None:
        leader = FakeLeader()
        async with impatient() as running:
            running.service.leader_documents = leader
            assert (await running.ask(seen(tag))).status == 200
            assert leader.asked == []

    run(run_loop=asyncio.run)


@on_both_loops
async def test_the_leader_asks_nobody() -> None:
    """Nobody holds more than it does: the tag is of a journal that was lost."""
    leader = FakeLeader()
    leader.is_leading = True
    async with impatient() as running:
        for running.service.leader_documents in (leader, None):
            answer = await running.ask(seen("web-9"))
            assert (answer.status, answer.fields["etag"]) == (200, f'"web-{held(running)}"')


@on_both_loops
async def test_a_leader_that_may_lack_something_shows_nothing_older() -> None:
    """The outcome of its last append may be unknown to it, and another node may have shown that entry already."""
    leader = FakeLeader()
    leader.is_leading, leader.is_certain = True, False
    async with impatient() as running:
        running.service.leader_documents = leader
        answer = await running.ask(seen("web-9"))
        assert (answer.status, answer.fields["retry-after"]) == (503, "1")
        assert (await running.ask(seen(f"web-{held(running)}"))).status == 304


@on_both_loops
async def test_a_request_that_waits_costs_its_rate_once() -> None:
    """The fast path passes it on, which is no second request."""
    async with impatient(Limits(rate=0.1, burst=2)) as running:
        running.service.leader_documents = FakeLeader()
        assert [(await running.ask(seen("web-8"))).status for _ in range(3)] == [200, 200, 429]


@on_both_loops
async def test_what_another_node_asks_for_a_vm_is_recorded() -> None:
    """The VM was shown the event, and its group asked."""
    async with impatient() as running:
        running.announce("e1")
        document = running.service.document_for_peer("web-1", 3)
        assert document is not None
        assert document.tag == f"web-{held(running)}".encode()
        assert document.rendered.startswith(b'"\r\nContent-Length: ')
        assert [fetch.vm for fetch in running.records.take_fetches()] == ["web-1"]
        marked = running.records.last_asked("web")
        assert marked is not None
        assert marked.by == "web-1"
        assert running.service.document_for_peer("gone", 3) is None


@on_both_loops
async def test_nobody_is_left_waiting_after_its_time() -> None:
    """A request that gave up leaves nothing behind."""
    changes = AwaitedChanges()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await changes.wait("web")
    assert changes.groups == {}
