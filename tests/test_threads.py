"""Calls in threads of their own."""

import asyncio
import threading

import pytest

from forewarn.threads import THREADS


def test_a_call_that_does_not_return_keeps_no_other_waiting() -> None:
    """Each has a thread of its own, which does not keep the process alive."""
    end = threading.Event()

    async def ask() -> bool:
        loop = asyncio.get_running_loop()
        stuck = loop.run_in_executor(THREADS, end.wait)
        is_daemon = await loop.run_in_executor(THREADS, lambda: threading.current_thread().daemon)
        end.set()
        await stuck
        return is_daemon

    assert asyncio.run(ask())


def test_what_a_call_raises_is_raised_where_it_is_awaited() -> None:
    """So is the end of the process that it asks for."""

    async def ask() -> None:
        await asyncio.get_running_loop().run_in_executor(THREADS, [].pop)

    with pytest.raises(IndexError):
        asyncio.run(ask())


def test_a_canceled_call_disturbs_nobody() -> None:
    """Its thread ends as it would have; its result is dropped."""
    begin = threading.Event()

    async def ask() -> None:
        call = asyncio.get_running_loop().run_in_executor(THREADS, begin.wait)
        call.cancel()
        begin.set()
        await asyncio.sleep(0)

    asyncio.run(ask())
    assert not [each for each in threading.enumerate() if each.name == "wait" and not each.daemon]
