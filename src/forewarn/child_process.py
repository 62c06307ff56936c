"""Runs a program: in a session of its own, bounded in time and in what is kept of its output.

    time is over ▶ SIGTERM to the group ▶ grace ▶ SIGKILL to the group ▶ given up

A call returns when the program has ended, even where processes that it left behind hold its output open. Imports the
standard library only, so that a process that does nothing else starts at once.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, NamedTuple

KEPT = 64 * 1024
"""Bytes kept of the end of stderr, and of the beginning of stdout unless more is asked for; the rest is dropped."""
LONGEST = 500
"""Characters kept of a program's last line."""
_STOPPING = 0.3
"""Seconds of grace when the caller itself stops."""
_POLL_INTERVAL = 0.05
_LAST_WORDS = 1.0
"""Seconds after the program's end for threads to hear what it said last; only a process left behind holds them up."""
_DRAIN = 16
"""Reads after the program's end. A pipe holds no more; a process left behind may go on writing for ever."""
_UNKNOWN = -9
"""The exit code of what has not ended."""
_IS_WINDOWS = os.name == "nt"


class ProgramExit(NamedTuple):
    """How a run ended."""

    exit: int
    """The exit code; below zero the signal that killed it."""
    cut_off: str = ""
    """Why it was stopped before it ended by itself; empty if it was not."""
    is_alive: bool = False
    """Whether it could not be killed; the exit code says nothing then."""
    stdout: str = ""
    stderr: str = ""

    @property
    def problem(self) -> str:
        """What went wrong, in one line; empty if nothing did."""
        said = last_line(self.stderr)
        if self.cut_off:
            how = f"{self.cut_off}, but cannot be killed" if self.is_alive else self.cut_off
        elif self.exit < 0:
            how = f"was killed by signal {-self.exit}"
        elif self.exit:
            how = f"ended with exit code {self.exit}"
        else:
            return ""
        return f"{how}: {said}" if said else how


def run(
    argv: Sequence[str],
    seconds: float,
    grace: float,
    kill_wait: float,
    *,
    said: bytes = b"",
    environment: Mapping[str, str] | None = None,
    directory: str | None = None,
    most: int = KEPT,
    is_stopping: Callable[[], bool] = bool,
) -> ProgramExit:
    """Run a program with ``said`` on its stdin; raise OSError or ValueError if it cannot be started.

    After so many seconds, or when ``is_stopping``, its whole process group is asked to end, killed after ``grace``,
    and no longer waited for after ``kill_wait``.
    """
    program = subprocess.Popen(  # noqa: S603 the owner of the machine named it
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=environment,
        cwd=directory or None,
        start_new_session=True,
    )
    pipes = _ThreadPipes(program, said, most) if _IS_WINDOWS else _Pipes(program, said, most)
    try:
        cut_off = _wait(program, pipes, is_stopping, seconds)
        if cut_off:
            _signal(program, "SIGTERM")
            _ends_within(_STOPPING if is_stopping() else grace, program, pipes)
            _signal(program, "SIGKILL")
            _ends_within(kill_wait, program, pipes)
        pipes.drain()
        exit_ = program.poll()
        if exit_ is None:
            # It hangs in the kernel, or is another user's by now; whenever it ends, it is to leave no zombie.
            threading.Thread(target=program.wait, name="reaper", daemon=True).start()
        said_, complained = pipes.received(program.stdout), pipes.received(program.stderr)
        return ProgramExit(_UNKNOWN if exit_ is None else exit_, cut_off, exit_ is None, said_, complained)
    finally:
        pipes.close()


def last_line(text: str) -> str:
    """Return the last line that says something, without characters that would disturb a terminal."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "".join(each for each in lines[-1].strip() if each.isprintable())[:LONGEST] if lines else ""


def _wait(
    program: "subprocess.Popen[bytes]", pipes: "_Pipes", is_stopping: Callable[[], bool], seconds: float
) -> str:
    """Wait for the end; return why it was not waited for any longer, and nothing if it came."""
    until = time.monotonic() + seconds
    while program.poll() is None:
        if is_stopping():
            return "was stopped before it had ended"
        left = until - time.monotonic()
        if left <= 0:
            return "took too long and was stopped"
        pipes.pump(min(left, _POLL_INTERVAL))
    return ""


def _ends_within(seconds: float, program: "subprocess.Popen[bytes]", pipes: "_Pipes") -> None:
    until = time.monotonic() + seconds
    while program.poll() is None and (left := until - time.monotonic()) > 0:
        pipes.pump(min(left, _POLL_INTERVAL))


def _signal(program: "subprocess.Popen[bytes]", name: str) -> None:
    if _IS_WINDOWS:
        program.kill()
        return
    # The group outlives its leader: what the program started is ended with it.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, getattr(signal, name))


class _Pipes:
    """The three pipes to a program, none of which can make us wait."""

    def __init__(self, program: "subprocess.Popen[bytes]", said: bytes, most: int) -> None:
        self._program = program
        self._most = most
        self._unsaid = memoryview(said)
        self._received = {program.stdout: bytearray(), program.stderr: bytearray()}
        self._begin()

    def received(self, pipe: IO[bytes] | None) -> str:
        return bytes(self._received[pipe]).decode(errors="replace")

    def drain(self) -> None:
        for _ in range(_DRAIN):
            self.pump(0)

    def close(self) -> None:
        self._selector.close()
        for pipe in (self._program.stdin, *self._received):
            if pipe is not None:
                pipe.close()

    def pump(self, timeout: float) -> None:
        """Move what can be moved; wait for it at most ``timeout``."""
        if not self._selector.get_map():
            with suppress(subprocess.TimeoutExpired):
                self._program.wait(timeout)
            return
        for key, _ in self._selector.select(timeout):
            pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
            try:
                is_open = self._say(pipe) if pipe is self._program.stdin else self._receive(pipe)
            except BlockingIOError:
                continue
            except OSError:
                is_open = False  # it does not listen
            if not is_open:
                self._selector.unregister(pipe)
                pipe.close()

    def _begin(self) -> None:
        import selectors  # noqa: PLC0415 Windows has none for pipes

        self._selector = selectors.DefaultSelector()
        for pipe in (self._program.stdin, *self._received):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                events = selectors.EVENT_WRITE if pipe is self._program.stdin else selectors.EVENT_READ
                self._selector.register(pipe, events)

    def _say(self, pipe: IO[bytes]) -> bool:
        self._unsaid = self._unsaid[os.write(pipe.fileno(), self._unsaid) :]
        return bool(self._unsaid)

    def _receive(self, pipe: IO[bytes]) -> bool:
        chunk = os.read(pipe.fileno(), KEPT)
        received = self._received[pipe]
        if pipe is self._program.stderr:
            received += chunk
            del received[:-KEPT]
        else:
            received += chunk[: self._most - len(received)]
        return bool(chunk)


class _ThreadPipes(_Pipes):
    """The same where pipes cannot be waited for together: a thread for each, which ends with the pipe."""

    def close(self) -> None:
        """Leave the pipes to their threads: a process left behind may hold them, and closing would wait for it."""

    def drain(self) -> None:
        until = time.monotonic() + _LAST_WORDS
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.0))

    def pump(self, timeout: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._program.wait(timeout)

    def _begin(self) -> None:
        self._threads = [
            threading.Thread(target=self._move, args=(pipe,), daemon=True)
            for pipe in (self._program.stdin, *self._received)
        ]
        for thread in self._threads:
            thread.start()

    def _move(self, pipe: IO[bytes]) -> None:
        move = self._say if pipe is self._program.stdin else self._receive
        with suppress(OSError):
            while move(pipe):
                pass
        with suppress(OSError):
            pipe.close()
