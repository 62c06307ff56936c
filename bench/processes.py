"""Processes that are pinned to a core, measured through /proc, and ended by their id whatever happens."""

import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

_TICK = os.sysconf("SC_CLK_TCK")


@contextmanager
def running(
    command: Sequence[str], core: int, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process on one core for as long as the block lasts; what it says goes to ``log``."""
    with log.open("wb") as said:
        process = subprocess.Popen(
            ["taskset", "-c", str(core), *command],
            # Held open and never written to: who reads it waits.
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    try:
        yield process
    finally:
        if process.poll() is not None:
            raise SystemExit(
                f"{' '.join(command)} ended by itself with {process.returncode}; it said: {_last_words(log)}"
            )
        end(process)


def end(process: subprocess.Popen[bytes], patience: float = 30.0) -> None:
    """Ask a process to leave, and insist when it does not."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin:
        process.stdin.close()


def run_on(core: int, command: Sequence[str], timeout: float, given: bytes = b"") -> bytes:
    """Run a program on one core to its end, and return what it printed."""
    done = subprocess.run(
        ["taskset", "-c", str(core), *command], input=given, capture_output=True, check=False, timeout=timeout
    )
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise SystemExit(f"{' '.join(command)} failed: {said}")
    return done.stdout


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module with this very interpreter."""
    return [sys.executable, "-m", module, *arguments]


def with_bytecode(directory: Path) -> dict[str, str]:
    """Return an environment in which Python finds its modules compiled, as those of an installed package are.

    The first process that runs in it compiles them, so its figures do not count.
    """
    keeps = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return keeps | {"PYTHONPYCACHEPREFIX": str(directory)}


def allow_open_files(number: int) -> int:
    """Let this process, and what it starts, open so many files; return how many it may, which can be fewer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= number:
        return number
    is_enough = hard == resource.RLIM_INFINITY or hard >= number
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard if is_enough else number))
    except ValueError:  # only root may raise the hard limit, and not in every container
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    return number


def free_port() -> int:
    """Find a port on loopback that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_listening(port: int, process: subprocess.Popen[bytes], log: Path, patience: float) -> None:
    """Return as soon as the server takes connections; say what it said if it never does."""
    until = time.monotonic() + patience
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.005)
    raise SystemExit(f"The server did not begin to listen; it said: {_last_words(log)}")


def _last_words(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-2000:]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its children so far: user and system, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / _TICK
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()
    return own + sum(cpu_seconds(int(child)) for child in children)


def wait_until_idle(pid: int, patience: float = 60.0) -> None:
    """Return when a process has needed no CPU for a third of a second."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        before = cpu_seconds(pid)
        time.sleep(0.33)
        if cpu_seconds(pid) == before:
            return
    raise SystemExit(f"Process {pid} was still busy after {patience:.0f} s.")


class Effort(msgspec.Struct, frozen=True):
    """What a process has done so far, all its threads together."""

    ticks: int
    """The CPU time that the system charges it with, in clock ticks."""
    seconds: float
    """The same as the scheduler counts it, which is finer."""
    switches: int
    """How often it was put on a core."""

    def since(self, before: "Effort") -> "Effort":
        """Return what was done in between."""
        return Effort(self.ticks - before.ticks, self.seconds - before.seconds, self.switches - before.switches)


def effort_of(pid: int) -> Effort:
    """Read what one process has done."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    threads = [path.read_text("utf-8").split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return Effort(
        int(fields[11]) + int(fields[12]),
        sum(int(thread[0]) for thread in threads) / 1e9,
        sum(int(thread[2]) for thread in threads),
    )


class Memory(msgspec.Struct, frozen=True):
    """What a process holds in memory, in bytes."""

    resident: int
    proportional: int


def memory_of(pid: int) -> Memory:
    """Read the resident and the proportional set size of one process."""
    sizes = {
        key: int(value.split()[0]) * 1024
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").splitlines()[1:]
        for key, _, value in [line.partition(":")]
    }
    return Memory(sizes["Rss"], sizes["Pss"])


def peak_memory(pid: int) -> int:
    """Return the largest resident set size that a process had, in bytes."""
    (line,) = (
        each for each in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines() if each.startswith("VmHWM")
    )
    return int(line.split()[1]) * 1024
