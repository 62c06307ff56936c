"""An event loop in a thread: nobody waits for it longer than he said."""

import asyncio
import threading
from concurrent.futures import Future

import pytest

from forewarn.core.errors import Unavailable
from forewarn.emulator.thread import LoopThread


def test_work_that_does_not_end_is_named() -> None:
    """Whoever waited is told what for, and the work is canceled."""
    thread = LoopThread()
    is_canceled = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            is_canceled.set()

    with pytest.raises(Unavailable, match=r"did not finish within 0\.05 s of real time: advance the clock"):
        thread.run(wait(), "advance the clock", 0.05)
    assert is_canceled.wait(10)
    thread.stop()


def test_a_loop_that_never_comes_back_does_not_keep_its_caller() -> None:
    """Work that does not yield blocks the loop; whoever called is told, and stopping ends too."""
    thread = LoopThread(longest_end=0.05)
    may_end = threading.Event()

    async def block() -> None:
        may_end.wait()

    with pytest.raises(Unavailable, match="start"):
        thread.run(block(), "start", 0.05)
    thread.stop()
    may_end.set()
    thread.stop()


def test_a_timeout_of_the_work_itself_is_its_own() -> None:
    """It is not mistaken for the limit."""
    thread = LoopThread()

    async def fail() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        thread.run(fail(), "fail", 10)
    thread.stop()


def test_work_of_a_caller_that_is_interrupted_is_canceled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it any more."""

    class InterruptedFuture(Future[None]):
        def result(self, timeout: float | None = None) -> None:
            raise KeyboardInterrupt

    async def work() -> None: ...

    thread, waiting, future = LoopThread(), work(), InterruptedFuture()
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", lambda *_: future)
    with pytest.raises(KeyboardInterrupt):
        thread.run(waiting, "work", 10)
    waiting.close()
    thread.stop()

    assert future.cancelled()
