"""Workers as real processes: they answer together, and whichever of them ends, nothing is lost or shown backwards."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from forewarn import __version__
from forewarn.control.client import ControlClient
from forewarn.workers.messages import OtherRelease, decode_for_leader
from tests.workers.site import DOCUMENT, PATIENCE, Site, is_gone, until

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    try:
        yield made
    finally:
        made.stop()
    assert "Traceback" not in made.log


def test_what_was_answered_is_shown_by_every_worker(site: Site) -> None:
    """A restart that was announced, and an approval that was answered, are in the next document of each worker."""
    site.start()
    for vm in range(1, 11):
        assert site.get(vm)[0] == 200
        event = site.restart_vm(vm)
        shown = [site.get(vm)[1] for _ in range(10)]
        assert {each["Events"][0]["EventId"] for each in shown} == {event}
        assert site.approve(vm, event) == 200
        shown = [site.get(vm)[1] for _ in range(10)]
        assert {event["EventStatus"] for each in shown for event in each["Events"]} <= {"Started"}


def test_an_operator_is_shown_each_worker(site: Site) -> None:
    """The doctor and the health name processes, revisions, connections and ages."""
    site.start()
    found = site.doctor()
    for number, pid in enumerate(site.workers(), 1):
        assert f"worker {number} (process {pid}) answers at revision" in found
    assert f"the service listens on 127.0.0.1:{site.port}" in found
    with ControlClient.local(site.directory / "data") as client:
        workers = client.health().workers
    assert workers is not None
    assert [worker.state for worker in workers] == ["listening", "listening"]


def test_a_worker_that_is_killed_is_replaced(site: Site) -> None:
    """The other one answers meanwhile, and commands are carried out."""
    site.start()
    first, second = site.workers()
    os.kill(first, signal.SIGKILL)
    site.restart_vm(1)
    until(lambda: len(site.workers()) == 2 and second in site.workers() and first not in site.workers())
    assert "a worker ended and is replaced" in site.log


def test_a_worker_that_is_stopped_delays_a_commit_by_about_a_second(site: Site) -> None:
    """It is killed; what the others show has been applied by all that are left."""
    site.start()
    site.get(1)
    stopped = site.workers()[0]
    os.kill(stopped, signal.SIGSTOP)
    began = time.monotonic()
    event = site.restart_vm(1)
    assert 0.9 <= time.monotonic() - began < 10.0
    assert is_gone(stopped)
    assert site.get(1)[1]["Events"][0]["EventId"] == event
    until(lambda: len(site.workers()) == 2)


def test_a_worker_that_is_stopped_is_replaced_without_a_commit(site: Site) -> None:
    """Connections that the kernel gave it hang: nothing else would tell the leader."""
    site.start()
    stopped = site.workers()[0]
    os.kill(stopped, signal.SIGSTOP)
    until(lambda: is_gone(stopped))
    until(site.is_up)
    assert "a worker ended and is replaced" in site.log


def test_a_worker_of_another_release_says_so_and_ends() -> None:
    """Before it reads a message of its leader, which it could misread."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-P", "-m", "forewarn.workers", "0.0.1", "0", "1", str(theirs.fileno()), "0"]
        subprocess.run(command, pass_fds=(theirs.fileno(),), check=True, timeout=PATIENCE)
        length = int.from_bytes(ours.recv(4), "big")
        assert decode_for_leader(ours.recv(length)) == OtherRelease(__version__)


def test_without_a_leader_workers_answer_for_the_time_that_is_set(site: Site) -> None:
    """A GET gets what is known, an approval 503; after the time that is set the workers end."""
    site.start("--leader-timeout", "6s")
    site.get(1)
    event = site.restart_vm(1)
    orphans = site.workers()
    os.kill(site.pid, signal.SIGKILL)
    assert site.process is not None
    site.process.wait(PATIENCE)
    assert site.get(1)[1]["Events"][0]["EventId"] == event
    until(lambda: site.approve(1, event) == 503)
    until((site.directory / "data" / "worker-1.prom").exists)
    until(lambda: all(map(is_gone, orphans)))


def test_a_new_leader_ends_the_workers_of_the_old_one_before_its_own_answer(site: Site) -> None:
    """So that nobody is shown old beside new; nothing that was answered is lost."""
    site.start("--leader-timeout", "10m")
    site.get(1)
    event = site.restart_vm(1)
    assert site.approve(1, event) == 200
    before = site.get(1)[1]["DocumentIncarnation"]
    orphans = site.workers()
    os.kill(site.pid, signal.SIGKILL)
    assert site.process is not None
    site.process.wait(PATIENCE)
    assert not any(map(is_gone, orphans))
    found = site.doctor()
    assert all(f"process {pid} answers VMs from what it knew" in found for pid in orphans)
    os.kill(orphans[0], signal.SIGSTOP)  # it cannot heed a request to end
    site.start()
    assert all(map(is_gone, orphans))
    assert min(site.get(1)[1]["DocumentIncarnation"] for _ in range(20)) >= before
    assert event in site.approved()


def test_connections_of_a_caller_are_limited_over_all_workers(site: Site) -> None:
    """Whichever worker a connection comes to, the limit counts those of the others too."""
    site.start("--connections-per-caller", "10")
    site.get(1)
    opened: list[HTTPConnection] = []
    statuses: list[int] = []
    for _ in range(30):
        connection = HTTPConnection("127.0.0.1", site.port, timeout=10, source_address=("127.0.1.1", 0))
        connection.request("GET", DOCUMENT, headers={"Metadata": "true"})
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
        opened.append(connection)
    for connection in opened:
        connection.close()
    assert statuses == [200] * 10 + [429] * 20


def test_the_rate_of_a_vm_is_limited_over_all_workers(site: Site) -> None:
    """A VM that opens a connection for each request gets its burst once, not once from each worker."""
    site.start("--rate-limit", "1", "--rate-burst", "10")
    began = time.monotonic()
    statuses = [site.ask(2)[0] for _ in range(60)]
    passed = time.monotonic() - began
    assert set(statuses) == {200, 429}
    assert 10 <= statuses.count(200) <= 11 + passed
