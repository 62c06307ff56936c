"""The service's units for systemd: valid, hardened, and started by a real systemd."""

import re
import signal
import site
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

import forewarn
from forewarn.cli.root import EXIT_CODES
from forewarn.core.errors import BadInput
from forewarn.socket_activation import NAMES
from tests.agent.handlers.systemd_machine import PATIENCE, SystemdMachine
from tests.ports import free_port

DEPLOY = Path(__file__).parents[2] / "deploy" / "systemd"
UNIT = (DEPLOY / "forewarn.service").read_text("utf-8")
SOCKETS = sorted(DEPLOY.glob("*.socket"))
DROP_INS = sorted((DEPLOY / "forewarn.service.d").glob("*.conf"))
PYTHON = f"/run/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"


def said(key: str, unit: str = UNIT) -> str:
    """Return what a unit says of a key, the last time it does."""
    return str(re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)[-1])


def analyzed(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["systemd-analyze", *words], check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.end_to_end
def test_systemd_finds_the_unit_hardened() -> None:
    """Its exposure, as systemd counts it, is no more than 2.0 of 10; the agent's is 2.8."""
    checked = analyzed("security", "--offline=yes", "--threshold=20", "--no-pager", DEPLOY / "forewarn.service")

    assert checked.returncode == 0, checked.stdout


@pytest.mark.end_to_end
@pytest.mark.parametrize("drop_in", [None, *DROP_INS], ids=lambda path: path.name if path else "alone")
def test_systemd_accepts_the_units(tmp_path: Path, drop_in: Path | None) -> None:
    """Without an error, and without a warning: alone, with its sockets, and with what a driver needs."""
    (tmp_path / "forewarn.service").write_text(UNIT)
    for path in SOCKETS:
        (tmp_path / path.name).write_text(path.read_text("utf-8"))
    if drop_in:
        (tmp_path / "forewarn.service.d").mkdir()
        (tmp_path / "forewarn.service.d" / drop_in.name).write_text(drop_in.read_text("utf-8"))
    checked = analyzed("verify", "--man=no", *tmp_path.glob("forewarn*.s*t"), tmp_path / "forewarn.service")

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_the_unit_says_what_the_service_does() -> None:
    """It is ready when it says so, watched, reloaded; wrong settings are not tried again; its files are its own."""
    assert (said("Type"), said("ExecReload")) == ("notify", "/bin/kill -HUP $MAINPID")
    assert said("RestartPreventExitStatus") == str(EXIT_CODES[BadInput])
    assert (said("StateDirectory"), said("StateDirectoryMode"), said("UMask")) == ("forewarn", "0700", "0077")


def test_the_sockets_are_passed_by_the_names_that_the_service_knows() -> None:
    """And the one for commands is its owner's alone."""
    assert {said("FileDescriptorName", path.read_text("utf-8")) for path in SOCKETS} <= set(NAMES)
    assert said("SocketMode", (DEPLOY / "forewarn-control.socket").read_text("utf-8")) == "0600"


def test_the_unit_tells_of_every_driver_what_it_needs() -> None:
    """The files that it names are there."""
    table = UNIT.partition("# driver ")[2].partition("# What it cannot have")[0]
    kinds = {each.name for each in entry_points(group="forewarn.drivers")}

    assert {kind for kind in kinds if not re.search(rf"\b{kind}\b", table)} == set()
    assert set(re.findall(r"\w[\w-]*\.conf", table)) == {path.name for path in DROP_INS}


FLEET = """
[[vm]]
name = "web-0"
address = "127.0.0.1"
"""


class SystemdHarness:
    """A systemd with the service's units, as they are delivered but for places and names of this machine."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        # The unit sees neither homes nor /tmp, and Python, its packages and the checkout may be there.
        packages = [each for each in site.getsitepackages() if Path(each).is_dir()]
        found = [str(Path(forewarn.__file__).parents[1]), *packages]
        places = {sys.base_prefix: "/run/python"} | {each: f"/run/path-{n}" for n, each in enumerate(found)}
        run = f"{PYTHON} -P -m forewarn"
        changes = {
            r"^ExecStart=.*": f"ExecStart={run} serve --config /run/units/forewarn.toml --data /var/lib/forewarn\n"
            f"ExecStartPost={run}.journal.sqlite.snapshot_process /var/lib/forewarn 60\n"
            "StandardError=append:/run/log\n"
            f"Environment=LD_LIBRARY_PATH=/run/python/lib PYTHONPATH={':'.join(places[each] for each in found)}",
            r"^(User|Group|Wants|After)=.*\n": "",
            r"^WorkingDirectory=.*": "User=nobody\nGroup=nogroup\nWorkingDirectory=/run/units",
            r"^WatchdogSec=.*": "WatchdogSec=3s",
        }
        unit = UNIT
        for pattern, text in changes.items():
            unit = re.sub(pattern, text, unit, flags=re.MULTILINE)
        files = {"forewarn.service": unit, "forewarn.toml": self.settings(), "fleet.toml": FLEET}
        for path in SOCKETS:
            text = path.read_text("utf-8").replace("169.254.169.254:80", f"127.0.0.1:{self.port}")
            files[path.name] = re.sub(r"Socket(User|Group)=.*", "", text).replace(
                "SocketMode", "SocketUser=nobody\nSocketMode"
            )
        self.machine = SystemdMachine(directory, files, places)

    def settings(self) -> str:
        return f'metadata = "127.0.0.1:{self.port}"\ncontrol = "off"\nfleet = "fleet.toml"\n'

    def add_drop_in(self, name: str) -> None:
        """Install a drop-in of the service."""
        text = (DEPLOY / "forewarn.service.d" / name).read_text("utf-8")
        write = 'mkdir -p /run/units/forewarn.service.d && printf %s "$1" > "/run/units/forewarn.service.d/$0"'
        self.machine.run("sh", "-c", write, name, text)
        self.machine.call("daemon-reload")

    def has_workers(self, count: int) -> None:
        """Fail unless there are so many of them."""
        self.machine.run("sh", "-c", f"test $(grep -l '[f]orewarn.workers' /proc/[0-9]*/cmdline | wc -l) = {count}")

    def get(self) -> int:
        url = f"http://127.0.0.1:{self.port}/metadata/scheduledevents?api-version=2020-07-01"
        with urlopen(Request(url, headers={"Metadata": "true"}), timeout=PATIENCE) as answer:
            return int(answer.status)

    def status(self) -> str:
        return self.machine.property("forewarn", "StatusText")


@pytest.fixture
def site_(tmp_path: Path) -> Iterator[SystemdHarness]:
    made = SystemdHarness(tmp_path / "units")
    with made.machine:
        yield made


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.end_to_end
def test_a_real_systemd_starts_reloads_watches_and_stops_it(site_: SystemdHarness) -> None:
    """Under all the rules of its unit, as a user of its own; its snapshot process lives under them too."""
    machine = site_.machine
    machine.call("start", "forewarn")
    assert site_.get() == 200
    assert site_.status().startswith("answering VMs on ")
    process = machine.property("forewarn", "MainPID")

    machine.call("reload", "forewarn")
    eventually(lambda: site_.status().endswith("reloaded"))
    machine.run("sh", "-c", "echo rate_limit = fast >> /run/units/forewarn.toml")
    machine.call("reload", "forewarn")
    eventually(lambda: "forewarn.toml, line 4" in site_.status())
    assert machine.property("forewarn", "MainPID") == process
    machine.run("sh", "-c", "test $(stat -c %a /var/lib/forewarn) = 700")
    machine.run("sh", "-c", "! find /var/lib/forewarn -type f -perm /077 | grep .")

    machine.run("sed", "-i", "/rate_limit/d", "/run/units/forewarn.toml")
    machine.run("kill", f"-{signal.SIGSTOP.value}", process)
    eventually(lambda: machine.property("forewarn", "MainPID") not in ("0", process))
    eventually(lambda: machine.state("forewarn") == "active")
    assert site_.get() == 200
    machine.call("stop", "forewarn")
    assert machine.property("forewarn", "Result") == "success"


@pytest.mark.end_to_end
def test_a_real_systemd_passes_it_sockets(site_: SystemdHarness) -> None:
    """A guest's question starts it; one that comes while it restarts is answered, and the socket file stays."""
    machine = site_.machine
    machine.run("mkdir", "/var/lib")
    machine.call("start", *(path.name for path in SOCKETS))
    assert machine.state("forewarn") == "inactive"
    assert site_.get() == 200
    machine.call("restart", "--no-block", "forewarn")
    assert site_.get() == 200
    machine.run("test", "-S", "/var/lib/forewarn/control.sock")
    eventually(lambda: machine.state("forewarn") == "active")
    machine.call("stop", *(path.name for path in SOCKETS), "forewarn")
    machine.run("test", "!", "-e", "/var/lib/forewarn/control.sock")


@pytest.mark.end_to_end
def test_workers_answer_until_systemd_has_started_the_next_leader(site_: SystemdHarness) -> None:
    """With their drop-in a crash of the leader leaves them; the next leader, or a stop, ends them."""
    machine = site_.machine
    site_.add_drop_in("workers.conf")
    machine.run("sh", "-c", "echo workers = 2 >> /run/units/forewarn.toml")
    machine.call("start", "forewarn")
    assert site_.get() == 200
    process = machine.property("forewarn", "MainPID")
    machine.run("kill", "-KILL", process)
    eventually(lambda: machine.property("forewarn", "SubState") == "auto-restart")
    assert [site_.get() for _ in range(10)] == [200] * 10
    assert machine.property("forewarn", "SubState") == "auto-restart"
    eventually(lambda: machine.state("forewarn") == "active")
    assert site_.get() == 200
    site_.has_workers(2)
    machine.call("stop", "forewarn")
    site_.has_workers(0)
    assert machine.property("forewarn", "Result") == "success"
