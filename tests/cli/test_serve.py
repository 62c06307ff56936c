"""The service as a process: what a new user types, and what goes wrong for one."""

import json
import os
import random
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from forewarn.control.bodies import VmOperationBody
from forewarn.control.client import ControlClient
from forewarn.control.socket_path import short_path
from forewarn.core.errors import Unavailable
from tests.harness import FLEET
from tests.ports import free_port

pytestmark = pytest.mark.end_to_end

BIN = Path(sys.executable).parent
FOREWARN = str(BIN / "forewarn")
# Services run side by side here, and the usual port of the API is one.
ENVIRONMENT = os.environ | {"FOREWARN_CONTROL": "off"}
PATIENCE = 90.0


def forewarn(*arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [FOREWARN, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=cwd,
        env=ENVIRONMENT,
    )


@contextmanager
def running(*arguments: str, cwd: Path, until: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run a service until the test is over; its control socket tells that it answers."""
    with (cwd / "log").open("w", encoding="utf-8") as log:
        service = subprocess.Popen(
            [FOREWARN, *arguments], cwd=cwd, stdout=log, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT
        )
        try:
            deadline = time.monotonic() + PATIENCE
            while not answers(until / "control.sock"):
                assert service.poll() is None, (cwd / "log").read_text(encoding="utf-8")
                assert time.monotonic() < deadline, (cwd / "log").read_text(encoding="utf-8")
                time.sleep(0.02)
            yield service
        finally:
            service.kill()
            service.wait(PATIENCE)


def answers(path: Path) -> bool:
    if not path.exists():
        return False
    with socket.socket(socket.AF_UNIX) as probe, short_path(path) as name:
        return probe.connect_ex(name) == 0


def test_a_service_runs_from_flags_and_stops_when_told(tmp_path: Path) -> None:
    """It applies its fleet file, answers commands, and ends with 0 and without its socket."""
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")
    data = tmp_path / "data"
    endpoint = f"127.0.0.1:{free_port()}"

    arguments = ("serve", "--data", "data", "--metadata", endpoint, "--fleet", "fleet.toml")
    with running(*arguments, cwd=tmp_path, until=data) as service:
        ran = forewarn("--data", "data", "vm", "list", "--json", cwd=tmp_path)
        assert [vm["name"] for vm in json.loads(ran.stdout)] == ["db", "pool_0", "web-0", "web-1"]
        assert stat.S_IMODE((data / "control.sock").stat().st_mode) == 0o600
        assert forewarn("--data", "data", "journal", "verify", cwd=tmp_path).returncode == 0

        second = forewarn("serve", "--data", "data", "--metadata", endpoint, cwd=tmp_path)
        assert second.returncode in {2, 3}
        assert second.stderr.splitlines()[-1].startswith("forewarn: ")

        service.send_signal(signal.SIGTERM)
        assert service.wait(PATIENCE) == 0

    assert not (data / "control.sock").exists()
    assert forewarn("--data", "data", "vm", "list", cwd=tmp_path).returncode == 3
    assert "Traceback" not in (tmp_path / "log").read_text(encoding="utf-8")


@pytest.mark.parametrize(("journal", "is_there"), [("memory:", False), ("sqlite:journal", True)])
def test_the_journal_is_where_the_setting_says(tmp_path: Path, journal: str, *, is_there: bool) -> None:
    """In memory there is none on disk; the control socket is in the data directory all the same."""
    data = tmp_path / "data"
    arguments = ("serve", "--data", "data", "--journal", journal, "--metadata", f"127.0.0.1:{free_port()}")
    with running(*arguments, cwd=tmp_path, until=data):
        assert forewarn("--data", "data", "vm", "list", cwd=tmp_path).returncode == 0
        assert stat.S_IMODE(data.stat().st_mode) == 0o700

    assert (data / "journal" / "journal.sqlite3").exists() is is_there
    assert not (data / "journal.sqlite3").exists()


def test_what_was_done_is_there_after_a_kill(tmp_path: Path) -> None:
    """A fleet, an event and its story; the socket that was left behind is replaced."""
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")
    arguments = ("serve", "--data", "data", "--metadata", f"127.0.0.1:{free_port()}")
    with running(*arguments, cwd=tmp_path, until=tmp_path / "data"):
        forewarn("--data", "data", "fleet", "apply", "fleet.toml", cwd=tmp_path)
        event = json.loads(forewarn("--data", "data", "vm", "freeze", "web-0", "--json", cwd=tmp_path).stdout)
    assert (tmp_path / "data" / "control.sock").exists()

    with running(*arguments, cwd=tmp_path, until=tmp_path / "data"):
        story = json.loads(forewarn("--data", "data", "event", "show", "last", "--json", cwd=tmp_path).stdout)

    assert (story["id"], story["status"]) == (event["id"], "Scheduled")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--hurry", "fast"], "flag --hurry is 'fast', expected a number above 0"),
        (["--config", "absent.toml"], "absent.toml cannot be read: No such file or directory"),
        (["--fleet", "absent.toml"], "absent.toml cannot be read: No such file or directory"),
        (["--driver", "simulatd"], "did you mean 'simulated'?"),
        (
            ["--journal", "sqlit:"],
            "there is no journal 'sqlit' (installed: memory, postgresql, sqlite); did you mean 'sqlite'?",
        ),
        (["--journal", "memory:here"], "journal 'memory' takes no location, but 'here' is given; write memory:"),
        (["--journal", "memory:", "--data", "file"], "file cannot be made (File exists); name another directory"),
        (["--default-vm", "web-0"], "default_vm is 'web-0', but the fleet has no such VM"),
        (["--metadata", "192.0.2.1:8254"], "192.0.2.1"),
        (["--data", "file"], "file"),
    ],
)
def test_what_a_service_cannot_do_is_one_sentence(tmp_path: Path, arguments: list[str], said: str) -> None:
    """No traceback, whatever is asked for."""
    (tmp_path / "file").touch()

    ran = forewarn("serve", "--metadata", f"127.0.0.1:{free_port()}", *arguments, cwd=tmp_path)

    assert ran.returncode in {2, 3}
    assert "Traceback" not in ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("forewarn: ")
    assert said in ran.stderr


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """And nothing is left running."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        endpoint = f"127.0.0.1:{taken.getsockname()[1]}"
        ran = forewarn("serve", "--metadata", endpoint, cwd=tmp_path)

    assert ran.returncode in {2, 3}
    assert ran.stderr.splitlines()[-1].startswith("forewarn: ")
    assert endpoint in ran.stderr


def test_a_control_port_in_use_is_found_before_guests_are_answered(tmp_path: Path) -> None:
    """No fleet file was applied either, and no socket is left."""
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")
    arguments = ("--data", "data", "--fleet", "fleet.toml", "--metadata", f"127.0.0.1:{free_port()}")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        endpoint = f"127.0.0.1:{taken.getsockname()[1]}"
        ran = forewarn("serve", *arguments, "--control", endpoint, cwd=tmp_path)

    assert ran.returncode == 3
    said = f"forewarn: cannot listen for operators on {endpoint}: another program listens there; choose another port"
    assert ran.stderr.splitlines()[-1].startswith(said)
    assert "fleet-changed" not in ran.stderr
    assert not (tmp_path / "data" / "control.sock").exists()


def test_every_line_of_the_demo_works_as_printed(tmp_path: Path) -> None:
    """In one shell, from any directory, in the order in which they stand."""
    endpoint = f"127.0.0.1:{free_port()}"
    log = tmp_path / "log"
    with running("demo", "--metadata", endpoint, "--control", "off", cwd=tmp_path, until=tmp_path / "forewarn-demo"):
        deadline = time.monotonic() + PATIENCE
        while "Stop it with" not in log.read_text(encoding="utf-8"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        lines = re.findall(r"^    (\S.*)$", log.read_text(encoding="utf-8"), re.MULTILINE)
        printed = dict(zip(lines, _shell(lines), strict=True))

    assert "no events are coming" in printed["forewarn events"]
    assert "web-0 will restart at " in printed["forewarn vm restart web-0 --not-before +3m"]
    assert "Reboot of web-0" in printed["forewarn approve --all"]
    assert "approved" in printed["forewarn event show last"]
    document = json.loads(printed[lines[-1]])
    assert ["web-1"] in [event["Resources"] for event in document["Events"]]


def _shell(lines: list[str]) -> list[str]:
    """Type the lines into a shell; return what each of them prints."""
    mark = "--- the next one ---"
    typed = "".join(f"{line} || exit 9\necho '{mark}'\n" for line in lines)
    ran = subprocess.run(["sh"], check=False, input=typed, capture_output=True, text=True, timeout=PATIENCE, cwd="/")
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    assert not ran.stderr
    return ran.stdout.split(mark)[: len(lines)]


def test_nothing_that_was_acknowledged_is_lost_by_a_kill_under_load(tmp_path: Path) -> None:
    """Killed again and again while operators give commands: each event that one was told of is there afterwards."""
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")
    arguments = ("serve", "--data", "data", "--metadata", f"127.0.0.1:{free_port()}", "--fleet", "fleet.toml")
    acknowledged: list[str] = []
    chance = random.Random(0)

    def freeze_for_ever() -> None:
        with suppress(Unavailable), ControlClient.local(tmp_path / "data") as client:
            while True:
                result = client.operate_vm("web-0", VmOperationBody(operation="freeze"))
                acknowledged.extend(each.event.id for each in result.announcements)

    for _ in range(4):
        with running(*arguments, cwd=tmp_path, until=tmp_path / "data") as service:
            operators = [threading.Thread(target=freeze_for_ever) for _ in range(4)]
            before, deadline = len(acknowledged), time.monotonic() + PATIENCE
            for operator in operators:
                operator.start()
            while len(acknowledged) < before + 8:
                assert time.monotonic() < deadline, (tmp_path / "log").read_text(encoding="utf-8")
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.4))
            service.kill()
            for operator in operators:
                operator.join(PATIENCE)

    with (
        running(*arguments, cwd=tmp_path, until=tmp_path / "data"),
        ControlClient.local(tmp_path / "data") as client,
    ):
        kept = {event.id for event in client.events()}

    assert set(acknowledged) <= kept


def test_a_demo_starts_again_where_one_was_killed(tmp_path: Path) -> None:
    """With what happened in it: also where its own VM was deleted; it ends with its terminal."""
    arguments = ("demo", "--metadata", f"127.0.0.1:{free_port()}", "--control", "off")
    directory = tmp_path / "forewarn-demo"
    with running(*arguments, cwd=tmp_path, until=directory):
        assert forewarn("--data", str(directory), "vm", "delete", "web-0", "--yes").returncode == 0
        second = forewarn(*arguments, cwd=tmp_path)
        assert second.returncode == 3
        assert "is in use by the process with id" in second.stderr

    with running(*arguments, cwd=tmp_path, until=directory) as demo:
        demo.send_signal(signal.SIGHUP)
        assert demo.wait(PATIENCE) == 0
    assert "Traceback" not in (tmp_path / "log").read_text(encoding="utf-8")
