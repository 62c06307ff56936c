"""Runs calls that may block, each in a daemon thread of its own.

A call that never returns keeps neither other calls nor the end of the process waiting. Code on the event loop uses it
by ``loop.run_in_executor(THREADS, call)``, so that an event loop that simulates threads sees every such call.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Thread
from typing import ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Value = TypeVar("_Value")


class DaemonThreads(Executor):
    """Starts a thread for each call; ``RuntimeError`` where the system has none left."""

    def submit(
        self, fn: Callable[_Parameters, _Value], /, *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> Future[_Value]:
        future: Future[_Value] = Future()

        def run() -> None:
            future.set_running_or_notify_cancel()
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - it is raised again where the result is awaited
                future.set_exception(error)

        Thread(target=run, name=getattr(fn, "__name__", "call"), daemon=True).start()
        return future


THREADS = DaemonThreads()
