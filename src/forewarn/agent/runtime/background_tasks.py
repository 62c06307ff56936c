"""Background tasks of the agent, such as sending an approval; a failure is logged and stops the agent."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

log = logging.getLogger("forewarn.agent")


class BackgroundTasks:
    """Tasks on one event loop; ``failed`` is called when one of them raises."""

    def __init__(self, failed: Callable[[], None]) -> None:
        self.failure: BaseException | None = None
        self._failed = failed
        self._tasks: dict[asyncio.Task[None], None] = {}

    def start(self, coroutine: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(self._returned)

    async def cancel(self) -> None:
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _returned(self, task: "asyncio.Task[None]") -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()):
            log.error("a background task of the agent failed", exc_info=error)
            self.failure = error
            self._failed()
