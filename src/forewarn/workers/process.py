"""A worker as its leader has it: a process, and the channel to it."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from forewarn import __version__
from forewarn.workers.channel import MessageChannel, SocketChannel
from forewarn.workers.shared_memory import SharedMemory


class WorkerProcess(Protocol):
    """One process of a worker."""

    @property
    def pid(self) -> int:
        """The id of the process."""

    @property
    def channel(self) -> MessageChannel:
        """The channel to it."""

    def kill(self) -> None:
        """End the process at once, whatever it does. Repeating it does nothing."""


class StartWorker(Protocol):
    """Starts worker processes."""

    async def __call__(
        self, number: int, received: Callable[[bytes], None], ended: Callable[[str], None]
    ) -> WorkerProcess:
        """Start one; ``ended`` is called once, with the reason, when the process is gone for good."""


class ChildProcess:
    """A worker in a child process."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", channel: MessageChannel, ended: Callable[[str], None]
    ) -> None:
        self._process = process
        self.pid = process.pid
        self.channel = channel
        self._ended = ended
        # Readable when the process has ended: by then nothing of it answers any more.
        self._descriptor = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._reap)

    def kill(self) -> None:
        if self._descriptor >= 0:
            self._process.kill()

    def _reap(self) -> None:
        code = self._process.wait()
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        self.channel.close()
        self._ended(f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}")


class ChildProcesses:
    """Starts workers as children of this process; they inherit the shared memory and what is passed to them."""

    def __init__(self, memory: SharedMemory, sockets: Sequence[socket.socket] = ()) -> None:
        self._memory = memory
        self._sockets = sockets
        # The hash of a name is its place in the shared memory: it must be the same in every worker, and secret.
        self._environment = {**os.environ, "PYTHONHASHSEED": str(int.from_bytes(os.urandom(4), "big") or 1)}

    async def start(
        self, number: int, received: Callable[[bytes], None], ended: Callable[[str], None]
    ) -> ChildProcess:
        ours, theirs = socket.socketpair()
        passed = [self._memory.descriptor, *(each.fileno() for each in self._sockets)]
        command = [sys.executable, "-P", "-m", "forewarn.workers"]
        command += map(str, (__version__, number, len(self._memory.workers), theirs.fileno(), *passed))
        with theirs:
            process = subprocess.Popen(  # noqa: S603, ASYNC220 - ourselves; it returns at once
                command,
                stdin=subprocess.DEVNULL,
                env=self._environment,
                pass_fds=(theirs.fileno(), *passed),
            )
        try:
            channel = await SocketChannel.open(ours, received, lambda: None)
        except BaseException:
            process.kill()
            process.wait()
            with suppress(OSError):
                ours.close()
            raise
        return ChildProcess(process, channel, ended)
