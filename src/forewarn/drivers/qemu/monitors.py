"""QMP connections to QEMU processes, one per monitor socket, kept open.

A monitor serves one client at a time, so the whole driver shares the connection and receives QEMU's events on it. The
QMP library is asynchronous; it runs on an event loop in its own thread.
"""

import asyncio
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from qemu.qmp import ConnectError, ExecInterruptedError, ExecuteError, QMPClient, QMPError, Runstate

from forewarn.core.errors import ForewarnError

LONGEST_GREETING = 15.0
"""Timeout in seconds of the QMP greeting; a QEMU that is loading a guest's memory does not respond meanwhile."""
LONGEST_ANSWER = 20.0
"""Timeout in seconds of a QMP command; a busy QEMU may be writing memory."""
LONGEST_END = 5.0
"""Seconds between the end of the connection and the end of the process."""

_Returned = TypeVar("_Returned")


class MonitorProblem(ForewarnError):
    """A QMP command failed."""


class MonitorAbsent(MonitorProblem):
    """There is no such machine."""


class MonitorDead(MonitorAbsent):
    """The machine's process has ended and left its socket behind."""


class Monitors:
    """QMP connections by socket path. Thread-safe."""

    def __init__(self, tell: Callable[[Path, dict[str, Any] | None], None]) -> None:
        """``tell`` is called with each QMP event, and with None when the process has died."""
        # The driver reports errors itself.
        logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)
        self._tell = tell
        self._connections: dict[Path, _MonitorConnection] = {}
        self._listening: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="qmp", daemon=True)
        self._thread.start()
        self._is_closed = False
        self._events_received = 0
        self._event_received = threading.Condition()

    @property
    def events_received(self) -> int:
        """Number of events received from all machines so far."""
        return self._events_received

    def await_message(self, since: int, seconds: float) -> None:
        """Wait until an event arrives after the first ``since`` ones, at most for ``seconds``."""
        with self._event_received:
            self._event_received.wait_for(lambda: self._events_received != since, seconds)

    def execute(self, path: Path, command: str, **arguments: object) -> Any:  # noqa: ANN401 QMP answers anything
        """Execute a QMP command and return its result; raise MonitorAbsent or MonitorProblem."""
        return self._wait(self._execute(path, command, arguments))

    def open(self, path: Path) -> None:
        """Connect to a machine; raise MonitorAbsent or MonitorProblem."""
        self._wait(self._open(path))

    def open_all(self, paths: Iterable[Path]) -> dict[Path, MonitorProblem]:
        """Connect to machines concurrently; return the errors."""
        return self._wait(self._open_all(paths))

    def knows(self, path: Path) -> bool:
        """Return whether a connection is open."""
        connection = self._connections.get(path)
        return connection is not None and connection.is_open.is_set()

    def await_end(self, path: Path, seconds: float) -> bool:
        """Wait until the connection and the process have ended; return whether they have."""
        return self._wait(self._end_of(path, seconds))

    def close(self) -> None:
        """Close all connections. The machines are not affected."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(LONGEST_GREETING)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LONGEST_GREETING)
        if not self._thread.is_alive():
            self._loop.close()

    def _wait(self, work: Coroutine[object, object, _Returned]) -> _Returned:
        if self._is_closed:
            work.close()
            raise MonitorProblem("the driver is closed")
        future: Future[_Returned] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise MonitorProblem("the driver is closed") from None

    async def _execute(self, path: Path, command: str, arguments: dict[str, object]) -> object:
        connection = await self._open(path)
        try:
            async with asyncio.timeout(LONGEST_ANSWER):
                return await connection.client.execute(command, arguments or None)
        except ExecuteError as error:
            raise MonitorProblem(f"QEMU at {path} rejected {command}: {_line(error)}") from None
        except TimeoutError:
            raise MonitorProblem(f"QEMU at {path} did not answer {command} within {LONGEST_ANSWER:.0f} s") from None
        except (ExecInterruptedError, QMPError, OSError, EOFError):
            if command == "quit":
                return {}  # some close the connection before they answer
            raise MonitorAbsent(f"QEMU at {path} disconnected during {command}: its process has ended") from None

    async def _open(self, path: Path) -> "_MonitorConnection":
        connection = self._connections.get(path)
        if connection is None:
            connection = self._connections[path] = _MonitorConnection()
            try:
                await connection.begin(path)
            except BaseException as error:
                self._connections.pop(path, None)
                connection.is_open.set()
                connection.failure = error
                raise
            listener = asyncio.create_task(self._listen(path, connection))
            self._listening.add(listener)
            listener.add_done_callback(self._listening.discard)
        await connection.is_open.wait()
        if connection.failure:
            raise connection.failure
        return connection

    async def _open_all(self, paths: Iterable[Path]) -> dict[Path, MonitorProblem]:
        new = [path for path in paths if path not in self._connections]
        opened = await asyncio.gather(*map(self._open, new), return_exceptions=True)
        return {path: each for path, each in zip(new, opened, strict=True) if isinstance(each, MonitorProblem)}

    async def _listen(self, path: Path, connection: "_MonitorConnection") -> None:
        """Pass QMP events on until either side closes the connection."""
        closing = asyncio.create_task(self._closing.wait())
        ending = asyncio.create_task(connection.client.runstate_changed())
        receiving = asyncio.create_task(connection.client.events.get())
        while not (ending.done() or closing.done()):
            await asyncio.wait({receiving, ending, closing}, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                self._pass_on(path, dict(receiving.result()))
                receiving = asyncio.create_task(connection.client.events.get())
        ending.cancel()
        receiving.cancel()
        await asyncio.gather(ending, receiving, return_exceptions=True)
        with suppress(Exception):
            await connection.client.disconnect()
        for event in connection.client.events.clear():
            self._pass_on(path, dict(event))
        has_died = await connection.process_ended(closing)
        closing.cancel()
        self._connections.pop(path, None)
        connection.has_ended.set()
        if has_died:
            self._pass_on(path, None)

    def _pass_on(self, path: Path, event: dict[str, Any] | None) -> None:
        self._tell(path, event)
        with self._event_received:
            self._events_received += 1
            self._event_received.notify_all()

    async def _end_of(self, path: Path, seconds: float) -> bool:
        connection = self._connections.get(path)
        if connection is None:
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await connection.has_ended.wait()
        return connection.has_ended.is_set()

    async def _close(self) -> None:
        self._closing.set()
        await asyncio.gather(*self._listening, return_exceptions=True)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class _MonitorConnection:
    """One QMP connection."""

    def __init__(self) -> None:
        self.client = QMPClient("forewarn")
        self.is_open = asyncio.Event()
        self.has_ended = asyncio.Event()
        self.failure: BaseException | None = None
        self._process = -1
        """Process file descriptor of QEMU; -1 if there is none."""

    async def begin(self, path: Path) -> None:
        line = socket.socket(socket.AF_UNIX)
        line.setblocking(False)
        try:
            async with asyncio.timeout(LONGEST_GREETING):
                await asyncio.get_running_loop().sock_connect(line, str(path))
                self._process = _process_behind(line)
                await self.client.connect(line)
        except TimeoutError:
            raise _no_greeting(path) from None
        except (ConnectError, OSError) as error:
            raise _no_connection(path, error) from None
        finally:
            if self.client.runstate is not Runstate.RUNNING:
                line.close()
                self._close_process()
        self.is_open.set()

    async def process_ended(self, closing: asyncio.Task[Any]) -> bool:
        """Wait a little for the process to end after the connection; count it as ended if it cannot be observed."""
        if self._process < 0:
            return not closing.done()
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._process, ended.set)
        waiting = asyncio.create_task(ended.wait())
        await asyncio.wait({waiting, closing}, timeout=LONGEST_END, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        loop.remove_reader(self._process)
        self._close_process()
        return ended.is_set()

    def _close_process(self) -> None:
        if self._process >= 0:
            os.close(self._process)
            self._process = -1


def _process_behind(line: socket.socket) -> int:
    """Return a process file descriptor of the listening process; -1 if there can be none."""
    with suppress(OSError, AttributeError):
        id_, _, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        if id_ > 0:
            return os.pidfd_open(id_)
    return -1


def _no_connection(path: Path, error: Exception) -> MonitorProblem:
    cause = error.exc if isinstance(error, ConnectError) else error
    match cause:
        case asyncio.CancelledError():  # the library's wrapping of our own timeout
            return _no_greeting(path)
        case FileNotFoundError():
            return MonitorAbsent(f"there is no machine at {path}; start it, or correct 'qmp' of driver 'qemu'")
        case ConnectionRefusedError() | EOFError() | ConnectionResetError():
            return MonitorDead(f"the monitor at {path} refuses connections: its process has ended")
        case PermissionError():
            return MonitorProblem(f"no permission to open the monitor at {path}; run as a user that has it")
        case _:
            return MonitorProblem(f"cannot communicate with the monitor at {path}: {_line(cause)}")


def _no_greeting(path: Path) -> MonitorProblem:
    return MonitorProblem(
        f"the monitor at {path} does not respond: another client is connected; give Forewarn its own monitor"
    )


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
