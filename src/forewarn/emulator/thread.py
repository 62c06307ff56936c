"""An event loop in a thread of its own, for callers who have none."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import TypeVar

_Result = TypeVar("_Result")


class LoopThread:
    """Runs coroutines beside the caller's thread, one loop for all of them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A test that forgets to stop it must not keep the process alive.
        self._thread = threading.Thread(target=self._loop.run_forever, name="forewarn-emulator", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[None, None, _Result]) -> _Result:
        """Return what the work returns, or raise what it raises."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """End the loop and the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
