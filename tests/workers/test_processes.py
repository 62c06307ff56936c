"""Workers as real processes: they answer together, and whichever of them ends, nothing is lost or shown backwards."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest

from forewarn import __version__
from forewarn.control.client import ControlClient
from forewarn.workers.messages import OtherRelease, decode_for_leader
from tests.workers.worker_service import DOCUMENT, PATIENCE, WorkerService, is_gone, until

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def service(tmp_path: Path) -> Iterator[WorkerService]:
    made = WorkerService(tmp_path)
    try:
        yield made
    finally:
        made.stop()
    assert "Traceback" not in made.log


def test_what_was_answered_is_shown_by_every_worker(service: WorkerService) -> None:
    """A restart that was announced, and an approval that was answered, are in the next document of each worker."""
    service.start()
    for vm in range(1, 11):
        assert service.get(vm)[0] == 200
        event = service.restart_vm(vm)
        shown = [service.get(vm)[1] for _ in range(10)]
        assert {each["Events"][0]["EventId"] for each in shown} == {event}
        assert service.approve(vm, event) == 200
        shown = [service.get(vm)[1] for _ in range(10)]
        assert {event["EventStatus"] for each in shown for event in each["Events"]} <= {"Started"}


def test_an_operator_is_shown_each_worker(service: WorkerService) -> None:
    """The doctor and the health name processes, revisions, connections and ages."""
    service.start()
    found = service.doctor()
    for number, pid in enumerate(service.workers(), 1):
        assert f"worker {number} (process {pid}) answers at revision" in found
    assert f"the service listens on 127.0.0.1:{service.port}" in found
    with ControlClient.local(service.directory / "data") as client:
        workers = client.health().workers
    assert workers is not None
    assert [worker.state for worker in workers] == ["listening", "listening"]


def test_a_worker_that_is_killed_is_replaced(service: WorkerService) -> None:
    """The other one answers meanwhile, and commands are carried out."""
    service.start()
    first, second = service.workers()
    os.kill(first, signal.SIGKILL)
    service.restart_vm(1)
    until(lambda: len(service.workers()) == 2 and second in service.workers() and first not in service.workers())
    until(lambda: "a worker ended and is replaced" in service.log)


def test_a_worker_that_is_stopped_delays_a_commit_by_about_a_second(service: WorkerService) -> None:
    """It is killed; what the others show has been applied by all that are left."""
    service.start()
    service.get(1)
    stopped = service.workers()[0]
    os.kill(stopped, signal.SIGSTOP)
    began = time.monotonic()
    event = service.restart_vm(1)
    assert 0.9 <= time.monotonic() - began < 10.0
    assert is_gone(stopped)
    assert service.get(1)[1]["Events"][0]["EventId"] == event
    until(lambda: len(service.workers()) == 2)


def test_a_worker_that_is_stopped_is_replaced_without_a_commit(service: WorkerService) -> None:
    """Connections that the kernel gave it hang: nothing else would tell the leader."""
    service.start()
    stopped = service.workers()[0]
    os.kill(stopped, signal.SIGSTOP)
    until(lambda: is_gone(stopped))
    until(service.is_up)
    until(lambda: "a worker ended and is replaced" in service.log)


def test_a_leader_that_is_stopped_while_a_commit_is_published_keeps_its_workers(service: WorkerService) -> None:
    """They have applied it meanwhile: that they said so is read when it continues."""
    service.start()
    service.get(1)
    workers = service.workers()
    os.kill(workers[0], signal.SIGSTOP)
    written = service.directory / "data" / "journal.sqlite3-wal"
    before = written.stat().st_mtime_ns
    with ThreadPoolExecutor(1) as thread:
        restarting = thread.submit(service.restart_vm, 1)
        until(lambda: written.stat().st_mtime_ns != before)
        time.sleep(0.3)  # the leader waits for the stopped worker
        os.kill(service.pid, signal.SIGSTOP)
        os.kill(workers[0], signal.SIGCONT)
        time.sleep(2.0)  # longer than a worker may be silent
        os.kill(service.pid, signal.SIGCONT)
        event = restarting.result(PATIENCE)
    assert service.get(1)[1]["Events"][0]["EventId"] == event
    assert (service.workers(), "a worker ended" in service.log) == (workers, False)


def test_a_worker_of_another_release_says_so_and_ends() -> None:
    """Before it reads a message of its leader, which it could misread."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-P", "-m", "forewarn.workers", "0.0.1", "0", "1", str(theirs.fileno()), "0"]
        subprocess.run(command, pass_fds=(theirs.fileno(),), check=True, timeout=PATIENCE)
        length = int.from_bytes(ours.recv(4), "big")
        assert decode_for_leader(ours.recv(length)) == OtherRelease(__version__)


def test_without_a_leader_workers_answer_for_the_time_that_is_set(service: WorkerService) -> None:
    """A GET gets what is known, an approval 503; after the time that is set the workers end."""
    service.start("--leader-timeout", "6s")
    service.get(1)
    event = service.restart_vm(1)
    orphans = service.workers()
    os.kill(service.pid, signal.SIGKILL)
    assert service.process is not None
    service.process.wait(PATIENCE)
    assert service.get(1)[1]["Events"][0]["EventId"] == event
    until(lambda: service.approve(1, event) == 503)
    until((service.directory / "data" / "worker-1.prom").exists)
    until(lambda: all(map(is_gone, orphans)))


def test_a_new_leader_ends_the_workers_of_the_old_one_before_its_own_answer(service: WorkerService) -> None:
    """So that nobody is shown old beside new; nothing that was answered is lost."""
    service.start("--leader-timeout", "10m")
    service.get(1)
    event = service.restart_vm(1)
    assert service.approve(1, event) == 200
    before = service.get(1)[1]["DocumentIncarnation"]
    orphans = service.workers()
    os.kill(service.pid, signal.SIGKILL)
    assert service.process is not None
    service.process.wait(PATIENCE)
    assert not any(map(is_gone, orphans))
    found = service.doctor()
    assert all(f"process {pid} answers VMs from what it knew" in found for pid in orphans)
    os.kill(orphans[0], signal.SIGSTOP)  # it cannot heed a request to end
    service.start()
    assert all(map(is_gone, orphans))
    assert min(service.get(1)[1]["DocumentIncarnation"] for _ in range(20)) >= before
    assert event in service.approved()


def test_connections_of_a_caller_are_limited_over_all_workers(service: WorkerService) -> None:
    """Whichever worker a connection comes to, the limit counts those of the others too."""
    service.start("--connections-per-caller", "10")
    service.get(1)
    opened: list[HTTPConnection] = []
    statuses: list[int] = []
    for _ in range(30):
        connection = HTTPConnection("127.0.0.1", service.port, timeout=10, source_address=("127.0.1.1", 0))
        connection.request("GET", DOCUMENT, headers={"Metadata": "true"})
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
        opened.append(connection)
    for connection in opened:
        connection.close()
    assert statuses == [200] * 10 + [429] * 20


def test_the_rate_of_a_vm_is_limited_over_all_workers(service: WorkerService) -> None:
    """A VM that opens a connection for each request gets its burst once, not once from each worker."""
    service.start("--rate-limit", "1", "--rate-burst", "10")
    began = time.monotonic()
    statuses = [service.ask(2)[0] for _ in range(60)]
    passed = time.monotonic() - began
    assert set(statuses) == {200, 429}
    assert 10 <= statuses.count(200) <= 11 + passed
