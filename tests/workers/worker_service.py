"""A service with workers as real processes, for tests."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from forewarn.control.bodies import VmOperationBody
from forewarn.control.client import ControlClient
from forewarn.core.errors import ForewarnError
from tests.ports import free_port

FOREWARN = str(Path(sys.executable).parent / "forewarn")
DOCUMENT = "/metadata/scheduledevents?api-version=2020-07-01"
VMS = 50
ALONE = 20
"""How many of them are in no group; the others see each other's events."""
PATIENCE = 60.0


class WorkerService:
    """A service with two workers, its VMs on loopback addresses, and what operators ask of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        vms = [f'[[vm]]\nname = "vm-{n}"\naddress = "127.0.1.{n}"\n' for n in range(1, VMS + 1)]
        vms[ALONE:] = (f'{each}group = "web"\n' for each in vms[ALONE:])
        group = '[[group]]\nname = "web"\nkind = "availability-set"\n'
        (directory / "fleet.toml").write_text(group + "".join(vms))

    def start(self, *more: str) -> None:
        """Start the service, and return when it answers."""
        command = [FOREWARN, "serve", "--data", "data", "--fleet", "fleet.toml", "--control", "off"]
        command += ["--metadata", f"127.0.0.1:{self.port}", "--workers", "2", "--rate-limit", "0", *more]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREWARN_")}
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.directory, stderr=log, env=kept)
        until(self.is_up)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    def workers(self) -> list[int]:
        """Return the processes of the present leader's workers."""
        try:
            found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        except OSError:
            return []
        return [pid for pid in map(int, found) if b"forewarn.workers" in _command(pid)]

    def is_up(self) -> bool:
        """Return whether every worker of the present leader answers; those of an earlier one may, too."""
        try:
            with ControlClient.local(self.directory / "data") as client:
                workers = client.health().workers or ()
        except ForewarnError:
            return False
        return [worker.state for worker in workers] == ["listening"] * 2

    def ask(self, vm: int, method: str = "GET", body: bytes | None = None) -> tuple[int, bytes]:
        """Send one request of a VM on a connection of its own, so that any worker may get it."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10, source_address=(f"127.0.1.{vm}", 0))
        try:
            connection.request(method, DOCUMENT, body, {"Metadata": "true"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def get(self, vm: int) -> tuple[int, Any]:
        status, body = self.ask(vm)
        return status, json.loads(body)

    def approve(self, vm: int, event: str) -> int:
        """Approve an event; return the status, 0 where the connection broke."""
        try:
            return self.ask(vm, "POST", json.dumps({"StartRequests": [{"EventId": event}]}).encode())[0]
        except (OSError, HTTPException):
            return 0

    def restart_vm(self, vm: int) -> str:
        """Announce a restart; return its event."""
        with ControlClient.local(self.directory / "data") as client:
            done = client.operate_vm(f"vm-{vm}", VmOperationBody(operation="restart"))
            return done.announcements[0].event.id

    def doctor(self) -> str:
        """Return what the doctor finds."""
        settings = f'data = "data"\nmetadata = "127.0.0.1:{self.port}"\ncontrol = "off"\nworkers = 2\n'
        (self.directory / "forewarn.toml").write_text(settings)
        command = [FOREWARN, "doctor", "--json"]
        return subprocess.run(command, cwd=self.directory, capture_output=True, text=True, check=False).stdout

    def approved(self) -> set[str]:
        """Return the events that the record says were approved by a VM."""
        with ControlClient.local(self.directory / "data") as client:
            return {line.event.upper() for line in client.history() if line.fact == "approved"}

    def stop(self) -> None:
        if self.process:
            orphans = self.workers()
            self.process.kill()
            self.process.wait(PATIENCE)
            for pid in orphans:
                kill(pid)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def until(is_so: Callable[[], bool], patience: float = PATIENCE) -> float:
    """Wait until something is so; return how long that took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < patience, is_so
        time.sleep(0.02)
    return time.monotonic() - began


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
