"""A cluster that is set up by typing what docs/operate/set-up-a-cluster.md says, in a network namespace.

    <!-- on: nodes -->   the fenced block that follows is run on these machines
    ```sh

The addresses are those of the page. Each machine has ``/etc`` and ``/var`` in a directory of its own. What a machine
would do and this one must not is done by small programs: ``sudo`` changes the user, ``apt-get`` does nothing, and
``systemctl`` starts and stops PostgreSQL; nodes and HAProxy are started by the tests.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

from forewarn import __version__
from tests.cluster.cluster_processes import FOREWARN, NodeProcess, until
from tests.docs.session import Typed, agrees, read
from tests.postgresql import as_postgres, binary

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "operate"
DEPLOY = ROOT / "deploy"
NODES = ("node1", "node2", "node3")
DATABASES = ("db1", "db2", "db3")
ADDRESSES = {"gate": "10.0.0.10", "restored": "10.0.0.24"} | {
    name: f"10.0.0.{first}{n}" for names, first in ((NODES, 1), (DATABASES, 2)) for n, name in enumerate(names, 1)
}
VMS = ("10.0.1.10", "10.0.1.11")
PATIENCE = 60.0
_STEP = re.compile(
    r"^(?:<!-- on: (?P<place>\w+) -->\n+)```(?P<language>sh)\n(?P<script>.*?)^```$"
    r"|^```(?P<console>console)\n(?P<typed>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_PLACES = {"nodes": NODES, "databases": DATABASES, "standbys": DATABASES[1:]}
_SUDO = """#!/bin/sh
if [ "$1" = -u ]; then user=$2; shift 2; fi
if [ "$user" = postgres ]; then cd /; exec setpriv --reuid postgres --regid postgres --clear-groups env "$@"; fi
exec env "$@"
"""
_SYSTEMCTL = """#!/bin/sh
echo "$@" >> $MACHINE/systemctl.log
server() {{
    setpriv --reuid postgres --regid postgres --clear-groups {pg_ctl} --silent --wait -D $PGDATA \\
        -l $MACHINE/postgresql.log \\
        -o "-c config_file=$PGETC/postgresql.conf -c listen_addresses=$ADDRESS -c fsync=off -k $MACHINE" "$@"
}}
cd /
case "$*" in
    *stop\\ postgresql*) server -m fast stop ;;
    *restart\\ postgresql*) server -m fast restart ;;
    *start\\ postgresql*) server start ;;
esac
"""


class Machine:
    """One machine of the page."""

    def __init__(self, cluster: "DocumentedCluster", name: str) -> None:
        self.name = name
        self.address = ADDRESSES.get(name, "")
        self.directory = cluster.directory / name
        self.directory.mkdir(mode=0o755)
        self._cluster = cluster

    def path(self, place: str) -> Path:
        """Return where a file of this machine is."""
        return Path(self.translate(place))

    def translate(self, text: str) -> str:
        """Let a text name the directories of this machine."""
        text = text.replace("/opt/forewarn/share/forewarn", str(DEPLOY)).replace("-o forewarn -g forewarn ", "")
        installed = Path(binary("initdb")).parts[-3]  # the pages have Debian 12's version
        text = text.replace("/postgresql/15/", f"/postgresql/{installed}/")
        return re.sub(r"(?<![\w.])/(etc|var)/", rf"{self.directory}/\1/", text)

    def run(self, script: str, *, is_checked: bool = True) -> str:
        """Type a script; return what it prints."""
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", self.translate(script)],
            cwd=self._cluster.workstation,
            env=self.environment(),
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert not is_checked or done.returncode == 0, f"{self.name}: {script}\n{done.stdout}{done.stderr}"
        self._translate_files()
        return (done.stdout if is_checked else done.stdout + done.stderr).replace(f"{self.directory}/", "/")

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FOREWARN_", "PG", "XDG_"))}
        return kept | {
            "PATH": f"{self._cluster.directory}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self._cluster.workstation),
            "COLUMNS": "200",
            "TZ": "UTC",
            "NAME": self.name,
            "NUMBER": self.name[-1],
            "MACHINE": str(self.directory),
            "ADDRESS": self.address,
            "PGHOST": str(self.directory),
            "PGDATA": str(self.path("/var/lib/postgresql/15/main")),
            "PGETC": str(self.path("/etc/postgresql/15/main")),
            "FOREWARN_CONFIG": str(self.path("/etc/forewarn/forewarn.toml")),
            "FOREWARN_DATA": str(self.path("/var/lib/forewarn")),
        }

    def _translate_files(self) -> None:
        """Let installed files name the directories of this machine, and what cannot be the same on one machine."""
        for path in self.directory.glob("etc/**/*"):
            if path.is_file() and path.suffix in (".conf", ".toml", ".cfg"):
                text = path.read_text("utf-8")
                there = self.translate(text).replace("169.254.169.254:80", f"{self.address}:80")
                if there != text:
                    path.write_text(there, "utf-8")

    def add_postgresql(self) -> None:
        """Do what the installation of Debian's package does: make an empty server."""
        directory, data = self.path("/etc/postgresql/15/main"), self.path("/var/lib/postgresql/15/main")
        (directory / "conf.d").mkdir(parents=True)
        data.parent.mkdir(parents=True)
        files = f"data_directory = '{data}'\nhba_file = '{directory}/pg_hba.conf'\nexternal_pid_file = ''\n"
        (directory / "postgresql.conf").write_text(f"{files}shared_buffers = 32MB\ninclude_dir 'conf.d'\n", "ascii")
        (directory / "pg_hba.conf").write_text("local all all trust\nlocal replication all trust\n", "ascii")
        subprocess.run(["chown", "-R", "postgres:postgres", str(self.directory)], check=True)
        made = as_postgres(binary("initdb"), "--pgdata", str(data), "--auth", "trust", "--no-sync", "--no-locale")
        subprocess.run(made, check=True, capture_output=True, cwd="/")
        self.run("systemctl start postgresql")

    @property
    def asked_of_systemd(self) -> list[str]:
        """What was typed after ``systemctl``."""
        log = self.directory / "systemctl.log"
        return log.read_text("ascii").splitlines() if log.exists() else []


class DocumentedNode(NodeProcess):
    """A node that is started as its unit starts it."""

    def __init__(self, machine: Machine) -> None:
        self.name = machine.name
        self.machine = machine
        self.host, self.port = machine.address, 80
        self.data = machine.path("/var/lib/forewarn")
        self.log_file = machine.directory / "forewarn.log"
        self.process = None

    def launch(self, *more: str) -> None:
        drop_in = (DEPLOY / "cluster" / "forewarn.service.d" / "cluster.conf").read_text("ascii")
        given = dict(re.findall(r"^Environment=(\w+)=(.*)$", drop_in, re.MULTILINE))
        environment = self.machine.environment() | {
            name: str(self.machine.path(value)) for name, value in given.items()
        }
        self.data.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen([FOREWARN, "serve", *more], stderr=log, stdout=log, env=environment)

    def get(self, vm: str) -> int:
        """Ask as a VM does; return the status."""
        connection = HTTPConnection(self.host, self.port, timeout=10, source_address=(vm, 0))
        try:
            connection.request(
                "GET", "/metadata/scheduledevents?api-version=2020-07-01", headers={"Metadata": "true"}
            )
            return connection.getresponse().status
        finally:
            connection.close()


class DocumentedCluster:
    """The machines of the page."""

    def __init__(self) -> None:
        # Not below pytest's directories: the user postgres may not enter those.
        self.directory = Path(tempfile.mkdtemp(prefix="forewarn-cluster-"))
        self.directory.chmod(0o755)
        self.workstation = self.directory / "workstation"
        self.workstation.mkdir()
        for name, script in (
            ("sudo", _SUDO),
            ("apt-get", "#!/bin/sh\n"),
            ("systemctl", _SYSTEMCTL.format(pg_ctl=binary("pg_ctl"))),
        ):
            program = self.directory / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(script, "ascii")
            program.chmod(0o755)
        for path in (DEPLOY / "cluster").glob("*.*"):
            if path.is_file():
                shutil.copy(path, self.workstation)
        self.machines = {name: Machine(self, name) for name in ADDRESSES}
        gate = self.machines["gate"]
        gate.path("/etc/haproxy").mkdir(parents=True)
        # What Debian's package brings; the example must not need it.
        gate.path("/etc/haproxy/haproxy.cfg").write_text("global\n    log stdout format raw local0\n\n", "ascii")
        (self.workstation / "haproxy.cfg").write_text(
            gate.translate((self.workstation / "haproxy.cfg").read_text("ascii")), "ascii"
        )
        self.nodes = {name: DocumentedNode(self.machines[name]) for name in NODES}
        self.balancer: subprocess.Popen[bytes] | None = None

    def set_up(self) -> None:
        """Type the page from beginning to end."""
        for address in (*ADDRESSES.values(), *VMS):
            subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
        for name in DATABASES:
            self.machines[name].add_postgresql()
        self.type_page("set-up-a-cluster.md")

    def type_page(self, name: str) -> None:
        """Write the files of a page, and type its commands in order."""
        page = (PAGES / name).read_text("utf-8")
        for file, text in read(page).files.items():
            (self.workstation / file).write_text(text, "utf-8")
        for step in _STEP.finditer(page):
            if step["console"]:
                for typed in read(step[0]).typed:
                    self.expect(typed)
            else:
                for machine in self._machines_of(step["place"]):
                    self.machines[machine].run(step["script"])
                self._start_services()

    def _machines_of(self, place: str) -> tuple[str, ...]:
        if place == "workstation":
            return ("gate",)
        return _PLACES.get(place, (place,))

    def _start_services(self) -> None:
        """Start what systemd would have started by now."""
        for node in self.nodes.values():
            if "enable --now forewarn" in node.machine.asked_of_systemd and node.process is None:
                node.start()
        gate = self.machines["gate"]
        if "restart haproxy" in gate.asked_of_systemd and self.balancer is None:
            configuration = gate.path("/etc/haproxy/haproxy.cfg")
            self.balancer = subprocess.Popen(["haproxy", "-q", "-db", "-f", str(configuration)])

    def expect(self, typed: Typed, place: str = "node1") -> None:
        """Type a command on a machine until it prints what the page says, for a while."""
        deadline = time.monotonic() + PATIENCE
        while True:
            output = self.machines[place].run(typed.command, is_checked=False)
            printed = output.replace(__version__, "0.1.0").replace(str(self.workstation), "~").splitlines()
            wanted = [line for line in typed.expected if line.strip()]
            if agrees(tuple(wanted), [line for line in printed if line.strip()]):
                return
            assert time.monotonic() < deadline, f"$ {typed.command}\n{printed}\n--- but the page says ---\n{wanted}"
            time.sleep(0.5)

    def leader(self) -> DocumentedNode:
        until(lambda: any(node.is_leading() for node in self.nodes.values()))
        return next(node for node in self.nodes.values() if node.is_leading())

    def followers(self) -> Iterator[DocumentedNode]:
        leader = self.leader()
        return (node for node in self.nodes.values() if node is not leader)

    def close(self) -> None:
        for node in self.nodes.values():
            node.kill()
        if self.balancer:
            self.balancer.kill()
            self.balancer.wait(30)
        for name in (*DATABASES, "restored"):
            self.machines[name].run("systemctl stop postgresql", is_checked=False)
        shutil.rmtree(self.directory, ignore_errors=True)
