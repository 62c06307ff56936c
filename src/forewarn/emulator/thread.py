"""Runs an event loop in a thread, for synchronous callers."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import TypeVar

from forewarn.core.errors import Unavailable

_Result = TypeVar("_Result")

_LONGEST_END = 5.0


class LoopThread:
    """Runs coroutines on one event loop in a background thread."""

    def __init__(self, longest_end: float = _LONGEST_END) -> None:
        self._longest_end = longest_end
        self._loop = asyncio.new_event_loop()
        # A daemon: a test that does not stop it must not keep the process alive.
        self._thread = threading.Thread(target=self._loop.run_forever, name="forewarn-emulator", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[None, None, _Result], what: str, seconds: float) -> _Result:
        """Return the result of the work, or raise its exception; raise Unavailable if ``what`` took too long."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except TimeoutError:
            if future.done():
                raise  # the work itself raised it
            future.cancel()
            raise Unavailable(f"the emulator did not finish within {seconds:g} s of real time: {what}") from None
        except BaseException:
            future.cancel()  # the caller was interrupted
            raise

    def stop(self) -> None:
        """Stop the loop and the thread; a thread that does not stop in time is abandoned."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(self._longest_end)
        if not self._thread.is_alive():
            self._loop.close()
