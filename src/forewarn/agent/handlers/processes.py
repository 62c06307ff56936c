"""Finds and signals processes through /proc; a process is identified by its id and start time."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from forewarn.core.errors import ForewarnError

_PROC = Path("/proc")
_NO_PROC = "this machine has no /proc, which is needed to find processes"
_CLOCKS_AGREE = 2.0
"""Seconds by which a process may seem younger than its pid file."""


class ProcessProblem(ForewarnError):
    """A process cannot be found or signalled."""


class Process(msgspec.Struct, frozen=True):
    """One process, identified by id and start time."""

    id: int
    began: str
    """Its start time, in ticks since boot; a later process with the same id has another."""

    @property
    def is_alive(self) -> bool:
        return _read_process(self.id) == self

    def send(self, number: int) -> bool:
        """Signal it; return whether it existed. A later process with the same id is not signalled."""
        try:
            descriptor = os.pidfd_open(self.id)
        except ProcessLookupError:
            return False
        except OSError as error:
            raise ProcessProblem(f"process {self.id} cannot be signalled: {error.strerror}") from None
        try:
            # From here on the descriptor refers to one process, so that the check and the signal agree.
            if not self.is_alive:
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            raise ProcessProblem(
                f"no permission to signal process {self.id}; run the agent as its user, or as root"
            ) from None
        finally:
            os.close(descriptor)
        return True


def in_file(path: Path) -> list[Process]:
    """Return the process of a pid file; none if it has ended, also if a later process has its id."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")[:64]
        written = path.stat().st_mtime
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ProcessProblem(f"{path} cannot be read: {error.strerror}") from None
    words = text.split()
    if not words or not words[0].isascii() or not words[0].isdigit():
        raise ProcessProblem(f"{path} contains no process id; check 'pid_file' of the handler")
    process = _read_process(int(words[0]))
    if process is None or _began_at(process) > written + _CLOCKS_AGREE:
        return []
    return [process]


def named(name: str) -> list[Process]:
    """Return the processes with this program name, without its directory."""
    return _find_processes(
        lambda id_: name in (_text(id_, "comm").rstrip("\n"), _command_line(id_)[0].rpartition("/")[2])
    )


def with_command_line(pattern: str) -> list[Process]:
    """Return the processes with a command line that matches a pattern such as ``*/java *app.jar*``."""
    return _find_processes(lambda id_: fnmatchcase(" ".join(_command_line(id_)), pattern))


def boot_id() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise ProcessProblem(_NO_PROC) from None


def _find_processes(fits: Callable[[int], bool]) -> list[Process]:
    if not (_PROC / "self/stat").exists():
        raise ProcessProblem(_NO_PROC)
    found: list[Process] = []
    for entry in os.listdir(_PROC):  # noqa: PTH208 names alone are asked for
        if entry.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if fits(int(entry)) and (process := _read_process(int(entry))):
                    found.append(process)
    return found


def _read_process(id_: int) -> Process | None:
    try:
        # The name in parentheses may contain spaces and parentheses.
        fields = _text(id_, "stat").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if len(fields) < 20 or fields[0] in "ZX":
        return None  # a zombie
    return Process(id_, fields[19])


def _began_at(process: Process) -> float:
    up = float((_PROC / "uptime").read_text(encoding="ascii").split()[0])
    return time.time() - up + int(process.began) / os.sysconf("SC_CLK_TCK")


def _command_line(id_: int) -> list[str]:
    return _text(id_, "cmdline").rstrip("\0").split("\0")


def _text(id_: int, name: str) -> str:
    return (_PROC / str(id_) / name).read_text(encoding="utf-8", errors="replace")
