"""What signals do to the service: SIGTERM and SIGINT stop it, SIGHUP makes it reload.

before the event loop runs   SIGHUP is kept for later; the others end the process at once
while it starts              the start is given up
while it runs                it stops in order, or reloads
while it stops               a second SIGTERM or SIGINT ends the process at once, whatever it is doing
"""

import asyncio
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)

_STOP = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """The signals of one service. Make it in the main thread, as early as possible."""

    def __init__(self, *, hangup_stops: bool = False) -> None:
        """With ``hangup_stops`` the service ends with its terminal."""
        self.stopping = asyncio.Event()
        self.reload = asyncio.Event()
        self._hangup_stops = hangup_stops
        self._starting: asyncio.Task[object] | None = None
        if not hangup_stops:
            signal.signal(signal.SIGHUP, self._keep)

    def attach(self) -> None:
        """Handle signals on the running event loop."""
        loop = asyncio.get_running_loop()
        for number in _STOP:
            loop.add_signal_handler(number, self._stop, number)
        if not self._hangup_stops:
            loop.add_signal_handler(signal.SIGHUP, self.reload.set)
        elif signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # which nohup sets
            loop.add_signal_handler(signal.SIGHUP, self._stop, signal.SIGHUP)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal to stop cancel what is done within; the block ends quietly then, and ``stopping`` is set."""
        task = self._starting = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError:
            if not self.stopping.is_set() or task is None or task.uncancel():
                raise
        finally:
            self._starting = None

    async def next(self) -> None:
        """Wait for a signal to stop or to reload."""
        waiting = [asyncio.ensure_future(each.wait()) for each in (self.stopping, self.reload)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()

    def take_reload(self) -> bool:
        """Tell whether a reload is wanted and was not begun yet; several signals before it make one."""
        is_wanted = self.reload.is_set() and not self.stopping.is_set()
        self.reload.clear()
        return is_wanted

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self.reload.set()

    def _stop(self, number: signal.Signals) -> None:
        log.info("stopping", extra={"fields": {"signal": number.name}})
        end_on_next()
        self.stopping.set()
        if self._starting is not None:
            self._starting.cancel()


def end_on_next() -> None:
    """Let the next signal to stop end the process at once, also while the loop is busy. Nothing durable is lost."""
    loop = asyncio.get_running_loop()
    for each in _STOP:
        loop.remove_signal_handler(each)
        # The kernel never ends process 1 of a container by a signal that it does not handle.
        signal.signal(each, signal.SIG_DFL if os.getpid() != 1 else _end)


def _end(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)
