"""The compiled load generator: VMs that approve their events, each on a new connection from its own address."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.approvals import Restart, approval_request
from bench.processes import run_on
from bench.wrk import TARGET, Load

IN_FLIGHT = 64
_SOURCE = Path(__file__).with_name("generator.c")


class Generator:
    """The program, compiled into a directory."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("cc") is None:
            raise SystemExit("The load generator is compiled by cc, which is missing: apt-get install gcc libc6-dev")
        self._program = directory / "generator"
        command = ["cc", "-O2", "-Wall", "-Wextra", "-o", str(self._program), str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed: {done.stderr.strip()}")

    def approve(self, core: int, port: int, restarts: Sequence[Restart], target: str = TARGET) -> Load:
        """Let the VMs approve all of these restarts, 64 at a time, on one core."""
        command = [str(self._program), str(port), str(IN_FLIGHT), *around_event(restarts, target)]
        lines = "".join(f"{restart.address} {restart.event}\n" for restart in restarts)
        return read_summary(run_on(core, command, 600, given=lines.encode()))


def around_event(restarts: Sequence[Restart], target: str) -> tuple[str, str]:
    """Return what all requests have before and after the id of the event: ids have the same length."""
    (length,) = {len(restart.event) for restart in restarts}
    mark = "#" * length
    before, _, after = approval_request(mark, target).decode().partition(mark)
    return before, after


def read_summary(printed: bytes) -> Load:
    """Read the line that the generator prints; a refused approval measures nothing."""
    requests, seconds, refused, *first = printed.decode().strip().split(maxsplit=3)
    if int(refused):
        raise SystemExit(f"{refused} of {requests} approvals were refused, the first with: {' '.join(first)}")
    return Load(int(requests), 0, float(seconds))
