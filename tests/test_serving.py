"""The service as a process under a service manager: ready, reloading, watched, stopping, and on passed sockets."""

import json
import os
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPSConnection
from pathlib import Path
from types import SimpleNamespace
from urllib.request import Request, urlopen

import pytest

from forewarn.control.client import ControlClient
from forewarn.serving import ServiceStatus
from tests.control.test_tls import CERTIFY
from tests.ports import free_port
from tests.test_systemd_notify import Manager

pytestmark = pytest.mark.end_to_end

FOREWARN = str(Path(sys.executable).parent / "forewarn")
FLEET = """
[[vm]]
name = "web-0"
address = "127.0.0.1"
"""
DOCUMENT = "/metadata/scheduledevents?api-version=2020-07-01"


class ServingHarness:
    """A service with a manager at the other end of its socket, and the files it reads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.metadata = free_port()
        self.control = free_port()
        self.manager = Manager(f"\0forewarn-test-{os.getpid()}-{self.metadata}")
        self.process: subprocess.Popen[bytes] | None = None
        (directory / "fleet.toml").write_text(FLEET)
        self.configure()

    def configure(self, *lines: str) -> None:
        lines = (
            f'metadata = "127.0.0.1:{self.metadata}"',
            f'control = "127.0.0.1:{self.control}"',
            'fleet = "fleet.toml"',
            *lines,
        )
        (self.directory / "forewarn.toml").write_text("\n".join(lines) + "\n")

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREWARN_")}
        return kept | {"NOTIFY_SOCKET": f"@forewarn-test-{os.getpid()}-{self.metadata}"}

    def start(self, *before: str, **more: str) -> None:
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*before, FOREWARN, "serve"], cwd=self.directory, stderr=log, env=self.environment | more
            )

    def heard(self, word: str) -> str:
        """Return the next notification that begins with a word."""
        while not (said := self.manager.heard()).startswith(word):
            pass
        return said

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def reload(self) -> str:
        """Reload, and return what the manager is told when that is over."""
        self.signal(signal.SIGHUP)
        assert "MONOTONIC_USEC=" in self.heard("RELOADING=1")
        return self.heard("READY=1")

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(60)

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    def renew_certificate(self) -> str:
        subprocess.run(shlex.split(CERTIFY), check=True, capture_output=True, cwd=self.directory)
        return (self.directory / "certificate.pem").read_text()

    def shown_certificate(self) -> str:
        return ssl.get_server_certificate(("127.0.0.1", self.control), timeout=60)

    def get(self, path: str = DOCUMENT, **headers: str) -> str:
        asked = Request(f"http://127.0.0.1:{self.metadata}{path}", headers={"Metadata": "true", **headers})
        with urlopen(asked, timeout=60) as answer:  # noqa: S310
            return str(answer.headers["ETag"])


@contextmanager
def a_service(directory: Path) -> Iterator[ServingHarness]:
    made = ServingHarness(directory)
    try:
        yield made
    finally:
        made.manager.close()
        if made.process:
            made.process.kill()
            made.process.wait(60)
    assert "Traceback" not in made.log


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServingHarness]:
    with a_service(tmp_path) as made:
        yield made


def test_the_manager_hears_of_every_step(service: ServingHarness) -> None:
    """Ready when both planes answer; reloading, and ready again; signs of life; stopping, and the end."""
    service.start(WATCHDOG_USEC="400000")
    ready = service.heard("READY=1")
    assert f"STATUS=answering VMs on http://127.0.0.1:{service.metadata}" in ready
    for port in (service.metadata, service.control):
        socket.create_connection(("127.0.0.1", port)).close()
    with ControlClient.local(service.directory / "forewarn-data") as client:
        assert client.health().warnings == ()
    service.heard("WATCHDOG=1")
    assert service.reload().endswith("; reloaded")
    service.signal(signal.SIGTERM)
    service.heard("STOPPING=1")
    assert service.wait() == 0


def test_a_reload_says_what_waits_and_what_is_wrong(service: ServingHarness) -> None:
    """To the manager, in the log, in health and in the metrics; a mistake leaves the service as it was."""
    service.start()
    service.heard("READY=1")
    service.configure("hurry = 2", 'log_format = "json"')
    (service.directory / "fleet.toml").write_text(FLEET + FLEET.replace("web-0", "web-1").replace(".1", ".2"))
    assert "in force only after a restart of the service: hurry" in service.reload()
    logged = [json.loads(line) for line in service.log.splitlines() if line.startswith("{")]
    assert [each["changed"] for each in logged if each["message"] == "reloaded"] == [["log_format"]]
    with ControlClient.local(service.directory / "forewarn-data") as client:
        assert [vm.name for vm in client.vms()] == ["web-0", "web-1"]

    service.configure("hurry = fast")
    assert "the last reload failed and changed nothing: forewarn.toml, line 4" in service.reload()
    with ControlClient.local(service.directory / "forewarn-data") as client:
        assert "forewarn.toml, line 4" in " ".join(client.health().warnings)

    service.configure()
    assert service.reload().endswith("; reloaded")
    with ControlClient.local(service.directory / "forewarn-data") as client:
        assert client.health().warnings == ()


def test_a_settings_file_that_is_gone_fails_the_reload(service: ServingHarness) -> None:
    """Also the one that was found without being named: its settings do not fall back to the defaults."""
    service.start()
    service.heard("READY=1")
    (service.directory / "forewarn.toml").rename(service.directory / "away.toml")
    assert "the last reload failed and changed nothing: forewarn.toml" in service.reload()
    (service.directory / "away.toml").rename(service.directory / "forewarn.toml")
    assert service.reload().endswith("; reloaded")


def test_a_renewed_certificate_is_used_at_once(service: ServingHarness) -> None:
    """By new connections; one that is open goes on, and a broken file leaves the old one in use."""
    first = service.renew_certificate()
    service.configure('control_certificate = "certificate.pem"', 'control_key = "key.pem"')
    service.start()
    service.heard("READY=1")
    assert service.shown_certificate() == first

    def is_live() -> bool:
        opened.request("GET", "/v1/health/live")
        with opened.getresponse() as answer:
            return bool(answer.read()) and answer.status == 200

    trust = ssl.create_default_context(cafile=service.directory / "certificate.pem")
    opened = HTTPSConnection("localhost", service.control, timeout=60, context=trust)
    assert is_live()
    second = service.renew_certificate()
    assert service.shown_certificate() == first
    service.reload()
    assert service.shown_certificate() == second != first
    assert is_live()  # on the connection that it has, whose certificate is trusted
    opened.close()

    (service.directory / "key.pem").write_text("")
    assert "control_key key.pem cannot be used" in service.reload()
    assert service.shown_certificate() == second


def test_whoever_waits_is_not_disturbed_by_a_reload(service: ServingHarness) -> None:
    """A long poll, a request that has half arrived and an idle connection live on, and are answered."""
    service.start()
    service.heard("READY=1")
    tag = service.get()
    with (
        socket.create_connection(("127.0.0.1", service.metadata), timeout=60) as waiting,
        socket.create_connection(("127.0.0.1", service.metadata), timeout=60) as half,
        socket.create_connection(("127.0.0.1", service.metadata), timeout=60) as idle,
    ):
        head = f"GET {DOCUMENT} HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n"
        waiting.sendall(f"{head}If-None-Match: {tag}\r\nPrefer: wait=300\r\n\r\n".encode())
        half.sendall(head.encode())
        idle.sendall(f"{head}\r\n".encode())
        assert idle.recv(4096).startswith(b"HTTP/1.1 200 ")
        service.configure("rate_limit = 100", "connections = 2")
        service.reload()
        half.sendall(b"\r\n")
        assert half.recv(4096).startswith(b"HTTP/1.1 200 ")
        idle.sendall(f"{head}\r\n".encode())
        assert idle.recv(4096).startswith(b"HTTP/1.1 200 ")
        with socket.create_connection(("127.0.0.1", service.metadata), timeout=60) as fourth:
            fourth.sendall(f"{head}\r\n".encode())
            assert fourth.recv(4096).startswith(b"HTTP/1.1 503 ")
        service.signal(signal.SIGTERM)
        assert b"Preference-Applied: wait" in waiting.recv(4096)
    assert service.wait() == 0


def test_floods_on_both_ports_keep_no_local_operator_out(service: ServingHarness) -> None:
    """Few files, many half-open connections of VMs, strangers and operators: commands and reloads work meanwhile."""
    service.start("prlimit", "--nofile=200")
    service.heard("READY=1")
    with ExitStack() as flood:
        for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            for port in [service.metadata] * 80 + [service.control] * 80:
                caller = flood.enter_context(socket.socket())
                caller.bind((host, 0))
                with suppress(OSError):  # it may be turned away
                    caller.connect(("127.0.0.1", port))
                    caller.sendall(b"GET / HTTP/1.1\r\n")
        with ControlClient.local(service.directory / "forewarn-data") as client:
            assert [vm.name for vm in client.vms()] == ["web-0"]
        assert service.reload().endswith("; reloaded")
    assert "is reduced to 100" in service.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(service: ServingHarness, number: signal.Signals) -> None:
    """Even while answers are owed; the next start goes on from there."""
    service.start()
    service.heard("READY=1")
    with socket.create_connection(("127.0.0.1", service.metadata), timeout=60) as slow:
        slow.sendall(
            b"POST /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n"
        )
        slow.sendall(b"Content-Length: 100\r\n\r\n{")
        time.sleep(0.2)
        service.signal(number)
        service.heard("STOPPING=1")
        service.signal(number)
        assert service.wait() in (-number, 0)
    service.start()
    service.heard("READY=1")


def test_a_second_signal_ends_process_1_of_a_container(service: ServingHarness) -> None:
    """Which the kernel lets no unhandled signal end."""
    service.start("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")
    service.heard("READY=1")
    assert service.process is not None
    outside = service.process.pid
    (first,) = Path(f"/proc/{outside}/task/{outside}/children").read_text().split()
    with socket.create_connection(("127.0.0.1", service.metadata), timeout=60) as slow:
        slow.sendall(f"POST {DOCUMENT} HTTP/1.1\r\nHost: x\r\nMetadata: true\r\nContent-Length: 9\r\n\r\n{{".encode())
        os.kill(int(first), signal.SIGTERM)
        service.heard("STOPPING=1")
        with suppress(ProcessLookupError):
            os.kill(int(first), signal.SIGTERM)
        assert service.wait() in (0, 128 + signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_starts_ends_the_start(tmp_path: Path, number: signal.Signals) -> None:
    """At whatever moment it comes: soon, without a traceback, and the next start works."""
    for pause in (0.0, 0.1, 0.3, 0.5, 0.7, 1.0):
        with a_service(tmp_path) as service:
            service.start()
            wait_for_main(service)
            time.sleep(pause)
            service.signal(number)
            assert service.wait() in (0, -number, 130)
    with a_service(tmp_path) as service:
        service.start()
        service.heard("READY=1")


def test_a_hangup_while_it_starts_is_a_reload_afterwards(service: ServingHarness) -> None:
    """The process is not ended by it."""
    service.start()
    wait_for_main(service)
    while not is_set(service, "SigCgt", signal.SIGHUP):
        service.signal(signal.SIGHUP)
    service.signal(signal.SIGHUP)
    service.heard("READY=1")
    service.heard("RELOADING=1")
    service.heard("READY=1")


def wait_for_main(service: ServingHarness) -> None:
    """Wait until Python has come to our own code, which no longer lets a hangup end it."""
    deadline = time.monotonic() + 60
    while not is_set(service, "SigIgn", signal.SIGHUP) and not is_set(service, "SigCgt", signal.SIGHUP):
        assert time.monotonic() < deadline


def is_set(service: ServingHarness, mask: str, number: signal.Signals) -> bool:
    """Tell what the kernel knows of a process and a signal."""
    assert service.process is not None
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    (bits,) = (line.split()[1] for line in status.splitlines() if line.startswith(f"{mask}:"))
    return bool(int(bits, 16) >> (number - 1) & 1)


def test_passed_sockets_are_used(service: ServingHarness) -> None:
    """As systemd passes them: what came before the start is answered, and a reload renews the certificate on them."""
    data = service.directory / "forewarn-data"
    data.mkdir(mode=0o700)
    first = service.renew_certificate()
    service.configure('control_certificate = "certificate.pem"', 'control_key = "key.pem"')
    names = "metadata:control:control-socket"
    passer = ["systemd-socket-activate", "--fdname", names, "-E", "NOTIFY_SOCKET"]
    passer += ["-l", f"127.0.0.1:{service.metadata}", "-l", f"127.0.0.1:{service.control}"]
    service.start(*passer, "-l", str(data / "control.sock"))
    while not (data / "control.sock").exists():
        time.sleep(0.02)
    (data / "control.sock").chmod(0o600)
    answer: list[str] = []
    early = threading.Thread(target=lambda: answer.append(service.get()))
    early.start()
    service.heard("READY=1")
    early.join(60)
    assert answer == ['"web-0-1"']
    with ControlClient.local(data) as client:
        assert [vm.name for vm in client.vms()] == ["web-0"]
    assert service.shown_certificate() == first
    second = service.renew_certificate()
    assert service.reload().endswith("; reloaded")
    assert service.shown_certificate() == second != first
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    assert (data / "control.sock").exists()


@pytest.mark.parametrize(
    ("names", "settings", "said"),
    [
        ("metadata", ['identity = "tap"'], 'identity = "tap" opens a listener on each tap itself'),
        ("metdata", [], "the passed descriptor 3 has the name 'metdata'; set FileDescriptorName="),
        ("control-socket", [], "the passed descriptor 3 (control-socket) is AF_INET"),
    ],
)
def test_a_passed_socket_that_cannot_be_used_is_refused(
    service: ServingHarness, names: str, settings: list[str], said: str
) -> None:
    """In one sentence, with the remedy."""
    service.configure(*settings)
    service.start("systemd-socket-activate", "--fdname", names, "-l", f"127.0.0.1:{service.metadata}")
    with socket.create_connection(("127.0.0.1", wait_for(service.metadata)), timeout=60):
        assert service.wait() == 2
    assert said in service.log


def test_a_passed_control_socket_for_all_users_is_refused_before_a_guest_is_answered(service: ServingHarness) -> None:
    """Nothing was loaded by then: there is no journal."""
    path = service.directory / "passed.sock"
    service.start("systemd-socket-activate", "--fdname", "control-socket", "-l", str(path))
    while not path.exists():
        time.sleep(0.02)
    path.chmod(0o666)
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
        assert service.wait() == 2
    assert f"at '{path}' lets every user give commands; set SocketMode=0600" in service.log
    assert not (service.directory / "forewarn-data").exists()


def test_a_certificate_that_cannot_be_used_is_refused_before_a_guest_is_answered(service: ServingHarness) -> None:
    """Nothing was loaded by then: there is no journal."""
    service.configure('control_certificate = "absent.pem"')
    service.start()
    assert service.wait() == 2
    assert "cannot be used: No such file or directory" in service.log
    assert not (service.directory / "forewarn-data").exists()


def wait_for(port: int) -> int:
    """Return the port once somebody listens there; a connection to try it would be the first one to be served."""
    deadline = time.monotonic() + 60
    while f":{port:04X} 00000000:0000 0A" not in Path("/proc/net/tcp").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return port


def test_vms_are_answered_before_the_framework_of_the_control_plane_is_loaded() -> None:
    """It takes longest to load: importing the service does not load it."""
    program = "import forewarn.serving, sys; sys.exit('litestar' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


class StatusHarness:
    """The parts that the status of a service is about, and what the manager was told."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self.period = 10.0
        self.append_age = self.stuck_for = 0.0
        self.writer = self

    def status(self, text: str) -> None:
        self.reported.append(text)

    def views(self) -> tuple[object, ...]:
        return (SimpleNamespace(summary="worker 1 answers"),)


def test_the_status_has_the_last_reload_beside_the_workers() -> None:
    """What the workers do does not overwrite it."""
    parts = StatusHarness()
    status = ServiceStatus("answering", parts, parts, [parts], None)  # type: ignore[arg-type, list-item]
    status.reload = "the last reload failed"
    assert status.text == "answering; worker 1 answers; the last reload failed"


def test_the_watchdog_hears_nothing_while_a_commit_is_stuck() -> None:
    """In the journal, or behind a worker that was killed and does not end; the status says which."""
    parts = StatusHarness()
    status = ServiceStatus("answering", parts, parts, [parts], None)  # type: ignore[arg-type, list-item]
    assert status.check_life()
    assert parts.reported == []
    parts.append_age = 12.0
    assert not status.check_life()
    parts.append_age, parts.stuck_for = 0.0, 11.0
    assert not status.check_life()
    assert [each.split("; ")[1] for each in parts.reported] == [
        "an append to the journal has taken 12 s",
        "a commit has waited 11 s for the end of a worker that was killed",
    ]
