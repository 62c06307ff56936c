"""Calls handlers: each call in its own thread, with a deadline; no handler can block or crash the agent."""

import asyncio
import logging
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from forewarn.agent.decision.actions import CallHandler
from forewarn.agent.handler import (
    Direction,
    Handler,
    HandlerDone,
    HandlerFailed,
    HandlerNotBegun,
    HandlerOutcome,
    HandlerResult,
    HandlerUnknown,
    Task,
)
from forewarn.agent.runtime.clock_check import EndpointClock
from forewarn.clocks import SystemClock
from forewarn.threads import THREADS
from forewarn.wire.azure_names import show_id

log = logging.getLogger("forewarn.agent")

GRACE = 1.0
"""Seconds within which a stopped call must return; after that the next call no longer waits for it."""

_LATE = "the handler did not return by its deadline; the agent no longer waits for it"
_BUSY = "an earlier call of the handler has not returned yet"

_Returned = TypeVar("_Returned")
_read_result: Callable[[bytes], HandlerResult] = msgspec.json.Decoder(HandlerResult).decode
_read_outcome: Callable[[bytes], HandlerOutcome] = msgspec.json.Decoder(HandlerOutcome).decode


class CallGivenUp(msgspec.Struct, frozen=True):
    """The call did not return by its deadline: it counts as failed, and may still have an effect."""

    reason: str = _LATE


OnEnded = Callable[[CallHandler, HandlerOutcome | CallGivenUp], None]
"""Called on the event loop with the outcome of a call."""


class _RunningCall(msgspec.Struct):
    """A call under way."""

    run: CallHandler
    stopping: threading.Event
    late: HandlerUnknown | CallGivenUp
    """The outcome if it does not return in time."""
    due: float
    """Its deadline by the monotonic clock of the event loop."""
    timer: asyncio.TimerHandle
    is_given_up: bool = False
    """Whether its outcome was reported already, because it did not return in time."""


class _WaitingCall(msgspec.Struct):
    """A call that begins when an earlier call of its handler (given up, or ``outcome_of``) has returned."""

    run: CallHandler
    start: Callable[[CallHandler], None]
    timer: asyncio.TimerHandle | None
    """None for ``undo``, which waits without limit: the earlier call may still change something."""
    time: timedelta
    """How long ``undo`` may take once it begins."""

    def cancel(self) -> None:
        if self.timer:
            self.timer.cancel()


class HandlerRunner:
    """Calls handlers, one call of each at a time. It lives on one event loop."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        ended: OnEnded,
        *,
        dry_run: bool = False,
        clock: EndpointClock | None = None,
        grace: float = GRACE,
    ) -> None:
        self._handlers = handlers
        self._grace = grace
        self._ended = ended
        self._dry_run = dry_run
        self._clock = clock or EndpointClock(SystemClock())
        self._running: dict[str, _RunningCall] = {}
        self._waiting: dict[str, _WaitingCall] = {}
        self._returned_one = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether no call is running, given up or not."""
        return not self._running

    @property
    def waiting_calls(self) -> frozenset[tuple[str, str]]:
        """The event and handler of each call that waits for an earlier call of the handler to return."""
        return frozenset((waiting.run.event.id, handler) for handler, waiting in self._waiting.items())

    def call(self, run: CallHandler, vm: str) -> None:
        """Call ``do`` or ``undo`` of a handler."""
        if self._dry_run:
            fields = {"event": show_id(run.event.id), "handler": run.handler, "direction": run.direction.value}
            log.info("dry run: would call the handler", extra={"fields": fields})
            asyncio.get_running_loop().call_soon(self._ended, run, HandlerDone(detail="dry run: nothing was done"))
            return
        self._start(run, vm, partial(_result_of, self._handlers[run.handler], run.direction), CallGivenUp())

    def ask(self, run: CallHandler, vm: str) -> None:
        """Ask a handler for the outcome of a call; do nothing if it is being asked already."""
        running = self._running.get(run.handler)
        if run.handler not in self._waiting and (running is None or running.is_given_up):
            self._start(run, vm, partial(_answer_of, self._handlers[run.handler]), HandlerUnknown(_LATE))

    def stop(self, event: str, handler: str, at: datetime | None = None) -> None:
        """Stop a call, now or at that time; do nothing if there is none."""
        waiting = self._waiting.get(handler)
        if waiting and waiting.run.event.id == event and at is None:
            waiting.cancel()
            del self._waiting[handler]
            # An earlier attempt was made, and is undone: then this one counts as failed.
            self._ended(waiting.run, HandlerFailed(_BUSY) if waiting.run.attempt > 1 else HandlerNotBegun())
            return
        running = self._running.get(handler)
        if running is None or running.run.event.id != event or running.stopping.is_set():
            return
        if at is None:
            running.timer.cancel()
            self._overdue(running.run)
        elif (due := self._due(at)) < running.due:
            running.due = due
            running.timer.cancel()
            running.timer = asyncio.get_running_loop().call_at(due, self._overdue, running.run)

    async def close(self, seconds: float) -> None:
        """Stop all calls, wait for them at most ``seconds``, then close the handlers."""
        for waiting in self._waiting.values():
            waiting.cancel()
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
        loop = asyncio.get_running_loop()
        closing = [
            loop.run_in_executor(THREADS, close_handler, name, handler)
            for name, handler in self._handlers.items()
            if name not in self._running
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*closing, return_exceptions=True)

    def _start(
        self, run: CallHandler, vm: str, do: Callable[[Task], HandlerOutcome], late: HandlerUnknown | CallGivenUp
    ) -> None:
        loop = asyncio.get_running_loop()
        if run.handler in self._running:
            if replaced := self._waiting.get(run.handler):  # a question, which is asked again if it is still open
                replaced.cancel()
            timer = None
            if run.direction is Direction.DO:
                in_vain = HandlerUnknown(_BUSY) if isinstance(late, HandlerUnknown) else HandlerFailed(_BUSY)
                timer = loop.call_at(self._due(run.deadline), self._waited_in_vain, run, in_vain)
            start = partial(self._start, vm=vm, do=do, late=late)
            self._waiting[run.handler] = _WaitingCall(run, start, timer, run.deadline - self._clock.now())
            return
        stopping = threading.Event()
        task = Task(
            event=run.event,
            vm=vm,
            direction=run.direction,
            deadline=self._clock.own(run.deadline),
            stopping=stopping,
            kept=run.kept,
            attempt=run.attempt,
        )
        due = self._due(run.deadline)
        timer = loop.call_at(due, self._overdue, run)
        self._running[run.handler] = _RunningCall(run, stopping, late, due, timer)

        try:
            calling = loop.run_in_executor(THREADS, do, task)
        except RuntimeError as error:  # the system has no thread left
            loop.call_soon(self._returned, run, HandlerFailed(describe_error(error)))
        else:
            calling.add_done_callback(lambda done: self._returned(run, done.result()))

    def _due(self, deadline: datetime) -> float:
        left = (deadline - self._clock.now()) / timedelta(seconds=1)
        return asyncio.get_running_loop().time() + max(left, 0.0)

    def _overdue(self, run: CallHandler) -> None:
        running = self._running[run.handler]
        if not running.stopping.is_set():
            running.stopping.set()
            running.timer = asyncio.get_running_loop().call_later(self._grace, self._overdue, run)
            return
        running.is_given_up = True
        self._ended(run, running.late)

    def _waited_in_vain(self, run: CallHandler, outcome: HandlerOutcome) -> None:
        del self._waiting[run.handler]
        self._ended(run, outcome)

    def _returned(self, run: CallHandler, outcome: HandlerOutcome) -> None:
        running = self._running.pop(run.handler)
        running.timer.cancel()
        self._returned_one.set()
        if not running.is_given_up:
            self._ended(run, outcome)
        if waiting := self._waiting.pop(run.handler, None):
            waiting.cancel()
            is_limited = waiting.timer is not None
            deadline = waiting.run.deadline if is_limited else self._clock.now() + waiting.time
            waiting.start(msgspec.structs.replace(waiting.run, deadline=deadline))


def close_handler(name: str, handler: Handler) -> None:
    """Close a handler; a failure is only logged."""
    try:
        handler.close()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
        log.warning(
            "a handler could not be closed", extra={"fields": {"handler": name, "reason": describe_error(error)}}
        )


def _result_of(handler: Handler, direction: Direction, task: Task) -> HandlerOutcome:
    """Call a handler; turn whatever it raises or returns into a result that can be stored."""
    try:
        return _kept(getattr(handler, direction.value)(task), _read_result)
    except BaseException as error:  # SystemExit in a thread is a failure too
        log.debug("a handler failed", exc_info=True)
        return HandlerFailed(describe_error(error))


def _answer_of(handler: Handler, task: Task) -> HandlerOutcome:
    """Ask a handler for an outcome; if it fails, the outcome is unknown, and the call is not repeated."""
    try:
        return _kept(handler.outcome_of(task), _read_outcome)
    except BaseException as error:  # as above
        log.debug("a handler failed", exc_info=True)
        return HandlerUnknown(describe_error(error))


def _kept(said: object, read: Callable[[bytes], _Returned]) -> _Returned:
    """Return a handler's result as it will be read from the memory; raise TypeError if it cannot be stored."""
    try:
        return read(msgspec.json.encode(said))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        raise TypeError(f"it returned {_shown(said)}, which is not a handler result") from None


def _shown(said: object) -> str:
    try:
        return f"{said!r:.100}"
    except BaseException:  # noqa: BLE001 - a plugin's repr
        return f"a {type(said).__name__}"


def describe_error(error: BaseException) -> str:
    """Return an exception's class, its first line and, for a handler from outside this package, the file and line."""
    try:
        first = str(error).strip().partition("\n")[0].encode(errors="replace").decode()
    except BaseException:  # noqa: BLE001 - a plugin's exception
        first = ""
    return f"{type(error).__name__}{first and ': '}{first}{_place(error)}"


def _place(error: BaseException) -> str:
    called = traceback.extract_tb(error.__traceback__)[1:]  # the first frame is the caller of the handler
    if not called or Path(called[0].filename).is_relative_to(Path(__file__).parents[1]):
        return ""
    deepest = [frame for frame in called if frame.filename == called[0].filename][-1]
    return f" ({deepest.filename}:{deepest.lineno})"
