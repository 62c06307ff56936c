"""Waiting for a change: who is held, for how long, and what they are told."""

import pytest

from forewarn.core.facts import Announced, FleetChanged, VmDeallocated, VmRemoved
from forewarn.core.model import GroupKind, GroupTerms, Vm
from forewarn.metadata.limits import Limits
from tests.metadata.harness import EVENTS, WEB, event, get, harness, on_both_loops


def wait(seconds: str = "30", tag: str = '"web-1"', *fields: str) -> bytes:
    return get(EVENTS, f"Prefer: wait={seconds}", f"If-None-Match: {tag}", *fields)


@on_both_loops
async def test_a_waiter_is_told_of_a_change() -> None:
    """A caller who has the present document is held until there is another, and then gets that at once."""
    async with harness() as service:
        caller = await service.call(wait())
        await service.settle()
        service.move(20)
        assert caller.has_nothing()
        service.announce("e1")
        answer = await caller.answer()
        assert (answer.status, answer.fields["etag"], answer.fields["preference-applied"]) == (200, '"web-2"', "wait")
        assert len(service.service.long_polls) == 0


@on_both_loops
async def test_waiting_ends() -> None:
    """When nothing has changed in the time asked for, the answer is 304, and not a moment earlier."""
    async with harness() as service:
        caller = await service.call(wait("30"))
        await service.settle()
        service.move(30)
        await service.settle()
        assert caller.has_nothing()
        service.move(1)
        answer = await caller.answer()
        assert (answer.status, answer.fields["preference-applied"]) == (304, "wait")
        await caller.send(get())
        assert (await caller.answer()).status == 200


@on_both_loops
async def test_nobody_waits_longer_than_five_minutes() -> None:
    """A longer wait is cut to 300 seconds."""
    async with harness() as service:
        caller = await service.call(wait("99999999999"))
        await service.settle()
        service.move(301)
        assert (await caller.answer()).status == 304


@pytest.mark.parametrize("request_", [wait(tag='"web-0"'), wait(tag="0"), wait(), get(EVENTS, "Prefer: wait=5")])
@on_both_loops
async def test_who_has_another_document_does_not_wait(request_: bytes) -> None:
    """Without the tag of the present document there is nothing to wait for."""
    async with harness() as service:
        service.announce("e1")
        answer = await service.ask(request_)
        assert answer.status == 200
        has_tag = b"If-None-Match" in request_
        assert answer.fields.get("preference-applied") == ("wait" if has_tag else None)


@pytest.mark.parametrize("preference", ["wait=0", "wait=-1", "wait", "await=5", "respond-async", "wait=x"])
@on_both_loops
async def test_a_preference_that_is_none_is_ignored(preference: str) -> None:
    """What cannot be read as a time to wait is passed over."""
    async with harness() as service:
        answer = await service.ask(get(EVENTS, f"Prefer: {preference}", 'If-None-Match: "web-1"'))
        assert answer.status == 304
        assert "preference-applied" not in answer.fields


@on_both_loops
async def test_a_preference_may_stand_in_a_list() -> None:
    """``wait`` counts among other preferences, in any case and quoted."""
    async with harness() as service:
        for preference in ("respond-async, wait=7", 'WAIT="7"', "wait=7; foo", "a=b,wait = 7"):
            caller = await service.call(get(EVENTS, f"Prefer: {preference}", 'If-None-Match: "web-1"'))
            await service.settle()
            service.move(7)
            await service.settle()
            assert caller.has_nothing()
            service.move(1)
            assert (await caller.answer()).status == 304


@on_both_loops
async def test_what_is_pipelined_waits_behind() -> None:
    """Requests sent after one that waits are answered after it."""
    async with harness() as service:
        caller = await service.call(wait() + get("/metadata/versions"))
        await service.settle()
        assert caller.has_nothing()
        service.announce("e1")
        assert [(await caller.answer()).fields.get("etag") for _ in range(2)] == ['"web-2"', None]


@on_both_loops
async def test_waiting_is_not_idling() -> None:
    """A connection whose request waits is not closed for idleness; afterwards it may idle as long as any other."""
    async with harness() as service:
        caller = await service.call(wait("300"))
        await service.settle()
        service.move(200)
        await service.settle()
        assert caller.has_nothing()
        service.announce("e1")
        await caller.answer()
        service.move(70)
        await caller.send(get())
        assert (await caller.answer()).status == 200


@on_both_loops
async def test_waiting_costs_one_unit_of_the_rate() -> None:
    """Being answered late is no second request."""
    async with harness(Limits(rate=0.001, burst=2)) as service:
        caller = await service.call(wait())
        await service.settle()
        service.announce("e1")
        assert (await caller.answer()).status == 200
        assert [(await service.ask(get())).status for _ in range(2)] == [200, 429]


@on_both_loops
async def test_a_waiter_who_leaves_is_forgotten() -> None:
    """Closing the connection ends the waiting; nothing of it is kept."""
    async with harness() as service:
        caller = await service.call(wait())
        await service.settle()
        assert len(service.service.long_polls) == 1
        caller.wire.setsockopt(1, 13, b"\x01\0\0\0\0\0\0\0")  # SO_LINGER of zero: reset, do not finish
        caller.close()
        await service.settle()
        assert len(service.service.long_polls) == 0


@on_both_loops
async def test_a_waiter_who_sends_no_more_is_answered_at_once() -> None:
    """Half a connection is no reason to hold somebody for minutes."""
    async with harness() as service:
        caller = await service.call(wait())
        await service.settle()
        caller.wire.shutdown(1)
        assert (await caller.answer()).status == 304
        assert await caller.rest() == b""


@on_both_loops
async def test_a_waiter_whose_vm_is_gone_is_told_so() -> None:
    """When its time is over, a caller that is no VM any more gets 403."""
    async with harness() as service:
        caller = await service.call(wait())
        await service.settle()
        service.commit(VmRemoved("web-0", "deleted"))
        service.move(31)
        assert (await caller.answer()).status == 403


@on_both_loops
async def test_stopping_releases_who_waits() -> None:
    """When the service stops, whoever waits gets the present document and the connection closes."""
    async with harness() as service:
        caller = await service.call(wait())
        await service.settle()
        await service.listener.stop()
        answer = await caller.answer()
        assert (answer.status, answer.fields["connection"]) == (304, "close")
        assert await caller.rest() == b""


@pytest.mark.end_to_end
@on_both_loops
async def test_many_wait_on_one_timer() -> None:
    """A thousand waiting callers of one group are all told, and none is left behind."""
    async with harness() as service:
        callers = [await service.call(wait("300")) for _ in range(1_000)]
        await service.settle()
        assert len(service.service.long_polls) == 1_000
        service.announce("e1")
        assert {(await caller.answer()).status for caller in callers} == {200}
        assert len(service.service.long_polls) == 0


@on_both_loops
async def test_a_waiter_whose_vm_changes_its_group_is_answered_at_once() -> None:
    """By its new group's document, never by the one it has left; its former neighbours wait on."""
    shop = FleetChanged(groups=(GroupTerms("shop", GroupKind.AVAILABILITY_SET),))
    async with harness(facts=(WEB, shop)) as service:
        moving, staying = await service.call(wait()), await service.call(wait(), source="127.0.0.2")
        await service.settle()
        service.commit(FleetChanged(vms=(Vm("web-0", "shop", address="127.0.0.1"),)))
        answer = await moving.answer()
        assert (answer.status, answer.fields["etag"]) == (200, f'"shop-{service.fleet.groups["shop"].incarnation}"')
        await service.settle()
        assert staying.has_nothing()
        assert len(service.service.long_polls) == 1


@on_both_loops
async def test_a_waiter_is_never_shown_the_document_of_a_group_that_it_has_just_left() -> None:
    """Also where that document changes in the same commit."""
    shop = FleetChanged(groups=(GroupTerms("shop", GroupKind.AVAILABILITY_SET),))
    async with harness(facts=(WEB, shop)) as service:
        caller = await service.call(wait())
        await service.settle()
        service.commit(
            FleetChanged(vms=(Vm("web-0", "shop", address="127.0.0.1"),)),
            Announced(event("e1", resources=("web-1",))),
        )
        answer = await caller.answer()
        assert answer.fields["etag"].startswith('"shop-')
        assert b"web-1" not in answer.body


@on_both_loops
async def test_a_waiter_whose_vm_is_deallocated_is_refused_at_once() -> None:
    """Nobody may ask in its name, nor wait."""
    async with harness() as service:
        caller = await service.call(wait())
        await service.settle()
        service.commit(VmDeallocated("web-0", "by hand"))
        assert (await caller.answer()).status == 403


@on_both_loops
async def test_many_waiters_are_answered_in_slices() -> None:
    """Each once, with the document as it is then; whoever left meanwhile is forgotten."""
    async with harness() as service:
        service.service.long_polls.at_once = 3
        callers = [await service.call(wait()) for _ in range(8)]
        await service.settle()
        service.announce("e1")
        assert len(service.service.long_polls) == 5
        service.announce("e2")
        tags = [(await caller.answer()).fields["etag"] for caller in callers]
        assert tags == ['"web-2"'] * 3 + ['"web-3"'] * 5
        assert len(service.service.long_polls) == 0
        assert all(caller.has_nothing() for caller in callers)
