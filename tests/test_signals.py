"""What signals do, in a process that gets real ones."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from forewarn.signals import Signals


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Put back what the test runner does on signals."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_start_quietly(number: signal.Signals) -> None:
    """What was being done is canceled; the block after it sees that the service is to stop."""

    async def start() -> tuple[bool, int]:
        signals = Signals()
        signals.attach()
        with signals.interruptible():
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task is not None
        return signals.stopping.is_set(), task.cancelling()

    assert asyncio.run(start()) == (True, 0)


def test_the_next_signal_is_the_kernels() -> None:
    """Whatever the event loop is doing then."""

    async def stop() -> None:
        signals = Signals()
        signals.attach()
        os.kill(os.getpid(), signal.SIGTERM)
        await signals.next()

    asyncio.run(stop())
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == [signal.SIG_DFL] * 2


def test_hangups_before_and_while_a_loop_runs_are_one_reload() -> None:
    """The first is kept; several that come before it is taken up make one; after it, none is left."""
    signals = Signals()
    os.kill(os.getpid(), signal.SIGHUP)

    async def take() -> list[bool]:
        signals.attach()
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        await signals.next()
        return [signals.take_reload(), signals.take_reload(), signals.stopping.is_set()]

    assert asyncio.run(take()) == [True, False, False]


def test_no_reload_begins_while_it_stops() -> None:
    """Whoever stops has no use for new settings."""
    signals = Signals()
    signals.reload.set()
    signals.stopping.set()

    assert not signals.take_reload()


def test_a_hangup_may_stop_it() -> None:
    """As for a demonstration that ends with its terminal; not where nohup has it ignored."""

    async def is_stopped() -> bool:
        signals = Signals(hangup_stops=True)
        signals.attach()
        os.kill(os.getpid(), signal.SIGHUP)
        for _ in range(100):
            await asyncio.sleep(0)
        return signals.stopping.is_set()

    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert asyncio.run(is_stopped())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert not asyncio.run(is_stopped())


def test_another_cancellation_is_no_signal() -> None:
    """It goes on to whoever asked for it."""

    async def start() -> None:
        with Signals().interruptible():
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(start())
