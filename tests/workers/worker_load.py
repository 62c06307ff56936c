"""A service with workers under load by operators, approvers and watchers; faults, and what must hold after them.

operators ── restart ──▶ leader        every event that was answered is announced once
approvers ── POST ─────▶ any worker    every approval that was answered is recorded once
watchers  ── GET ──────▶ any worker    no incarnation is below what any VM of the group was shown before
"""

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from random import Random

from forewarn.control.client import ControlClient
from forewarn.core.errors import ForewarnError
from tests.workers.worker_service import ALONE, PATIENCE, VMS, WorkerService, is_gone, kill, until

_OPERATORS, _APPROVERS, _WATCHERS = 2, 3, 4
_PAUSE = 0.02
"""Seconds between two requests of one thread: the machine has other work."""


class LoadedSite:
    """The service, what was answered so far, and the highest incarnation that each group was shown."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.service = WorkerService(directory)
        self.random = Random(seed)
        self.announced: list[str] = []
        self.approved: list[str] = []
        self.falls: list[tuple[str, int, int]] = []
        """Group, what it had been shown, and what it was shown afterwards."""
        self.shown = 0
        """Documents that the watchers were shown."""
        self._highest: Counter[str] = Counter()
        self._waiting: deque[tuple[int, str]] = deque()
        """VM and event of each restart that is not approved yet."""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._errors: list[BaseException] = []

    def start(self) -> None:
        """Start the service, or start it again, and let every group be enrolled."""
        self.service.start("--connections-per-caller", "0", "--hurry", "4", "--log-level", "warning")
        for vm in range(1, ALONE + 2):
            until(lambda: self._watch(vm) == 200)  # noqa: B023 - called at once

    @contextmanager
    def load(self) -> Iterator[None]:
        """Let everybody ask meanwhile."""
        self._over.clear()
        roles = [self._operate] * _OPERATORS + [self._approve] * _APPROVERS + [self._look] * _WATCHERS
        threads = [
            threading.Thread(target=self._repeat, args=(role, number, Random(self.random.random())), daemon=True)
            for number, role in enumerate(roles)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join(PATIENCE)
        assert self._errors == []
        assert not any(thread.is_alive() for thread in threads)

    def check(self) -> None:
        """Everything that was answered is in the journal once, and nothing was shown backwards."""
        with ControlClient.local(self.service.directory / "data") as client:
            lines = Counter((line.fact, line.event.upper()) for line in client.history() if line.event)
        for fact, events in (("announced", self.announced), ("approved", self.approved)):
            assert len(events) == len(set(events))
            assert {event: lines[fact, event.upper()] for event in events} == dict.fromkeys(events, 1)
            assert max((count for (kind, _), count in lines.items() if kind == fact), default=1) == 1
        assert self.falls == []
        assert "Traceback" not in self.service.log

    def progress(self) -> None:
        """Return when an operator, an approver and a watcher have been answered again."""
        before = len(self.announced), len(self.approved), self.shown
        until(lambda: all(now > then for now, then in zip(self._counts(), before, strict=True)))

    def close(self) -> None:
        self.service.stop()

    def _counts(self) -> tuple[int, int, int]:
        return len(self.announced), len(self.approved), self.shown

    def _repeat(self, role: Callable[[int, Random], object], number: int, random: Random) -> None:
        try:
            while not self._over.wait(_PAUSE):
                role(number, random)
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self._errors.append(error)

    def _operate(self, number: int, random: Random) -> None:
        if len(self._waiting) > VMS // 2:
            return
        vm = random.randrange(number % _OPERATORS + 1, VMS + 1, _OPERATORS)
        with suppress(ForewarnError):  # a restart of it is under way, or there is no leader
            event = self.service.restart_vm(vm)
            self.announced.append(event)
            self._waiting.append((vm, event))

    def _approve(self, number: int, random: Random) -> None:
        with self._lock:
            if not self._waiting:
                return
            vm, event = self._waiting.popleft()
        match self.service.approve(vm, event):
            case 200:
                self.approved.append(event)
            case 400:
                pass  # an approval without an answer was recorded, and the event is over
            case _:
                self._waiting.append((vm, event))

    def _look(self, number: int, random: Random) -> None:
        self._watch(random.randint(1, VMS))

    def _watch(self, vm: int) -> int:
        """Ask on a new connection, so that any worker may answer; compare with what was shown before the question."""
        group = "web" if vm > ALONE else f"vm-{vm}"
        before = self._highest[group]
        try:
            status, document = self.service.get(vm)
        except (OSError, HTTPException, ValueError):
            return 0
        if status == 200:
            found = document["DocumentIncarnation"]
            with self._lock:
                self.shown += 1
                self._highest[group] = max(self._highest[group], found)
            if found < before:
                self.falls.append((group, before, found))
        return status


def kill_worker(loaded: LoadedSite) -> None:
    """One worker ends at any moment."""
    for worker in loaded.service.workers():
        kill(worker)
        break


def kill_all_workers(loaded: LoadedSite) -> None:
    """Nobody answers VMs for a while."""
    for worker in loaded.service.workers():
        kill(worker)


def stop_worker(loaded: LoadedSite) -> None:
    """A worker hangs: it is killed for that."""
    if workers := loaded.service.workers():
        stopped = loaded.random.choice(workers)
        _send(stopped, signal.SIGSTOP)
        until(lambda: is_gone(stopped), 2 * PATIENCE)  # one that loads may be silent for a minute


def pause_worker(loaded: LoadedSite) -> None:
    """A worker hangs for a moment: it goes on, or was killed."""
    if workers := loaded.service.workers():
        _pause(loaded.random.choice(workers), loaded.random.uniform(0.05, 1.5))


def pause_leader(loaded: LoadedSite) -> None:
    """The leader hangs for longer than commands wait for it, or for a moment."""
    _pause(loaded.service.pid, loaded.random.choice((0.2, 1.5, 6.0)))


def kill_leader(loaded: LoadedSite) -> None:
    """The leader ends at any moment; workers answer on until the next one ends them."""
    os.kill(loaded.service.pid, signal.SIGKILL)
    assert loaded.service.process is not None
    loaded.service.process.wait(PATIENCE)
    loaded.start()


def kill_leader_beside_a_stopped_worker(loaded: LoadedSite) -> None:
    """The next leader has to end a worker that does not listen."""
    if workers := loaded.service.workers():
        _send(loaded.random.choice(workers), signal.SIGSTOP)
    kill_leader(loaded)


FAULTS = (
    kill_worker,
    kill_all_workers,
    stop_worker,
    pause_worker,
    pause_leader,
    kill_leader,
    kill_leader_beside_a_stopped_worker,
)


def play(loaded: LoadedSite, rounds: int) -> Iterator[str]:
    """Play rounds of one to three faults under load; check after each, and yield what happened."""
    loaded.start()
    for _ in range(rounds):
        faults = loaded.random.choices(FAULTS, k=loaded.random.randint(1, 3))
        with loaded.load():
            for fault in faults:
                loaded.progress()
                fault(loaded)
            until(loaded.service.is_up)
            loaded.progress()
        loaded.check()
        yield ", ".join(fault.__name__ for fault in faults)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _pause(pid: int, seconds: float) -> None:
    _send(pid, signal.SIGSTOP)
    try:
        threading.Event().wait(seconds)
    finally:
        _send(pid, signal.SIGCONT)
