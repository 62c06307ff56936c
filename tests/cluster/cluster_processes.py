"""Nodes of a cluster as real processes on a real PostgreSQL: certificates, machines in files, and VMs that ask."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from itertools import product
from pathlib import Path

from forewarn.control.bodies import ClusterView, VmOperationBody
from forewarn.control.client import ControlClient
from forewarn.core.errors import ForewarnError
from forewarn.wire.versions import API_VERSIONS, NEWEST, ApiVersion
from tests.cluster.peers.authority import Authority
from tests.ports import free_port

FOREWARN = str(Path(sys.executable).parent / "forewarn")
ROOT = Path(__file__).parents[2]
DOCUMENT = "/metadata/scheduledevents?api-version="
PATIENCE = 60.0
ENDS_WITH_TESTS = ("setpriv", "--pdeathsig", "KILL", "--")
_BROKEN = (OSError, HTTPException)


class NodeProcess:
    """One node: ``forewarn serve`` with a data directory and ports of its own."""

    def __init__(self, cluster: "ClusterProcesses", name: str) -> None:
        self.name = name
        self.program = [*ENDS_WITH_TESTS, FOREWARN]
        """The command that stands for ``forewarn``."""
        self.host = "127.0.0.1"
        self.port = free_port()
        self.peer_port = free_port()
        self.data = cluster.directory / name
        self.log_file = cluster.directory / f"{name}.log"
        self.is_alone = False
        """Whether it has no address for other nodes."""
        self.process: subprocess.Popen[bytes] | None = None
        self._cluster = cluster

    def start(self, *more: str) -> None:
        """Start the node, and return when it answers."""
        self.launch(*more)
        until(self.is_up)

    def launch(self, *more: str) -> None:
        """Start the node, and do not wait for it."""
        joining = ["--cluster", f"{self.host}:{self.peer_port}", *self._cluster.certificate_of(self)]
        command = [*self.program, "serve", "--journal", self._cluster.journal_of(self), "--node", self.name]
        command += ["--data", str(self.data), "--control", "off", "--rate-limit", "0", "--log-format", "json"]
        command += ["--metadata", f"{self.host}:{self.port}", "--fleet", "fleet.toml", "--config", "forewarn.toml"]
        command += [*([] if self.is_alone else joining), *more]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREWARN_")}
        kept["PYTHONPATH"] = f"{self._cluster.directory}:{ROOT}:{ROOT}/src"
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self._cluster.directory, stderr=log, stdout=log, env=kept)

    @property
    def log(self) -> str:
        return self.log_file.read_text("utf-8") if self.log_file.exists() else ""

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def control(self) -> ControlClient:
        return ControlClient.local(self.data)

    def view(self) -> ClusterView | None:
        """Return what the node says of itself and the others; None where it does not answer."""
        if not self.is_running:
            return None
        try:
            with self.control() as client:
                return client.health().cluster
        except (ForewarnError, *_BROKEN):
            return None

    def is_up(self) -> bool:
        assert self.is_running, f"{self.name} ended: {self.log[-3000:]}"
        return self.view() is not None

    def is_leading(self) -> bool:
        view = self.view()
        return view is not None and view.role == "leading"

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def freeze(self) -> None:
        """Stop the process with SIGSTOP; none of its threads runs any more when this returns."""
        self.signal(signal.SIGSTOP)
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task")
        until(lambda: all(map(_is_stopped, tasks.iterdir())))

    def kill(self) -> None:
        """End the process at once, wherever it is."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)

    def stop(self) -> None:
        """Let the process end in order."""
        if self.process is not None and self.is_running:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            self.process.wait(PATIENCE)

    def ask(
        self,
        vm: int,
        method: str = "GET",
        body: bytes | None = None,
        tag: str = "",
        timeout: float = 10.0,
        version: ApiVersion = NEWEST,
    ) -> tuple[int, bytes, str]:
        """Send one request of a VM; return status, body and ETag."""
        connection = HTTPConnection(self.host, self.port, timeout=timeout, source_address=(f"127.0.1.{vm}", 0))
        headers = {"Metadata": "true"} | ({"If-None-Match": tag} if tag else {})
        try:
            connection.request(method, DOCUMENT + version.name, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.getheader("ETag") or ""
        finally:
            connection.close()

    def document(self, vm: int, version: ApiVersion = NEWEST) -> bytes:
        status, body, _ = self.ask(vm, version=version)
        assert status == 200, body
        return body

    def approve(self, vm: int, event: str) -> int:
        """Approve an event; return the status, 0 where the connection broke."""
        try:
            return self.ask(vm, "POST", json.dumps({"StartRequests": [{"EventId": event}]}).encode())[0]
        except _BROKEN:
            return 0

    def restart_vm(self, vm: int) -> str:
        """Announce a restart; return its event."""
        with self.control() as client:
            done = client.operate_vm(f"vm-{vm}", VmOperationBody(operation="restart"))
            return done.announcements[0].event.id


class ClusterProcesses:
    """Several nodes on one database."""

    def __init__(
        self, directory: Path, journal: str, names: str = "abc", *, vms: int = 20, more: str = "", fences: bool = True
    ) -> None:
        """``journal`` is the setting; ``more`` are further lines of the settings file; ``fences`` is the driver's."""
        self.fences = fences
        self.directory = directory
        self.journal = journal
        self.vms = range(1, vms + 1)
        self.machines = directory / "machines"
        self.machines.mkdir()
        self._authority = Authority(directory / "authority")
        self._certified: set[str] = set()
        group = '[[group]]\nname = "web"\nkind = "availability-set"\n'
        listed = [f'[[vm]]\nname = "vm-{n}"\naddress = "127.0.1.{n}"\ngroup = "web"\n' for n in self.vms]
        (directory / "fleet.toml").write_text(group + "".join(listed), encoding="ascii")
        driver = f'driver = "machines"\n{more}\n[drivers.machines]\ndirectory = "{self.machines}"\n'
        driver += f"fences = {str(fences).lower()}\n"
        (directory / "forewarn.toml").write_text(driver, encoding="ascii")
        plugin = directory / "machines_plugin-1.0.dist-info"
        plugin.mkdir()
        (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: machines_plugin\nVersion: 1.0\n")
        driver_class = "tests.cluster.machine_driver:MachineFilesDriver"
        (plugin / "entry_points.txt").write_text(f"[forewarn.drivers]\nmachines = {driver_class}\n")
        self.nodes = {name: NodeProcess(self, name) for name in names}

    def journal_of(self, node: NodeProcess) -> str:
        """Return the setting ``journal`` of a node."""
        return self.journal

    def certificate_of(self, node: NodeProcess) -> list[str]:
        """Return the flags that name a node's certificate, which is made where it is not there yet."""
        if node.name not in self._certified:
            self._authority.certify(node.name, names=f"IP:{node.host}")
            self._certified.add(node.name)
        paths = {
            "--cluster-certificate": self._authority.path(f"{node.name}.pem"),
            "--cluster-key": self._authority.path(f"{node.name}.key"),
            "--cluster-authority": self._authority.certificate,
        }
        return [part for flag, path in paths.items() for part in (flag, str(path))]

    def start(self) -> None:
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            until(node.is_up)
        self.leader()

    def leader(self) -> NodeProcess:
        """Return the node that leads, once there is one."""
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            for node in self.nodes.values():
                if node.is_leading():
                    return node
            time.sleep(0.02)
        raise AssertionError("no node leads")

    def followers(self) -> list[NodeProcess]:
        leader = self.leader()
        return [node for node in self.nodes.values() if node is not leader and node.is_running]

    def impacts(self, name: str = "done") -> list[tuple[str, int]]:
        """Return event and term of every impact."""
        file = self.machines / name
        lines = file.read_text("ascii").splitlines() if file.exists() else []
        return [(event.upper(), int(term)) for event, term, _, _ in map(str.split, lines)]

    def hold_calls(self) -> None:
        """Let driver calls wait before they reach the machine."""
        (self.machines / "hold").touch()

    def let_calls_go(self) -> None:
        (self.machines / "hold").unlink(missing_ok=True)

    def settle(self) -> None:
        """Wait until every running node holds the same revision, and nothing more happens."""
        running = [node for node in self.nodes.values() if node.is_running]
        until(lambda: len({_revision(node) for node in running}) == 1 and _revision(running[0]) is not None)

    def check_documents(self) -> None:
        """Every running node shows every VM the same bytes, in every api-version."""
        running = [node for node in self.nodes.values() if node.is_running]
        for vm, version in product(self.vms, API_VERSIONS):

            def is_same(vm: int = vm, version: ApiVersion = version) -> bool:
                return len({node.document(vm, version) for node in running}) == 1

            until(is_same, 10)

    def close(self) -> None:
        for node in self.nodes.values():
            node.kill()


def _is_stopped(task: Path) -> bool:
    try:
        return (task / "stat").read_text("ascii").rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return True  # the thread has ended


def _revision(node: NodeProcess) -> int | None:
    try:
        with node.control() as client:
            return client.health().revision
    except (ForewarnError, *_BROKEN):
        return None


def until(is_so: Callable[[], bool], patience: float = PATIENCE) -> float:
    """Wait until something is so; return how long that took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < patience, is_so
        time.sleep(0.02)
    return time.monotonic() - began
