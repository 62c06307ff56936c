"""Calls handlers: each call in a thread of its own, bounded in time, and none that can take the agent with it."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

import msgspec

from forewarn.agent.handler import Done, Failed, Handler, NotBegun, Outcome, Result, Task, Unknowable
from forewarn.agent.reaction import Run

log = logging.getLogger("forewarn.agent")

GRACE = 1.0
"""Seconds within which a call that was told to stop must have returned; those after it wait no longer for it."""

_LATE = "it did not return by its deadline, and is no longer waited for"

_Said = TypeVar("_Said")
_read_result: Callable[[bytes], Result] = msgspec.json.Decoder(Result).decode
_read_outcome: Callable[[bytes], Outcome] = msgspec.json.Decoder(Outcome).decode

Ended = Callable[[Run, Outcome], None]
"""Called on the event loop with what came of a call."""


class _Running(msgspec.Struct):
    """A call under way."""

    run: Run
    stopping: threading.Event
    late: Outcome
    """What is told when it does not return in time."""
    deadline: datetime
    timer: asyncio.TimerHandle
    is_given_up: bool = False
    """Whether its end was told already, because it did not come in time."""


class _Waiting(msgspec.Struct):
    """A call that begins when an earlier one of its handler has returned, which was given up or is a question."""

    run: Run
    begin: Callable[[], None]
    timer: asyncio.TimerHandle


class Runner:
    """Calls handlers, one call of each at a time. It lives on one event loop."""

    def __init__(self, handlers: Mapping[str, Handler], ended: Ended, *, dry_run: bool = False) -> None:
        self._handlers = handlers
        self._ended = ended
        self._dry_run = dry_run
        self._running: dict[str, _Running] = {}
        self._waiting: dict[str, _Waiting] = {}
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
        self._start(run, vm, partial(_result_of, getattr(handler, run.direction.value)), Failed(_LATE))

    def ask(self, run: Run, vm: str) -> None:
        """Ask a handler what came of a call; nothing if it is being asked already."""
        running = self._running.get(run.handler)
        if run.handler not in self._waiting and (running is None or running.is_given_up):
            self._start(run, vm, partial(_answer_of, self._handlers[run.handler].outcome_of), Unknowable(_LATE))

    def stop(self, event: str, handler: str, at: datetime | None = None) -> None:
        """Tell a call that it is no longer wanted, now or at that time; nothing if there is none."""
        waiting = self._waiting.get(handler)
        if waiting and waiting.run.event.id == event and at is None:
            waiting.timer.cancel()
            del self._waiting[handler]
            self._ended(waiting.run, NotBegun())
            return
        running = self._running.get(handler)
        if running is None or running.run.event.id != event or running.stopping.is_set():
            return
        if at is None:
            running.timer.cancel()
            self._overdue(running.run)
        elif at < running.deadline:
            running.deadline = at
            running.timer.cancel()
            running.timer = asyncio.get_running_loop().call_later(_until(at), self._overdue, running.run)

    async def close(self, seconds: float) -> None:
        """Stop every call, and wait for them at most so long; then let go of the handlers."""
        for waiting in self._waiting.values():
            waiting.timer.cancel()
        self._waiting.clear()
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
                try:
                    handler.close()
                except Exception as error:  # noqa: BLE001 - a stranger's; what is to be kept comes after it
                    log.warning("%s could not be closed: %s", name, _said(error))

    def _start(self, run: Run, vm: str, do: Callable[[Task], Outcome], late: Outcome) -> None:
        loop = asyncio.get_running_loop()
        if run.handler in self._running:
            timer = loop.call_later(_until(run.deadline), self._waited_in_vain, run)
            self._waiting[run.handler] = _Waiting(run, partial(self._start, run, vm, do, late), timer)
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
        self._running[run.handler] = _Running(run, stopping, late, run.deadline, timer)

        def work() -> None:
            outcome = do(task)
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
        self._ended(run, running.late)

    def _waited_in_vain(self, run: Run) -> None:
        del self._waiting[run.handler]
        self._ended(run, Failed("an earlier call of it has not returned yet"))

    def _returned(self, run: Run, outcome: Outcome) -> None:
        running = self._running.pop(run.handler)
        running.timer.cancel()
        self._returned_one.set()
        if not running.is_given_up:
            self._ended(run, outcome)
        if waiting := self._waiting.pop(run.handler, None):
            waiting.timer.cancel()
            waiting.begin()


def _until(deadline: datetime) -> float:
    return max((deadline - datetime.now(UTC)) / timedelta(seconds=1), 0.0)


def _result_of(call: Callable[[Task], object], task: Task) -> Outcome:
    """Call a handler; whatever a stranger's raises or returns is a result that can be kept."""
    try:
        return _kept(call(task), _read_result)
    except BaseException as error:  # a thread that exits has not done its part either
        log.debug("a handler failed", exc_info=True)
        return Failed(_said(error))


def _answer_of(ask: Callable[[Task], object], task: Task) -> Outcome:
    """Ask a handler; one that fails to answer does not know, and is not to be called again for that."""
    try:
        return _kept(ask(task), _read_outcome)
    except BaseException as error:  # as above
        log.debug("a handler failed", exc_info=True)
        return Unknowable(_said(error))


def _kept(said: object, read: Callable[[bytes], _Said]) -> _Said:
    """Return what a handler said as it will be read from the memory; raise TypeError if it cannot be."""
    try:
        return read(msgspec.json.encode(said))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        raise TypeError(f"it returned {said!r:.100}, which is no result") from None


def _said(error: BaseException) -> str:
    first = str(error).strip().partition("\n")[0].encode(errors="replace").decode()
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
