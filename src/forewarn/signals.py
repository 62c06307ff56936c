"""Signal handling of the service: SIGTERM and SIGINT stop it, SIGHUP reloads the configuration.

before the event loop runs   SIGHUP is kept for later; the others end the process immediately
during start                 the start is cancelled
while running                the service stops in order, or reloads
while stopping               a second SIGTERM or SIGINT ends the process immediately
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
    """Signals of one service. Create it in the main thread, as early as possible."""

    def __init__(self, *, hangup_stops: bool = False) -> None:
        """With ``hangup_stops`` SIGHUP stops the service."""
        self.stopping = asyncio.Event()
        self.reload = asyncio.Event()
        self._hangup_stops = hangup_stops
        self._starting: asyncio.Task[object] | None = None
        if not hangup_stops:
            signal.signal(signal.SIGHUP, lambda *_: self.reload.set())

    def attach(self) -> None:
        """Handle signals on the running event loop."""
        loop = asyncio.get_running_loop()
        for number in _STOP:
            loop.add_signal_handler(number, self._stop, number)
        if not self._hangup_stops:
            loop.add_signal_handler(signal.SIGHUP, self.reload.set)
        elif signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
            loop.add_signal_handler(signal.SIGHUP, self._stop, signal.SIGHUP)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a stop signal cancel the block; the block then ends without an error, and ``stopping`` is set."""
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
        """Return whether a reload is requested and not begun yet; several signals before it count as one."""
        is_wanted = self.reload.is_set() and not self.stopping.is_set()
        self.reload.clear()
        return is_wanted

    def _stop(self, number: signal.Signals) -> None:
        log.info("stopping", extra={"fields": {"signal": number.name}})
        end_on_next()
        self.stopping.set()
        if self._starting is not None:
            self._starting.cancel()


def end_on_next() -> None:
    """Let the next stop signal end the process at once, even if the event loop is busy. Nothing durable is lost."""
    loop = asyncio.get_running_loop()
    for each in _STOP:
        loop.remove_signal_handler(each)
        # The kernel does not end process 1 of a container by a signal that it does not handle.
        signal.signal(each, signal.SIG_DFL if os.getpid() != 1 else _end)


def _end(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)
