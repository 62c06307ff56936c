"""An event loop on simulated time: the same calls in the same order for the same seed.

Real code runs on it unchanged. Time passes only when nothing is left to do now; calls in threads are made on the
loop, at a moment that the seed chooses; connections go through the simulated network. Each callback belongs to a
simulated process, and a process can be killed between any two callbacks: nothing of it runs afterwards, not even
``finally``. It can also be paused, as SIGSTOP does: nothing of it runs until it goes on, and time passes meanwhile.

A simulated part that is called in a thread may return a future: the call then returns when that is done.
"""

import asyncio
import contextvars
import gc
import heapq
import logging
import sys
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from random import Random
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

_Value = TypeVar("_Value")
_Callback = Callable[..., object]
_MOST_AWAITS = 20
"""Times that a coroutine may await in its ``finally`` blocks after it was closed."""


class SimulatedProcess:
    """One program on one simulated computer."""

    def __init__(self, name: str, address: str = "") -> None:
        self.name = name
        self.address = address
        """The address that its connections come from."""
        self.node = ""
        """The node that it is; empty where there is one service only, or it is something else."""
        self.is_alive = True
        self.kill_after: int | None = None
        """Callbacks that may still run before it is killed; None while nothing is planned."""
        self.on_kill: dict[object, Callable[[], None]] = {}
        """What the rest of the world does when it is killed, such as to break its connections."""
        self.held: list[asyncio.Handle] | None = None
        """What was to run since it was paused; None while it is not."""
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.remains: list[asyncio.Task[Any]] = []
        """Its unfinished tasks, kept so that their ``finally`` does not run before the simulation is over."""
        self.context = contextvars.copy_context()
        self.context.run(_PROCESS.set, self)


_PROCESS: contextvars.ContextVar[SimulatedProcess | None] = contextvars.ContextVar("process", default=None)


def current_process() -> SimulatedProcess | None:
    """Return the process that the running callback belongs to."""
    return _PROCESS.get()


class Stalled(Exception):
    """Nothing is left to do, now or later."""


class Livelock(KeyboardInterrupt):
    """Callbacks call each other again and again, and no time passes. It is of a kind that event loops let through."""


_MOST_AT_ONCE = 50_000
"""Callbacks within a second beyond which a simulation is given up."""
_MANY_CANCELLED = 100
"""Cancelled timers from which on these are removed, where they are more than half of all."""
_SAME_TIME = 1e-9
"""Seconds within which timers go off together."""


class _PlainHandle(asyncio.Handle):
    """A callback. It is made as asyncio makes it, without what its debug mode needs."""

    __slots__ = ()

    def __init__(
        self, callback: _Callback, args: tuple[object, ...], loop: "SimulatedLoop", context: contextvars.Context
    ) -> None:
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None


class _OrderedTimer(asyncio.TimerHandle):
    """A timer that goes off after those of the same time that were set before it. It is made as a plain handle is."""

    __slots__ = ("number",)

    def __init__(
        self,
        when: float,
        number: int,
        callback: _Callback,
        args: tuple[object, ...],
        loop: "SimulatedLoop",
        context: contextvars.Context,
    ) -> None:
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = self._scheduled = False
        self._repr = self._source_traceback = None
        self._when = when
        self.number = number


class Connector(Protocol):
    """Opens and accepts simulated connections."""

    def listen(
        self, address: tuple[str, int], process: SimulatedProcess, make: Callable[[], asyncio.Protocol]
    ) -> None:
        """Let a process accept connections, until ``ignore`` or its end."""

    def ignore(self, address: tuple[str, int], process: SimulatedProcess) -> None:
        """Accept no more connections for that process."""

    async def connect(
        self, protocol: asyncio.BaseProtocol, source: str, target: tuple[str, int]
    ) -> asyncio.BaseTransport:
        """Connect a protocol to a listener; raise OSError where there is no listener."""


class SimulatedSocket:
    """Stands for a socket that listens on a simulated computer."""

    family = 0

    def __init__(self, host: str, port: int) -> None:
        self.address = host, port


class _Accepting:
    """Stands for a server: a process accepts connections, until it is closed."""

    def __init__(self, network: Connector, address: tuple[str, int], process: SimulatedProcess) -> None:
        self._network = network
        self._address = address
        self._process = process

    def close(self) -> None:
        self._network.ignore(self._address, self._process)


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs callbacks in order of their time, and in the order in which they were scheduled."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._seconds = 0.0
        self._random = random
        self._free_at: dict[int, float] = {}
        """When the single thread of an executor has done all that it was given."""
        self.network: Connector | None = None
        self.slowest_call = 0.02
        """Seconds that a call in a thread takes at most."""
        self._extra = 0.0
        self.callbacks = 0
        self._timers = 0
        self._counted_from = 0
        """Number of callbacks when the present second began."""
        self.failures: list[str] = []
        """What reached the loop's exception handler: code that failed and is not awaited."""
        self._killed: list[SimulatedProcess] = []
        """Killed processes, so that nothing of them is collected, and runs its ``finally``, before the end."""
        self.set_exception_handler(self._note_failure)
        self.set_task_factory(_make_task)  # type: ignore[arg-type]  # it is asked for no more than this

    def time(self) -> float:
        return self._seconds

    def _run_once(self) -> None:
        """Run what is ready; where nothing is, let time pass until the next timer goes off.

        It does what asyncio's own does, with timers in tuples, which are compared faster.
        """
        ready, timers = self._ready, self._scheduled  # type: ignore[attr-defined]
        cancelled = self._timer_cancelled_count  # type: ignore[has-type]
        if cancelled > _MANY_CANCELLED and 2 * cancelled > len(timers):
            timers[:] = [timer for timer in timers if not timer[2]._cancelled]  # noqa: SLF001 - as asyncio does
            heapq.heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0][2]._cancelled:  # noqa: SLF001 - as above
            heapq.heappop(timers)[2]._scheduled = False  # noqa: SLF001 - as above
            self._timer_cancelled_count -= 1
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not timers:
                raise Stalled
            self._pass_time(timers[0][0])
        until = self._seconds + _SAME_TIME
        while timers and timers[0][0] < until:
            handle = heapq.heappop(timers)[2]
            handle._scheduled = False  # noqa: SLF001 - as above
            ready.append(handle)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:  # noqa: SLF001 - as above
                self._run_counted(handle)

    def _pass_time(self, when: float) -> None:
        before = self._seconds
        if when > before:
            self._seconds = when
            if int(when) != int(before):
                self._counted_from = self.callbacks

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        context = contextvars.copy_context() if context is None else context
        process = context.get(_PROCESS)
        if process is not None and not process.is_alive:
            return _dropped(self)
        handle = _PlainHandle(callback, args, self, context)
        is_running = process is None or process.held is None
        (self._ready if is_running else process.held).append(handle)  # type: ignore[attr-defined, union-attr]
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        context = contextvars.copy_context() if context is None else context
        self._timers = number = self._timers + 1
        handle = _OrderedTimer(when, number, callback, args, self, context)
        process = context.get(_PROCESS)
        if process is None or (process.is_alive and process.held is None):
            heapq.heappush(self._scheduled, (when, number, handle))  # type: ignore[attr-defined]
            handle._scheduled = True  # noqa: SLF001 - as the loops of asyncio do
        elif process.held is not None:
            process.held.append(handle)
        return handle

    def _schedule(self, handle: _OrderedTimer) -> None:
        heapq.heappush(self._scheduled, (handle.when(), handle.number, handle))  # type: ignore[attr-defined]
        handle._scheduled = True  # noqa: SLF001 - as above

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        when = self._seconds + delay if delay > 0.0 else self._seconds
        return self.call_at(when, callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., _Value], *args: object
    ) -> "asyncio.Future[_Value]":
        """Make the call at a moment of its own; the result arrives at another. Single threads keep their order."""
        answered: asyncio.Future[_Value] = self.create_future()
        begins = self._seconds
        is_single = getattr(executor, "_max_workers", 0) == 1
        if is_single:
            begins = max(begins, self._free_at.get(id(executor), 0.0))
        takes = self._random.random() ** 3 * self.slowest_call
        made = begins + takes * self._random.random()
        if is_single:
            self._free_at[id(executor)] = begins + takes

        def call() -> None:
            self._extra = 0.0
            try:
                value, error = func(*args), None
            except BaseException as raised:  # noqa: BLE001 - it is raised again where the result is awaited
                value, error = None, raised
            if isinstance(value, asyncio.Future):
                value.add_done_callback(settle_later)
                return
            ends = begins + takes + self._extra
            if is_single and self._extra:
                self._free_at[id(executor)] = ends
            self.call_at(ends, settle, value, error)

        def settle(value: _Value | None, error: BaseException | None) -> None:
            if answered.done():
                return
            if error is None:
                answered.set_result(value)  # type: ignore[arg-type]
            else:
                answered.set_exception(error)

        def settle_later(waited: "asyncio.Future[_Value]") -> None:
            error = waited.exception()
            if is_single:
                self._free_at[id(executor)] = self._seconds
            settle(None if error else waited.result(), error)

        self.call_at(made, call)
        return answered

    def delay_result(self, seconds: float) -> None:
        """Let the call in a thread that is being made return so much later."""
        self._extra += seconds

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **_: object
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        process, network = _PROCESS.get(), self.network
        if process is None or network is None:
            raise OSError("there is no network")
        protocol = protocol_factory()
        return await network.connect(protocol, process.address, (host, port)), protocol

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], *, sock: SimulatedSocket, **_: object
    ) -> _Accepting:
        process, network = _PROCESS.get(), self.network
        if process is None or network is None:
            raise OSError("there is no network")
        network.listen(sock.address, process, protocol_factory)
        return _Accepting(network, sock.address, process)

    def spawn(self, process: SimulatedProcess, coroutine: Coroutine[Any, Any, _Value]) -> "asyncio.Task[_Value]":
        """Start a coroutine as a part of a process."""
        return self.create_task(coroutine, context=process.context)

    def kill(self, process: SimulatedProcess) -> None:
        """End a process at once, as SIGKILL or a power failure does."""
        if not process.is_alive:
            return
        process.is_alive = False
        process.remains = [task for task in process.tasks if not task.done()]
        self._killed.append(process)
        process.held = None
        for react in tuple(process.on_kill.values()):
            react()
        for handle in [*self._ready, *(timer[2] for timer in self._scheduled)]:  # type: ignore[attr-defined]
            if _process_of(handle) is process:
                handle.cancel()

    def pause(self, process: SimulatedProcess) -> None:
        """Let nothing of a process run, as SIGSTOP does; what reaches it waits."""
        if process.held is not None or not process.is_alive:
            return
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        timers = (timer[2] for timer in sorted(scheduled))
        process.held = [each for each in (*ready, *timers) if _process_of(each) is process]
        for number, each in enumerate(ready):
            if _process_of(each) is process:
                ready[number] = _dropped(self)  # the loop has counted them
        scheduled[:] = [timer for timer in scheduled if _process_of(timer[2]) is not process]
        heapq.heapify(scheduled)

    def resume(self, process: SimulatedProcess) -> None:
        """Let a paused process go on; timers that have passed go off at once."""
        held, process.held = process.held or [], None
        for handle in held:
            if handle.cancelled() or not process.is_alive:
                continue
            if isinstance(handle, _OrderedTimer):
                self._schedule(handle)
            else:
                self._ready.append(handle)  # type: ignore[attr-defined]

    def dispose(self) -> None:
        """End the simulation: what is left of all processes is thrown away, and what it says on its way is ignored.

        Code of unfinished tasks may run its ``finally`` now; it reaches nothing any more.
        """
        self.set_exception_handler(lambda *_: None)
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        logged = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # coroutines that were never awaited
                for task in asyncio.all_tasks(self):
                    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - no other way
                    _end_now(task)
                self.close()
                self._ready.clear()  # type: ignore[attr-defined]
                self._scheduled.clear()  # type: ignore[attr-defined]
                for process in self._killed:
                    process.remains.clear()
                    process.on_kill.clear()
                self._killed.clear()
                gc.collect()
        finally:
            logging.disable(logged)
            sys.unraisablehook = hook

    def _run_counted(self, handle: asyncio.Handle) -> None:
        """Run a callback, unless its process is dead or is killed just before it."""
        self.callbacks += 1
        if self.callbacks - self._counted_from > _MOST_AT_ONCE:
            raise Livelock(f"no time passes at second {self._seconds:.3f}: {handle!r}"[:600])
        context: contextvars.Context = handle._context  # type: ignore[attr-defined]  # noqa: SLF001 - no other way
        process = context.get(_PROCESS)
        if process is not None:
            if process.kill_after is not None:
                process.kill_after -= 1
                if process.kill_after < 0:
                    process.context.run(self.kill, process)
            if not process.is_alive:
                return
        handle._run()  # noqa: SLF001 - as asyncio does

    def _note_failure(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "future" in context and self._killed:
            return  # its process was killed before it looked at the future
        error = context.get("exception")
        self.failures.append(f"{context.get('message')}: {type(error).__name__}: {error}")

    def _write_to_self(self) -> None:
        pass


def _end_now(task: "asyncio.Task[Any]") -> None:
    """Run the ``finally`` of a task while no loop runs; later it would run within the next simulation."""
    for _ in range(_MOST_AWAITS):
        with suppress(BaseException):
            task.get_coro().close()
            return


def _process_of(handle: asyncio.Handle) -> SimulatedProcess | None:
    return handle._context.get(_PROCESS)  # type: ignore[attr-defined, no-any-return]  # noqa: SLF001 - no other way


def _dropped(loop: asyncio.AbstractEventLoop) -> asyncio.Handle:
    handle = asyncio.Handle(lambda: None, (), loop)
    handle.cancel()
    return handle


def _make_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, _Value],
    *,
    context: contextvars.Context | None = None,
    **options: str,
) -> "asyncio.Task[_Value]":
    process = context.get(_PROCESS) if context is not None else _PROCESS.get()
    task = asyncio.Task(coroutine, loop=loop, context=context, **options)
    if process is not None:
        process.tasks.add(task)
    return task
