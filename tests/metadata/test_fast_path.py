"""The fast path: approvals and long polls are answered without a transport, and nothing that callers do is lost."""

from forewarn.core.errors import Refused
from forewarn.metadata.limits import Limits
from tests.metadata.harness import EVENTS, RunningMetadataHarness, get, harness, on_both_loops, post

APPROVAL = b'{"StartRequests": [{"EventId": "e1"}]}'
LONG_POLL = get(EVENTS, "Prefer: wait=60", 'If-None-Match: "web-1"')


def connections(service: RunningMetadataHarness) -> list[str]:
    """Return what serves the connections of the caller at 127.0.0.1."""
    return [type(each).__name__ for each in service.registry._connections if each.address == "127.0.0.1"]


@on_both_loops
async def test_approvals_and_long_polls_need_no_transport() -> None:
    """One connection serves plain requests, approvals and long polls one after another."""
    async with harness() as service:
        caller = await service.call(get())
        assert (await caller.answer()).status == 200
        await caller.send(post(APPROVAL))
        assert (await caller.answer()).status == 200
        await caller.send(LONG_POLL)
        await service.settle()
        assert connections(service) == ["FastPathConnection"]
        service.announce("e1")
        assert (await caller.answer()).status == 200
        assert service.approvals == [("web-0", ("e1",))]


@on_both_loops
async def test_what_is_sent_during_an_approval_is_answered_after_it() -> None:
    """Responses keep the order of their requests."""
    async with harness() as service:
        service.gate.clear()
        caller = await service.call(post(APPROVAL))
        await service.settle()
        await caller.send(get("/metadata/versions") + get())
        await service.settle()
        assert caller.has_nothing()
        service.gate.set()
        approved, versions, document = [await caller.answer() for _ in range(3)]
        assert (approved.status, approved.body) == (200, b"")
        assert b"apiVersions" in versions.body
        assert document.fields["etag"] == '"web-1"'


@on_both_loops
async def test_half_a_connection_is_told_what_became_of_its_approval() -> None:
    """A caller that shuts down its sending side gets the response before the connection closes."""
    async with harness() as service:
        service.gate.clear()
        caller = await service.call(post(APPROVAL))
        await service.settle()
        caller.wire.shutdown(1)
        await service.settle()
        service.gate.set()
        assert (await caller.rest()).startswith(b"HTTP/1.1 200 ")


@on_both_loops
async def test_who_leaves_during_an_approval_leaves_nothing_behind() -> None:
    """The approval is recorded, and its connection forgotten."""
    async with harness() as service:
        service.gate.clear()
        caller = await service.call(post(APPROVAL))
        await service.settle()
        caller.close()
        await service.settle()
        service.gate.set()
        await service.settle()
        assert service.approvals == [("web-0", ("e1",))]
        assert connections(service) == []


@on_both_loops
async def test_who_leaves_during_a_long_poll_is_forgotten() -> None:
    """Neither the long poll nor its connection stays."""
    async with harness() as service:
        caller = await service.call(LONG_POLL)
        await service.settle()
        assert len(service.service.long_polls) == 1
        caller.close()
        await service.settle()
        assert len(service.service.long_polls) == 0
        assert connections(service) == []


@on_both_loops
async def test_who_sends_during_a_long_poll_waits_on() -> None:
    """The next request is answered after the change that the first one waits for."""
    async with harness() as service:
        caller = await service.call(LONG_POLL)
        await service.settle()
        await caller.send(get("/metadata/versions"))
        await service.settle()
        assert caller.has_nothing()
        assert len(service.service.long_polls) == 1
        service.announce("e1")
        assert b"e1" in (await caller.answer()).body.lower()
        assert b"apiVersions" in (await caller.answer()).body


@on_both_loops
async def test_a_refused_approval_is_answered_and_the_connection_stays() -> None:
    """The next request on the connection is answered too."""
    async with harness() as service:
        service.failure = Refused("no")
        caller = await service.call(post(APPROVAL))
        assert (await caller.answer()).status == 400
        await caller.send(get())
        assert (await caller.answer()).status == 200


@on_both_loops
async def test_approvals_count_towards_the_rate() -> None:
    """An approval above the rate is refused, and recorded nowhere."""
    async with harness(Limits(rate=1.0, burst=1, connections_per_caller=0)) as service:
        caller = await service.call(post(APPROVAL))
        assert (await caller.answer()).status == 200
        await caller.send(post(APPROVAL))
        assert (await caller.answer()).status == 429
        assert len(service.approvals) == 1


@on_both_loops
async def test_the_last_approval_of_a_connection_closes_it() -> None:
    """``Connection: close`` is kept after a response that came later, too."""
    async with harness() as service:
        caller = await service.call(post(APPROVAL, "Connection: close"))
        assert (await caller.rest()).startswith(b"HTTP/1.1 200 ")
        assert connections(service) == []


@on_both_loops
async def test_a_stop_waits_for_the_response_of_an_approval() -> None:
    """The connection closes after the response."""
    async with harness() as service:
        service.gate.clear()
        caller = await service.call(post(APPROVAL))
        await service.settle()
        for connection in list(service.registry._connections):
            connection.close_gracefully()
        service.registry.is_closing = True
        service.gate.set()
        assert (await caller.rest()).startswith(b"HTTP/1.1 200 ")
