"""Calls handlers: each call in a thread of its own, bounded in time, and none that can take the agent with it."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec

from forewarn.agent.handler import Done, Failed, Handler, Outcome, Task
from forewarn.agent.reaction import Run

log = logging.getLogger("forewarn.agent")

GRACE = 5.0
"""Seconds after its deadline within which a call that was told to stop must have returned."""

Ended = Callable[[Run, Outcome], None]
"""Called on the event loop with what came of a call."""


class _Running(msgspec.Struct):
    """A call under way."""

    run: Run
    stopping: threading.Event
    timer: asyncio.TimerHandle
    is_given_up: bool = False
    """Whether its end was told already, because it did not come in time."""


class Runner:
    """Calls handlers, one call of each at a time. It lives on one event loop."""

    def __init__(self, handlers: Mapping[str, Handler], ended: Ended, *, dry_run: bool = False) -> None:
        self._handlers = handlers
        self._ended = ended
        self._dry_run = dry_run
        self._running: dict[str, _Running] = {}
        self._returned_one = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Tell whether no handler is under way, given up or not."""
        return not self._running

    def call(self, run: Run, vm: str) -> None:
        """Let a handler do or undo its part."""
        if self._dry_run:
            log.info("dry run: %s would %s", run.handler, run.direction, extra={"fields": {"event": run.event.id}})
            asyncio.get_running_loop().call_soon(self._ended, run, Done(detail="dry run: nothing was done"))
            return
        handler = self._handlers[run.handler]
        self._start(run, vm, getattr(handler, run.direction.value))

    def ask(self, run: Run, vm: str) -> None:
        """Ask a handler what came of a call; nothing if it is being asked already."""
        running = self._running.get(run.handler)
        if running is None or running.is_given_up:
            self._start(run, vm, self._handlers[run.handler].outcome_of)

    def stop(self, event: str, handler: str) -> None:
        """Tell a call that it is no longer wanted; nothing if there is none."""
        running = self._running.get(handler)
        if running and running.run.event.id == event:
            running.stopping.set()

    async def close(self, seconds: float) -> None:
        """Stop every call, and wait for them at most so long; then let go of the handlers."""
        for running in self._running.values():
            running.stopping.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.is_idle:
                    self._returned_one.clear()
                    await self._returned_one.wait()
        for running in self._running.values():
            running.timer.cancel()
        for name, handler in self._handlers.items():
            if name not in self._running:
                handler.close()

    def _start(self, run: Run, vm: str, do: Callable[[Task], Outcome]) -> None:
        loop = asyncio.get_running_loop()
        if run.handler in self._running:
            stuck = Failed("an earlier call of it has not returned yet")
            loop.call_soon(self._ended, run, stuck)
            return
        stopping = threading.Event()
        task = Task(
            event=run.event,
            vm=vm,
            direction=run.direction,
            deadline=run.deadline,
            stopping=stopping,
            kept=run.kept,
            attempt=run.attempt,
        )
        timer = loop.call_later(_until(run.deadline), self._overdue, run)
        self._running[run.handler] = _Running(run, stopping, timer)

        def work() -> None:
            outcome = _outcome(do, task)
            try:
                loop.call_soon_threadsafe(self._returned, run, outcome)
            except RuntimeError:
                log.debug("the agent ended before %s did", run.handler)

        threading.Thread(target=work, name=f"handler {run.handler}", daemon=True).start()

    def _overdue(self, run: Run) -> None:
        running = self._running[run.handler]
        if not running.stopping.is_set():
            running.stopping.set()
            running.timer = asyncio.get_running_loop().call_later(GRACE, self._overdue, run)
            return
        running.is_given_up = True
        self._ended(run, Failed("it did not return by its deadline, and is no longer waited for"))

    def _returned(self, run: Run, outcome: Outcome) -> None:
        running = self._running.pop(run.handler)
        running.timer.cancel()
        self._returned_one.set()
        if not running.is_given_up:
            self._ended(run, outcome)


def _until(deadline: datetime) -> float:
    return max((deadline - datetime.now(UTC)) / timedelta(seconds=1), 0.0)


def _outcome(do: Callable[[Task], Outcome], task: Task) -> Outcome:
    try:
        return do(task)
    except Exception as error:  # a stranger's handler may fail in any way
        log.debug("a handler failed", exc_info=True)
        said = str(error).strip().partition("\n")[0]
        return Failed(f"{type(error).__name__}: {said}" if said else type(error).__name__)
