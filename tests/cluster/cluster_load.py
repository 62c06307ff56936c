"""Steady load on a cluster, faults that befall it, and what must hold afterwards."""

import json
import logging
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.client import HTTPException
from pathlib import Path
from random import Random
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any

from forewarn.core.errors import ForewarnError
from forewarn.core.facts import Announced, Approved, Completed, Entry, Failed, StartedAtOnce
from forewarn.core.model import Event
from forewarn.core.notice import Rules
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.wire.azure_names import show_id
from tests.cluster.cluster_processes import ENDS_WITH_TESTS, ClusterProcesses, NodeProcess, until
from tests.cluster.database_pair import DatabasePair, Partition
from tests.core.invariant_checker import InvariantChecker
from tests.core.invariants_of_facts import OF_FACTS

log = logging.getLogger(__name__)

LONGEST_OUTAGE = 5.0
"""Seconds within which a cluster serves again, once the database is available."""
_PROBE = 7
"""The VM by which it is found out whether the cluster serves; no load concerns it."""
_WRONG = (600, -600)
"""Seconds by which a clock is set wrong."""
_ERRORS = (ForewarnError, OSError, HTTPException, AssertionError)


class LoadedCluster(ClusterProcesses):
    """A cluster on two databases, under load from VMs and operators that ask any node."""

    def __init__(self, directory: Path, databases: DatabasePair, seed: int = 0, *, fences: bool = True) -> None:
        self.databases = databases
        super().__init__(directory, databases.journal(), vms=_PROBE, fences=fences)
        self.random = Random(seed)
        for node in self.nodes.values():
            node.program = [*ENDS_WITH_TESTS, sys.executable, "-m", "tests.cluster.skewed_node"]
            node.program.append(str(self._skew_of(node)))
            self.set_clock(node, 0)
        self.announced: set[str] = set()
        """The events of operations that were acknowledged."""
        self.approved: set[str] = set()
        """The events of which an approval was acknowledged."""
        self.fallen: list[str] = []
        """Documents that a VM was shown after a newer one, or instead of the same one."""
        self._seen: dict[int, tuple[str, bytes]] = {}
        """The last ETag and document of each VM."""
        self._lock = Lock()
        self._is_over = Flag()
        self._threads: list[Thread] = []

    def journal_of(self, node: NodeProcess) -> str:
        return self.databases.journal(self.address_of(node))

    def address_of(self, node: NodeProcess) -> str:
        """Return the address by which a node calls the database: it can be cut off from it."""
        return f"127.0.5.{sorted(self.nodes).index(node.name) + 1}" if hasattr(self, "nodes") else "127.0.0.1"

    def start(self) -> None:
        """Start all nodes, and enrol the VMs: what is restarted is announced."""
        super().start()
        until(lambda: self.leader().ask(1)[0] == 200)

    @contextmanager
    def load(self) -> Iterator[None]:
        """Restart VMs and approve it, until the context ends."""
        self._is_over.clear()
        self._threads = [Thread(target=self._drive, args=(vm,)) for vm in self.vms if vm != _PROBE]
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in self._threads:
                thread.join(60)

    def _drive(self, vm: int) -> None:
        random = Random(vm)
        while not self._is_over.wait(0.05):
            self.serve_once(vm, random, [*self.nodes.values()])

    def serve_once(self, vm: int, random: Random, nodes: list[NodeProcess]) -> bool:
        """Announce a restart at one node, and approve what another shows; return whether both were acknowledged."""
        is_announced = False
        try:
            event = random.choice(nodes).restart_vm(vm)
            is_announced = True
            with self._lock:
                self.announced.add(event)
        except _ERRORS:
            pass  # it may be announced all the same, or one before it is not over
        try:
            shown = self._look(vm, random.choice(nodes))["Events"]
            own = [each["EventId"] for each in shown if each["Resources"] == [f"vm-{vm}"]]
            waiting = [each["EventId"] for each in shown if each["EventStatus"] == "Scheduled"]
            for event in set(own) & set(waiting):
                body = json.dumps({"StartRequests": [{"EventId": event}]}).encode()
                status = random.choice(nodes).ask(vm, "POST", body, timeout=5)[0]
                if status != 200:
                    return False
                with self._lock:
                    self.approved.add(event)
        except (*_ERRORS, ValueError, KeyError):
            return False
        return is_announced

    def _look(self, vm: int, node: NodeProcess) -> dict[str, Any]:
        """Return a VM's document, by the ETag of its last one; note it where it is older than that."""
        tag, last = self._seen.get(vm, ("", b"{}"))
        status, body, new = node.ask(vm, tag=tag, timeout=5)
        if status == 304:
            body, new = last, tag
        shown: dict[str, Any] = json.loads(body)
        incarnation, before = shown["DocumentIncarnation"], json.loads(last).get("DocumentIncarnation", 0)
        if incarnation < before or (incarnation == before and body != last):
            self.fallen.append(f"{node.name} showed vm-{vm} {body!r} after {last!r}")
        self._seen[vm] = new, body
        return shown

    def set_clock(self, node: NodeProcess, seconds: float) -> None:
        """Let the clock of a node be wrong by so many seconds."""
        new = self._skew_of(node).with_suffix(".new")
        new.write_text(str(seconds), encoding="ascii")
        new.replace(self._skew_of(node))

    def _skew_of(self, node: NodeProcess) -> Path:
        return self.directory / f"{node.name}.skew"

    def seconds_until_served(self, since: float, *, without: NodeProcess | None = None) -> float:
        """Return how long it took until a node other than ``without`` acknowledged an operation and its approval."""
        nodes = [node for node in self.nodes.values() if node is not without]
        until(lambda: self.serve_once(_PROBE, self.random, nodes))
        return time.monotonic() - since

    def check(self) -> None:
        """Everything that was acknowledged is recorded once, nothing was done twice, and all nodes agree.

        No VM was shown an older document, whichever node it asked, and every fact keeps the rules.
        """
        until(lambda: all(node.is_up() for node in self.nodes.values()))
        self.leader()
        until(self._has_nothing_to_do)
        self.settle()
        self.check_documents()
        log.info("%d operations and %d approvals were acknowledged", len(self.announced), len(self.approved))
        entries = self._entries()
        checker = InvariantChecker(OF_FACTS, [], Rules(), hurry=1.0)
        for entry in entries:
            checker.see_entry(entry)
        assert not self.fallen
        assert [entry.revision for entry in entries] == [*range(1, len(entries) + 1)]
        announced, approved, ended = _recorded(entries)
        assert {show_id(id_) for id_ in announced} >= self.announced
        assert {show_id(id_) for id_ in approved} >= self.approved
        assert set(announced.values()) <= {1}
        assert set(ended.values()) <= {1}
        impacts = Counter(event for event, _ in self.impacts())
        assert set(impacts.values()) <= {1}, impacts
        completed, failed = _outcomes(entries)
        assert {show_id(id_) for id_ in completed} <= impacts.keys()
        assert all("unknown outcome, not repeated" in reason for reason in failed.values()), failed
        assert not (failed and self.fences), failed

    def _has_nothing_to_do(self) -> bool:
        """Return whether no event is under way; those that nobody approved are canceled."""
        try:
            with self.leader().control() as client:
                for event in client.events():
                    if event.status == "Scheduled":
                        client.cancel(event.id)
                return not list(client.events())
        except _ERRORS:
            return False

    def _entries(self) -> list[Entry]:
        location = self.databases.journal().removeprefix("postgresql:")
        journal = PostgresJournal.from_settings(location, Path(), timedelta(days=400))
        try:
            journal.load()
            return list(journal.entries())
        finally:
            journal.close()


def _recorded(entries: Iterable[Entry]) -> tuple[Counter[str], set[str], Counter[str]]:
    """Return how often each event was announced, which were approved, and how often each ended."""
    announced: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    approved: set[str] = set()
    for fact in (fact for entry in entries for fact in entry.facts):
        match fact:
            case Announced(event=Event(id=id_)) | StartedAtOnce(event=Event(id=id_)):
                announced[id_] += 1
            case Approved(event=id_):
                approved.add(id_)
            case Completed(event=id_) | Failed(event=id_):
                ended[id_] += 1
    return announced, approved, ended


def _outcomes(entries: Iterable[Entry]) -> tuple[set[str], dict[str, str]]:
    """Return the events that completed, and why others failed."""
    facts = [fact for entry in entries for fact in entry.facts]
    completed = {fact.event for fact in facts if isinstance(fact, Completed)}
    return completed, {fact.event: fact.reason for fact in facts if isinstance(fact, Failed)}


def kill_leader(cluster: LoadedCluster) -> float:
    node = cluster.leader()
    node.kill()
    began = time.monotonic()
    outage = cluster.seconds_until_served(began, without=node)
    node.start()
    return outage


def kill_follower(cluster: LoadedCluster) -> float:
    node = cluster.random.choice(cluster.followers())
    node.kill()
    began = time.monotonic()
    outage = cluster.seconds_until_served(began, without=node)
    node.start()
    return outage


def stop_leader(cluster: LoadedCluster) -> float:
    """Stop the leader in order; another leads before it ends."""
    node = cluster.leader()
    began = time.monotonic()
    node.stop()
    outage = cluster.seconds_until_served(began, without=node)
    node.start()
    return outage


def pause_leader(cluster: LoadedCluster) -> float:
    """Stop the leader with SIGSTOP past its lease, and continue it."""
    return _pause(cluster, cluster.leader())


def pause_leader_before_a_call(cluster: LoadedCluster) -> float:
    """Stop the leader between append and driver call: another calls instead, and the machine refuses the first.

    A machine that does not refuse is called by the first one only, when that continues.
    """
    node = cluster.leader()
    before = len(cluster.impacts("held"))
    cluster.hold_calls()
    until(lambda: len(cluster.impacts("held")) > before)
    node.freeze()
    cluster.let_calls_go()
    held = cluster.impacts("held")[before:]
    outage = _pause(cluster, node, frozenset(event for event, _ in held if cluster.fences))
    until(lambda: set(held) <= {*cluster.impacts("refused" if cluster.fences else "done")})
    assert not cluster.fences or not {*held} & {*cluster.impacts()}
    return outage


def _pause(cluster: LoadedCluster, node: NodeProcess, to_be_done: frozenset[str] = frozenset()) -> float:
    node.freeze()
    began = time.monotonic()
    outage = cluster.seconds_until_served(began, without=node)
    time.sleep(max(0.0, 5.0 - outage))
    until(lambda: to_be_done <= {event for event, _ in cluster.impacts()})
    node.signal(signal.SIGCONT)
    return outage


def cut_off_leader(cluster: LoadedCluster) -> float:
    """Cut the leader off from the database, and heal that."""
    node = cluster.leader()
    with Partition(cluster.address_of(node), cluster.databases.ports):
        began = time.monotonic()
        outage = cluster.seconds_until_served(began, without=node)
        time.sleep(max(0.0, 4.0 - outage))
    return outage


def fail_over(cluster: LoadedCluster) -> float:
    """Kill the primary database, and promote the standby."""
    began = cluster.databases.fail_over()
    outage = cluster.seconds_until_served(began)
    cluster.databases.renew_standby()
    return outage


def silence_primary(cluster: LoadedCluster) -> float:
    """Let the primary database fall silent, as if its cable were cut, and promote the standby at once.

    No connection breaks: nodes notice it when a heartbeat is not answered.
    """
    with cluster.databases.silent_primary() as began:
        outage = cluster.seconds_until_served(began)
    cluster.databases.renew_standby()
    return outage


def stop_primary(cluster: LoadedCluster) -> float:
    """Stop the primary database with SIGSTOP, and promote the standby when no node leads any more.

    The machine of the primary still takes connections, and nobody answers there.
    """
    leader = cluster.leader()
    with cluster.databases.stopped_primary() as promote:
        until(lambda: not leader.is_leading())
        began = promote()
        outage = cluster.seconds_until_served(began)
    cluster.databases.renew_standby()
    return outage


def skew_clock(cluster: LoadedCluster) -> float:
    """Start a node again with a clock ten minutes off: it follows, and says so."""
    node = cluster.random.choice([*cluster.nodes.values()])
    node.stop()
    cluster.set_clock(node, cluster.random.choice(_WRONG))
    node.start()
    return _until_clock_is_noticed(cluster, node)


def step_clock_of_leader(cluster: LoadedCluster) -> float:
    """Set the leader's clock by ten minutes while it leads: another leads, and it says why."""
    node = cluster.leader()
    cluster.set_clock(node, cluster.random.choice(_WRONG))
    return _until_clock_is_noticed(cluster, node)


def _until_clock_is_noticed(cluster: LoadedCluster, node: NodeProcess) -> float:
    began = time.monotonic()
    until(lambda: (view := node.view()) is not None and abs(view.clock_skew) > 500)
    outage = cluster.seconds_until_served(began, without=node)
    assert not node.is_leading()
    with node.control() as client:
        assert any("does not lead" in warning for warning in client.health().warnings)
    cluster.set_clock(node, 0)
    return outage


FAULTS: tuple[Callable[[LoadedCluster], float], ...] = (
    kill_leader,
    kill_follower,
    stop_leader,
    pause_leader,
    pause_leader_before_a_call,
    cut_off_leader,
    fail_over,
    silence_primary,
    stop_primary,
    skew_clock,
    step_clock_of_leader,
)
