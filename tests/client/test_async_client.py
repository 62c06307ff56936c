"""The client on asyncio: the same rules, other bytes."""

import asyncio
import inspect
from collections.abc import AsyncIterator

import pytest

from forewarn import AsyncClient, ChangeKind, Client, Closed, Ending, UnknownEvent, WrongLoop
from forewarn.testing.scheduled_events import ScheduledEvents


def test_both_clients_offer_the_same() -> None:
    """Only closing has a name of its own, and the address has to be awaited."""
    blocking = {name for name in dir(Client) if not name.startswith("_")}
    looping = {name for name in dir(AsyncClient) if not name.startswith("_")}

    assert blocking - {"close"} == looping - {"aclose"}
    assert inspect.signature(Client) == inspect.signature(AsyncClient)


def test_an_event_is_followed_through_its_life(scheduled_events: ScheduledEvents) -> None:
    """Announced, approved, completed."""

    async def live() -> list[tuple[ChangeKind, Ending | None]]:
        async with AsyncClient(scheduled_events.url) as client:
            assert await client.own_name() == scheduled_events.vms[0].name
            assert await client.url() == scheduled_events.events_url
            event = await asyncio.to_thread(scheduled_events.vms[0].reboot)
            assert [each.id for each in (await client.document()).events] == [event.id]
            seen = []
            changes = client.watch()
            async for change in changes:
                seen.append((change.kind, change.ending))
                match change.kind:
                    case ChangeKind.NEW:
                        await client.approve(change.event)
                    case ChangeKind.STARTED:
                        await asyncio.to_thread(scheduled_events.advance, "15m")
                    case _:
                        break
            with pytest.raises(UnknownEvent):
                await client.approve(event.id)
            return seen

    assert asyncio.run(live()) == [
        (ChangeKind.NEW, None),
        (ChangeKind.STARTED, None),
        (ChangeKind.GONE, Ending.COMPLETED),
    ]


@pytest.mark.parametrize("call", ["document", "ask", "own_name", "url", "aclose"])
def test_a_second_event_loop_is_refused_in_our_words(scheduled_events: ScheduledEvents, call: str) -> None:
    """Its connection and its locks belong to the first; also for a loop that runs in another thread."""
    client = AsyncClient(scheduled_events.url)

    async def use_elsewhere() -> None:
        def other() -> None:
            asyncio.run(getattr(client, call)())

        await client.document()
        with pytest.raises(WrongLoop, match="make one in each"):
            await asyncio.to_thread(other)
        await client.document()
        await client.aclose()

    asyncio.run(use_elsewhere())
    with pytest.raises(WrongLoop, match="make one in each"):
        asyncio.run(getattr(client, call)())


def test_who_waits_in_another_task_ends_with_the_client(scheduled_events: ScheduledEvents) -> None:
    """Nothing is left behind."""

    async def wait(documents: AsyncIterator[object]) -> int:
        return len([document async for document in documents])

    async def live() -> int:
        client = AsyncClient(scheduled_events.url)
        documents = client.documents()
        await anext(documents)
        waiting = asyncio.create_task(wait(documents))
        await asyncio.sleep(0)
        await client.aclose()
        with pytest.raises(Closed):
            await client.document()
        return await asyncio.wait_for(waiting, 60)

    assert asyncio.run(live()) == 0


def test_a_question_that_is_canceled_spoils_no_other(scheduled_events: ScheduledEvents) -> None:
    """The next goes over a connection of its own."""

    async def live() -> str:
        async with AsyncClient(scheduled_events.url) as client:
            first = asyncio.create_task(client.document())
            await asyncio.sleep(0)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            return await client.own_name()

    assert asyncio.run(live()) == scheduled_events.vms[0].name
