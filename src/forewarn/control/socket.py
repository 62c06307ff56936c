"""The control socket: a unix socket in the data directory, guarded by file permissions, that answers operators."""

import asyncio
import os
import pwd
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path

import msgspec

from forewarn.control.calls import Answer, Calls
from forewarn.control.difference import Difference
from forewarn.control.messages import LONGEST_LINE, AnyCall, More, show_error
from forewarn.control.place import reachable, socket_path
from forewarn.core.errors import BadInput, ForewarnError, Unavailable
from forewarn.core.model import Caller, CallerKind

_PATIENCE = 5.0
"""Seconds that answers may still take when the service stops."""
_decode = msgspec.json.Decoder(AnyCall).decode


class ControlSocket:
    """Listens for operators on this machine."""

    def __init__(self, directory: Path, calls: Calls) -> None:
        self._path = socket_path(directory)
        self._calls = calls
        self._idle: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._identity = (0, 0)

    async def open(self) -> None:
        """Begin to listen; raise what is in the way."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with reachable(self._path) as name:
                _remove_stale(self._path, name)
                _bind(listener, name)
            found = self._path.lstat()
        except OSError as error:
            listener.close()
            raise BadInput(
                f"{self._path} cannot be made: {error.strerror or error}; give a directory you may write to"
            ) from None
        except ForewarnError:
            listener.close()
            raise
        self._identity = (found.st_dev, found.st_ino)
        self._server = await asyncio.start_unix_server(self._converse, sock=listener, limit=LONGEST_LINE)

    async def close(self) -> None:
        """Take the socket away, and let what is being answered be answered."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        with suppress(OSError):
            found = self._path.lstat()
            if (found.st_dev, found.st_ino) == self._identity:
                self._path.unlink()
        for conversation in self._idle:
            conversation.cancel()
        if self._answering:
            await asyncio.wait(self._answering, timeout=_PATIENCE)
        for conversation in self._answering:
            conversation.cancel()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = asyncio.current_task()
        if conversation is None:
            raise RuntimeError("a conversation is a task of its own")
        self._idle.add(conversation)
        try:
            by = _peer(writer.get_extra_info("socket"))
            more: list[Difference] = []
            while self._server is not None and (line := await reader.readline()):
                self._idle.discard(conversation)
                self._answering.add(conversation)
                if not await self._take(line, by, more, writer):
                    more = []
                self._answering.discard(conversation)
                self._idle.add(conversation)
        except ValueError:
            message = f"a line is longer than {LONGEST_LINE} bytes; send the change in slices"
            _write(writer, {"error": show_error(BadInput(message))})
        except (ConnectionError, asyncio.CancelledError):
            pass  # the operator has gone, or the service stops
        finally:
            self._idle.discard(conversation)
            self._answering.discard(conversation)
            writer.close()

    async def _take(self, line: bytes, by: Caller, more: list[Difference], writer: asyncio.StreamWriter) -> bool:
        """Answer one line; return whether it is only a slice of what is still to come."""
        try:
            call = _decode(line)
            if isinstance(call, More):
                more.append(call.change)
                return True
            await _tell(await self._calls.answer(call, by, more), writer)
        except msgspec.DecodeError as error:
            _write(writer, {"error": show_error(BadInput(f"the call cannot be understood: {error}"))})
        except ForewarnError as error:
            _write(writer, {"error": show_error(error)})
        await writer.drain()
        return False


async def _tell(answer: Answer, writer: asyncio.StreamWriter) -> None:
    for part in answer.parts:
        _write(writer, {"part": part})
        await writer.drain()
        await asyncio.sleep(0)  # VMs are answered between two slices
    _write(writer, {"ok": answer.ok})


def _write(writer: asyncio.StreamWriter, line: dict[str, object]) -> None:
    writer.write(msgspec.json.encode(line) + b"\n")


def _bind(listener: socket.socket, name: str) -> None:
    """Make the socket such that nobody else could open it even for a moment."""
    mask = os.umask(0o177)
    try:
        listener.bind(name)
    finally:
        os.umask(mask)
    listener.setblocking(False)


def _remove_stale(path: Path, name: str) -> None:
    """Remove a socket that a service left behind, and nothing else."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise BadInput(f"{path} is in the way and is not a socket; move it elsewhere")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(name)
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass  # somebody listens, with many waiting
    raise Unavailable(f"another service answers on {path}; stop it, or give another --data")


def _peer(connection: socket.socket) -> Caller:
    """Find out who is at the other end from the system, which cannot be lied to."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    else:
        uid = os.getuid()  # the file's permissions let nobody else in, but for root
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid {uid}"
    return Caller(CallerKind.OPERATOR, name, "control.sock")
