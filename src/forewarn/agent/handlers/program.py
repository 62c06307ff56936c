"""Runs a program for a handler: in a process group of its own, bounded in time and in what is kept of its words.

    time left ▶ SIGTERM to the group ▶ grace ▶ SIGKILL to the group ▶ deadline

A call returns when the program has ended, even where processes that it left behind hold its output open.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import IO, NamedTuple

from forewarn.agent.handler import Task
from forewarn.core.errors import ForewarnError

KEPT = 64 * 1024
"""Bytes kept of the end of stderr, and of the beginning of stdout unless more is asked for; the rest is dropped."""
LONGEST = 500
"""Characters of a program's last line that are told."""
_MARGIN = 0.2
"""Seconds before the deadline at which everything is over, so that the answer is in time."""
_STOPPING = 0.3
"""Seconds of grace when the agent itself stops."""
_LOOK_AGAIN = 0.05
_LAST_WORDS = 1.0
"""Seconds after the program's end for threads to hear what it said last; only a process left behind holds them up."""
_DRAIN = 16
"""Reads after the program's end. A pipe holds no more; a process left behind may go on writing for ever."""
_UNKNOWN = -9
"""The exit code of what has not ended."""
_IS_WINDOWS = os.name == "nt"


class ProgramNotStarted(ForewarnError):
    """A program could not be started."""


class HandlerProgramExit(NamedTuple):
    """How a run ended."""

    exit: int
    """The exit code; below zero the signal that killed it."""
    cut_off: str = ""
    """Why it was stopped before it ended by itself; empty if it was not."""
    stdout: str = ""
    stderr: str = ""

    @property
    def problem(self) -> str:
        """What went wrong, in one line; empty if nothing did."""
        said = last_line(self.stderr)
        if self.cut_off:
            how = self.cut_off
        elif self.exit < 0:
            how = f"was killed by signal {-self.exit}"
        elif self.exit:
            how = f"ended with exit code {self.exit}"
        else:
            return ""
        return f"{how}: {said}" if said else how


def run_program(
    argv: Sequence[str],
    task: Task,
    *,
    said: bytes = b"",
    environment: Mapping[str, str] | None = None,
    directory: str | None = None,
    grace: float = 2.0,
    most: int = KEPT,
) -> HandlerProgramExit:
    """Run a program with ``said`` on its stdin, within the time of the task; raise NotRun if it cannot be started."""
    left = (task.deadline - datetime.now(UTC)).total_seconds() - _MARGIN
    # A call with little time gives most of it to the program.
    grace = min(grace, max(left, 0.0) / 4)
    try:
        program = subprocess.Popen(  # noqa: S603 the owner of the VM named it
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            cwd=directory or None,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ProgramNotStarted(_why_not(argv[0], directory, error)) from None
    pipes = _HandlerThreadPipes(program, said, most) if _IS_WINDOWS else _HandlerPipes(program, said, most)
    try:
        cut_off = _wait(program, pipes, task, max(left - grace, 0.0))
        if cut_off:
            _end(program, pipes, _STOPPING if task.stopping.is_set() else grace)
        pipes.drain()
        exit_ = program.poll()
        if exit_ is None:
            # It hangs in the kernel, or is another user's by now; whenever it ends, it is to leave no zombie.
            cut_off = f"{cut_off}, but cannot be killed"
            threading.Thread(target=program.wait, name="reaper", daemon=True).start()
            exit_ = _UNKNOWN
        return HandlerProgramExit(exit_, cut_off, pipes.heard(program.stdout), pipes.heard(program.stderr))
    finally:
        pipes.close()


def last_line(text: str) -> str:
    """Return the last line that says something, without characters that would disturb a terminal."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "".join(each for each in lines[-1].strip() if each.isprintable())[:LONGEST] if lines else ""


def _wait(program: "subprocess.Popen[bytes]", pipes: "_HandlerPipes", task: Task, seconds: float) -> str:
    """Wait for the end; return why it was not waited for any longer, and nothing if it came."""
    until = time.monotonic() + seconds
    while program.poll() is None:
        if task.stopping.is_set():
            return "was stopped before it had ended"
        left = until - time.monotonic()
        if left <= 0:
            return "took too long and was stopped"
        pipes.pump(min(left, _LOOK_AGAIN))
    return ""


def _end(program: "subprocess.Popen[bytes]", pipes: "_HandlerPipes", grace: float) -> None:
    """Ask the whole group to end, then end it."""
    _signal(program, "SIGTERM")
    _ends_within(grace, program, pipes)
    _signal(program, "SIGKILL")
    _ends_within(_MARGIN, program, pipes)


def _ends_within(seconds: float, program: "subprocess.Popen[bytes]", pipes: "_HandlerPipes") -> None:
    until = time.monotonic() + seconds
    while program.poll() is None and (left := until - time.monotonic()) > 0:
        pipes.pump(min(left, _LOOK_AGAIN))


def _signal(program: "subprocess.Popen[bytes]", name: str) -> None:
    if _IS_WINDOWS:
        program.kill()
        return
    # The group outlives its leader: what the program started is ended with it.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, getattr(signal, name))


def _why_not(name: str, directory: str | None, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and directory and not os.path.isdir(directory):  # noqa: PTH112
        return f"{name} could not be run: there is no directory {directory}"
    if isinstance(error, FileNotFoundError):
        return f"there is no program {name}; give its full path"
    if isinstance(error, PermissionError):
        return f"{name} may not be executed; chmod +x it"
    return f"{name} could not be run: {getattr(error, 'strerror', None) or error}"


class _HandlerPipes:
    """The three pipes to a program, none of which can make us wait."""

    def __init__(self, program: "subprocess.Popen[bytes]", said: bytes, most: int) -> None:
        self._program = program
        self._most = most
        self._unsaid = memoryview(said)
        self._heard = {program.stdout: bytearray(), program.stderr: bytearray()}
        self._begin()

    def heard(self, pipe: IO[bytes] | None) -> str:
        return bytes(self._heard[pipe]).decode(errors="replace")

    def drain(self) -> None:
        for _ in range(_DRAIN):
            self.pump(0)

    def close(self) -> None:
        self._selector.close()
        for pipe in (self._program.stdin, *self._heard):
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
                is_open = self._say(pipe) if pipe is self._program.stdin else self._hear(pipe)
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
        for pipe in (self._program.stdin, *self._heard):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                wish = selectors.EVENT_WRITE if pipe is self._program.stdin else selectors.EVENT_READ
                self._selector.register(pipe, wish)

    def _say(self, pipe: IO[bytes]) -> bool:
        self._unsaid = self._unsaid[os.write(pipe.fileno(), self._unsaid) :]
        return bool(self._unsaid)

    def _hear(self, pipe: IO[bytes]) -> bool:
        chunk = os.read(pipe.fileno(), KEPT)
        heard = self._heard[pipe]
        if pipe is self._program.stderr:
            heard += chunk
            del heard[:-KEPT]
        else:
            heard += chunk[: self._most - len(heard)]
        return bool(chunk)


class _HandlerThreadPipes(_HandlerPipes):
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
            for pipe in (self._program.stdin, *self._heard)
        ]
        for thread in self._threads:
            thread.start()

    def _move(self, pipe: IO[bytes]) -> None:
        move = self._say if pipe is self._program.stdin else self._hear
        with suppress(OSError):
            while move(pipe):
                pass
        with suppress(OSError):
            pipe.close()
