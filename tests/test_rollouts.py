"""Rollouts of a real service that is killed: every host once, in turn, and no promise to a VM is broken."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from forewarn.control.bodies import HostOperationBody, MoveBody, RolloutBody, RolloutTermsBody
from forewarn.control.client import ControlClient
from forewarn.control.rollout_views import RolloutDetail
from forewarn.core.errors import ForewarnError
from forewarn.core.event_types import ANNOUNCEMENTS
from forewarn.core.model import Operation
from forewarn.core.rollouts.model import RolloutOperation
from tests.ports import free_port

pytestmark = pytest.mark.end_to_end

HOSTS = 3
HURRY = 600
NOTICE = {"Freeze": 15 * 60 / HURRY, "Reboot": 15 * 60 / HURRY, "Redeploy": 10 * 60 / HURRY}
"""Seconds."""
SETTINGS = """\
hurry = {hurry}
rate_limit = 0
[drivers.simulated]
reboot = 120
redeploy = 120
"""
"""An impact lasts long enough to be seen from outside."""
DOCUMENT = "/metadata/scheduledevents?api-version=2020-07-01"
FAILURE = ANNOUNCEMENTS[Operation.HOST_FAIL].description
"""What VMs read of a failed host, which keeps no notice and no turn."""


class PolledVm(NamedTuple):
    """A VM of a test; its place in its group is its update domain and its fault domain."""

    group: str
    number: int
    host: int
    address: str

    @property
    def name(self) -> str:
        return f"{self.group}-{self.number}"


def vms_of(**hosts: tuple[int, ...]) -> list[PolledVm]:
    """Return the VMs of groups, for each of which the host of each VM is given."""
    return [
        PolledVm(group, number, host, f"127.0.{place + 1}.{number + 1}")
        for place, (group, there) in enumerate(hosts.items())
        for number, host in enumerate(there)
    ]


def fleet_of(vms: list[PolledVm], quiet: str = "") -> str:
    """Write a fleet file; the maintenance of the group ``quiet`` starts neither today nor tomorrow."""
    written = "".join(f'[[host]]\nname = "h{number}"\n' for number in range(HOSTS))
    days = ",".join(f"{datetime.now(UTC) + timedelta(days=day):%a}" for day in (0, 1))
    for group in dict.fromkeys(vm.group for vm in vms):
        written += f'[[group]]\nname = "{group}"\nkind = "availability-set"\n'
        written += f'quiet_hours = ["{days} 00:00-24:00"]\n' if group == quiet else ""
    return written + "".join(
        f'[[vm]]\nname = "{vm.name}"\ngroup = "{vm.group}"\nhost = "h{vm.host}"\naddress = "{vm.address}"\n'
        f"update_domain = {vm.number}\nfault_domain = {vm.number}\n"
        for vm in vms
    )


@contextmanager
def serving(directory: Path, port: int = 0) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the service; kill it at the end, without a warning."""
    (directory / "forewarn.toml").write_text(SETTINGS.format(hurry=HURRY))
    words = (
        "serve",
        "--data",
        "data",
        "--fleet",
        "fleet.toml",
        "--metadata",
        f"127.0.0.1:{port}",
        "--control",
        "off",
    )
    with (directory / "log").open("ab") as log:
        service = subprocess.Popen([sys.executable, "-m", "forewarn", *words], cwd=directory, stdout=log, stderr=log)
    try:
        yield service
    finally:
        os.kill(service.pid, signal.SIGKILL)
        service.wait()


def shown(directory: Path, seconds: float = 60.0) -> RolloutDetail:
    """Return the rollout, once the service answers."""
    until = time.monotonic() + seconds
    while True:
        try:
            with ControlClient.local(directory / "data") as client:
                return client.rollout("kernel")
        except ForewarnError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def start(directory: Path, terms: RolloutTermsBody, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while True:
        with suppress(ForewarnError), ControlClient.local(directory / "data") as client:
            client.start_rollout(RolloutBody(name="kernel", terms=terms))
            return
        assert time.monotonic() < until, (directory / "log").read_text()
        time.sleep(0.1)


def ended(directory: Path, seconds: float = 120.0) -> RolloutDetail:
    """Return the rollout once it has ended or pauses."""
    wait_for(lambda: shown(directory).state != "running", "the rollout to end or pause", seconds)
    return shown(directory)


def wait_for(is_so: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, f"waited {seconds:g} s for {what}"
        time.sleep(0.1)


class VmPoller:
    """Polls as the VMs of a fleet, approves for those that approve, and notes every promise that is broken."""

    def __init__(self, port: int, vms: list[PolledVm], silent: tuple[str, ...] = (), quiet: str = "") -> None:
        self.broken: list[str] = []
        self.scheduled: set[str] = set()
        """The VMs of events that were seen Scheduled."""
        self._port = port
        self._vms = {vm.name: vm for vm in vms}
        self._silent = silent
        self._quiet = quiet
        self._incarnations: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        """What was read last of each event."""
        self._earliest: dict[str, tuple[float, float]] = {}
        """When each event could start at first, or was seen Started without an approval; and its least notice."""
        self._approved: set[str] = set()
        self._refused: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._over.wait(0.05):
            for vm in self._vms.values():
                with suppress(OSError, HTTPException):  # the service was killed
                    status, document = self._ask(vm, "GET")
                    if status != 200:
                        self.broken.append(f"{vm.name} was answered with {status}: {document!r}")
                        continue
                    self._read(vm.group, json.loads(document), time.time())

    def _approve(self, id_: str, vm: PolledVm) -> None:
        self._approved.add(id_)
        status, _ = self._ask(vm, "POST", json.dumps({"StartRequests": [{"EventId": id_}]}).encode())
        if status != 200:
            self._refused.add(id_)

    def _ask(self, vm: PolledVm, method: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=10, source_address=(vm.address, 0))
        try:
            connection.request(method, DOCUMENT, body, {"Metadata": "true"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _read(self, group: str, document: dict[str, Any], now: float) -> None:
        incarnation = document["DocumentIncarnation"]
        if incarnation < self._incarnations.get(group, 0):
            self.broken.append(f"{group}: incarnation {incarnation} after {self._incarnations[group]}")
        self._incarnations[group] = incarnation
        events = [event for event in document["Events"] if event["Description"] != FAILURE]
        started = [event for event in events if event["EventStatus"] == "Started"]
        if len(domains := {self._vms[name].number for event in started for name in event["Resources"]}) > 1:
            self.broken.append(f"{group}: update domains {domains} are Started together")
        for event in events:
            if event["EventStatus"] == "Started":
                self._check_started(group, event, now)
            else:
                self._check_scheduled(group, event)

    def _check_scheduled(self, group: str, event: dict[str, Any]) -> None:
        id_ = event["EventId"]
        shown = datetime.strptime(event["NotBefore"], "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
        self.scheduled.update(event["Resources"])
        self._not_before[id_] = shown.timestamp()
        self._earliest.setdefault(id_, (shown.timestamp(), NOTICE[event["EventType"]]))
        if id_ in self._refused:  # only an event that has ended may be
            self.broken.append(f"{group}: its approval was refused: {event}")
        if group not in self._silent and id_ not in self._approved:
            self._approve(id_, self._vms[event["Resources"][0]])

    def _check_started(self, group: str, event: dict[str, Any], now: float) -> None:
        id_ = event["EventId"]
        self._earliest.setdefault(id_, (now, NOTICE[event["EventType"]]))
        if group == self._quiet:
            self.broken.append(f"{group}: Started in quiet hours: {event}")
        elif id_ not in self._approved and now < self._not_before.get(id_, 0):
            self.broken.append(f"{group}: Started before NotBefore and without an approval: {event}")

    def check_notice(self, client: ControlClient) -> None:
        """Compare what was read with the announcements; what is decided is shown a moment later, once durable."""
        announced = {line.event.upper(): line.at for line in client.history() if line.fact == "announced"}
        for id_, (earliest, notice) in self._earliest.items():
            if earliest < announced[id_].timestamp() + notice:
                self.broken.append(f"event {id_} had less than {notice} s of notice")


class Shape(NamedTuple):
    """A difficult fleet, what happens on it meanwhile, and how its rollout ends."""

    vms: list[PolledVm]
    terms: RolloutTermsBody
    state: str = "completed"
    reason: str = ""
    silent: tuple[str, ...] = ()
    quiet: str = ""
    meanwhile: Callable[[ControlClient], object] = lambda _: None


def terms_of(operation: RolloutOperation, **more: Any) -> RolloutTermsBody:
    return RolloutTermsBody(operation=operation, all_hosts=True, **more)


def fail_host(client: ControlClient) -> None:
    """Let the host fail that the rollout is at."""
    (current,) = client.rollout("kernel").current
    client.operate_host(current.host, HostOperationBody(operation="fail"))


REBOOT = terms_of(RolloutOperation.REBOOT)
COMMAND = terms_of(RolloutOperation.COMMAND, command="update")
SPREAD = vms_of(web=(0, 1, 2), db=(0, 1, 2))
SHAPES = {
    "all VMs of a group on one host": Shape(vms_of(web=(0, 0, 0), db=(1, 2, 1)), REBOOT),
    "one host with everything": Shape(vms_of(web=(0, 0, 0), db=(0, 0)), COMMAND),
    "VMs that move": Shape(
        SPREAD,
        terms_of(RolloutOperation.REDEPLOY),
        meanwhile=lambda client: [client.move_vm(f"{group}-2", MoveBody(host="h0")) for group in ("web", "db")],
    ),
    "a group that never approves": Shape(SPREAD, REBOOT, silent=("db",)),
    "quiet hours all day": Shape(
        SPREAD,
        terms_of(RolloutOperation.REBOOT, host_limit=2 * HURRY),
        state="paused",
        reason="host h0 failed: it took longer than",
        quiet="db",
    ),
    "a host that fails": Shape(
        SPREAD, REBOOT, state="paused", reason="host h0 failed: ", silent=("web", "db"), meanwhile=fail_host
    ),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_killed_rollout_keeps_every_promise_on_a_difficult_fleet(tmp_path: Path, shape: Shape) -> None:
    """Seen by the VMs: notice, turns, quiet hours and incarnations; the rollout ends, or pauses with its reason."""
    (tmp_path / "fleet.toml").write_text(fleet_of(shape.vms, shape.quiet))
    port = free_port()
    with VmPoller(port, shape.vms, shape.silent, shape.quiet) as poller:
        with serving(tmp_path, port):
            start(tmp_path, shape.terms)
            wait_for(lambda: bool(poller.scheduled), "the first announcement")
            with ControlClient.local(tmp_path / "data") as client:
                shape.meanwhile(client)
        with serving(tmp_path, port):
            found = ended(tmp_path)
            with ControlClient.local(tmp_path / "data") as client:
                poller.check_notice(client)
    assert poller.broken == []
    assert (found.state, found.done) == (shape.state, HOSTS if shape.state == "completed" else 0), found
    assert found.reason.startswith(shape.reason)


def test_a_rollout_that_is_killed_again_and_again_ends_with_every_host_done_once(tmp_path: Path) -> None:
    """What was announced before a kill starts after it; nothing is announced or done twice."""
    (tmp_path / "fleet.toml").write_text(fleet_of(SPREAD))
    with serving(tmp_path):
        start(tmp_path, terms_of(RolloutOperation.REBOOT, settle=60))
    for _ in range(3):
        with serving(tmp_path):
            shown(tmp_path)
            time.sleep(1.0)
    with serving(tmp_path):
        found = ended(tmp_path)
        with ControlClient.local(tmp_path / "data") as client:
            announced = [line.vms for line in client.history(order="oldest") if line.fact == "announced"]
            completed = [line.vms for line in client.history(order="oldest") if line.fact == "completed"]
    assert (found.state, found.done, found.failed) == ("completed", HOSTS, 0)
    names = sorted(vm.name for vm in SPREAD)
    assert sorted(vm for vms in announced for vm in vms) == names
    assert sorted(vm for vms in completed for vm in vms) == names
