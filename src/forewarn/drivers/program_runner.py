"""Runs an operator's program: in a session of its own, bounded in time and in what is kept of its words.

As a process of its own (standard library only, so that it starts at once) it outlives the Forewarn that
started it: it holds the lock of the event's record, and writes there how the program ended.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, NamedTuple, Self

BEGUN = b"begun\n"

KEPT = 64 * 1024
"""Bytes kept of the beginning of stdout and of the end of stderr; the rest is read and dropped."""

LOOK_AGAIN = 0.05
"""Seconds between two looks at whether a program that says nothing has ended."""

DRAIN = 16
"""Reads after the program's end. A pipe holds no more; a process left behind may go on writing for ever."""


class CompletedRun(NamedTuple):
    """How a run ended."""

    exit: int = 0
    """The exit code; below zero the signal that killed it."""
    timed_out: bool = False
    problem: str = ""
    """Why it could not be run at all, or not be stopped."""
    stdout: str = ""
    stderr: str = ""


def run(
    argv: Sequence[str],
    said: bytes,
    timeout: float,
    grace: float,
    environment: Mapping[str, str] | None = None,
) -> CompletedRun:
    """Run a program with ``said`` on its stdin; stop its whole process group when it takes too long.

    Returns when the program has ended, even if processes that it left behind hold its output open.
    """
    try:
        program = subprocess.Popen(  # noqa: S603 the operator named it
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return CompletedRun(problem=f"the program could not be started: {error}")
    with program, _RunnerPipes(program, said) as pipes:
        timed_out = not _ends_within(timeout, program, pipes)
        if timed_out:
            _signal_group(program, signal.SIGTERM)
            _ends_within(grace, program, pipes)
            _signal_group(program, signal.SIGKILL)
            if not _ends_within(max(grace, 1.0), program, pipes):
                # It hangs in the kernel, beyond the reach of signals; do not wait for it for ever.
                program.returncode = -signal.SIGKILL
                return pipes.ended(timed_out=True, problem="took too long and cannot be killed")
        pipes.drain()
        return pipes.ended(exit=program.returncode, timed_out=timed_out)


def _ends_within(seconds: float, program: "subprocess.Popen[bytes]", pipes: "_RunnerPipes") -> bool:
    deadline = time.monotonic() + seconds
    while program.poll() is None:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        pipes.pump(min(left, LOOK_AGAIN))
    return True


def _signal_group(program: "subprocess.Popen[bytes]", number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, number)


class _RunnerPipes:
    """The three pipes to a program, none of which can make us wait."""

    def __init__(self, program: "subprocess.Popen[bytes]", said: bytes) -> None:
        self._unsaid = memoryview(said)
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._selector = selectors.DefaultSelector()
        for pipe, events, move in (
            (program.stdin, selectors.EVENT_WRITE, self._say),
            (program.stdout, selectors.EVENT_READ, self._hear_stdout),
            (program.stderr, selectors.EVENT_READ, self._hear_stderr),
        ):
            assert pipe is not None  # noqa: S101 asked for above
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, events, move)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def pump(self, timeout: float) -> None:
        """Move what can be moved; wait for it at most ``timeout``."""
        for key, _ in self._selector.select(timeout):
            pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
            try:
                is_open = key.data(pipe)
            except BlockingIOError:
                continue
            except OSError:
                is_open = False  # it does not listen
            if not is_open:
                self._selector.unregister(pipe)
                pipe.close()

    def drain(self) -> None:
        for _ in range(DRAIN):
            self.pump(0)

    def ended(self, *, exit: int = 0, timed_out: bool, problem: str = "") -> CompletedRun:
        said, complained = (
            bytes(heard).decode(errors="replace") for heard in (self._stdout[:KEPT], self._stderr[-KEPT:])
        )
        return CompletedRun(exit, timed_out, problem, said, complained)

    def _say(self, pipe: IO[bytes]) -> bool:
        self._unsaid = self._unsaid[os.write(pipe.fileno(), self._unsaid) :]
        return bool(self._unsaid)

    def _hear_stdout(self, pipe: IO[bytes]) -> bool:
        heard = os.read(pipe.fileno(), KEPT)
        if len(self._stdout) < KEPT:
            self._stdout += heard
        return bool(heard)

    def _hear_stderr(self, pipe: IO[bytes]) -> bool:
        heard = os.read(pipe.fileno(), KEPT)
        self._stderr += heard
        del self._stderr[:-KEPT]
        return bool(heard)


def main() -> None:
    """Run what stdin asks for, once it is asked for in whole, and record it."""
    asked = json.load(sys.stdin)
    with os.fdopen(asked["record"], "ab", buffering=0) as record:
        record.write(BEGUN)
        os.fsync(record.fileno())
        ended = run(asked["argv"], asked["said"].encode(), asked["timeout"], asked["grace"])
        record.write(json.dumps(ended).encode() + b"\n")
        os.fsync(record.fileno())


if __name__ == "__main__":
    main()
