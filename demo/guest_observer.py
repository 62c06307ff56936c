"""What is seen of guests from outside: what they say on their consoles, and what QEMU tells of their machines."""

import json
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from demo.site import Site
from forewarn.drivers.qemu.monitors import MonitorProblem, Monitors

HOSTS = ("h1", "h2")
_LOOK_EVERY = 0.02
_LOOK_FOR_MONITORS_EVERY = 0.1


class Sample(NamedTuple):
    """When a guest reported its clock, by ours, and the reported time."""

    at: float
    uptime: float
    boot: str


@dataclass
class GuestObservations:
    """One guest as it is seen, wherever it stands. Times are seconds of the wall clock."""

    name: str
    address: str
    update_domain: int
    host: str = "h1"
    state: str = "booting"
    words: str = ""
    """What it said last."""
    samples: list[Sample] = field(default_factory=list)
    boots: list[str] = field(default_factory=list)
    read: dict[str, float] = field(default_factory=dict)
    """When it first read of an event."""
    approved: set[str] = field(default_factory=set)
    pauses: list[tuple[float, float]] = field(default_factory=list)
    """From when to when it stood still, by QEMU's own account."""
    is_answered: bool = False
    _is_meant: bool = False
    _parts: str = ""
    _stopped_at: float | None = None

    @property
    def boot(self) -> str:
        return self.boots[-1] if self.boots else ""

    def behind(self, since: float) -> float:
        """Return by how much its clock fell behind ours, within its present boot, since a time.

        Words take a moment from the guest to us, so what counts is the fastest.
        """
        here = [sample for sample in self.samples if sample.boot == self.boot]
        ahead = [sample.at - sample.uptime for sample in here if sample.at < since]
        after = [sample.at - sample.uptime for sample in here[-3:]]
        return min(after) - min(ahead[-10:])

    def samples_since(self, when: float) -> int:
        return sum(sample.at > when for sample in self.samples[-100:])

    def hear_console(self, host: str, line: str, at: float) -> str:
        """Take in a line of its console; return what to tell of it, if anything."""
        word, _, rest = line.removeprefix("@ ").partition(" ")
        match word:
            case "clock":
                return self._hear_clock(host, rest, at)
            case "+events":
                self._parts += rest  # of a document too long for one line
            case "events":
                document, self._parts = self._parts + rest, ""
                return self._hear_events(document, at)
            case "approved" if rest not in self.approved:
                self.approved.add(rest)
                return "I am ready: approved"
            case "powerdown":
                return "the power button: I shut down"
        return ""

    def _hear_clock(self, host: str, rest: str, at: float) -> str:
        uptime, _, boot = rest.partition(" ")
        self.samples.append(Sample(at, float(uptime), boot))
        self.host = host
        if boot != self.boot:
            self.boots.append(boot)
            self.state = "running"
            self._is_meant = False
            return "I have booted"
        if self.state == "moving" and self._stopped_at is None:
            self.state = "running"
        return ""

    def _hear_events(self, rest: str, at: float) -> str:
        if not rest.startswith("{"):
            return "nobody answers me yet"
        is_first, self.is_answered = not self.is_answered, True
        events = json.loads(rest)["Events"]
        was_meant, self._is_meant = self._is_meant, any(self.name in event["Resources"] for event in events)
        fresh = [event for event in events if event["EventId"] not in self.read]
        self.read.update((event["EventId"], at) for event in fresh)
        if fresh:
            return "I read: " + ", ".join(f"{event['EventType']} for {self._whom(event)}" for event in fresh)
        if was_meant and not self._is_meant:
            return "it is over"
        return "I am answered: nothing is coming" if is_first and not events else ""

    def _whom(self, event: dict[str, Any]) -> str:
        return " and ".join("me" if name == self.name else name for name in event["Resources"])

    def hear_qemu(self, host: str, said: dict[str, Any] | None) -> None:
        """Take in what QEMU tells of the machine; None when its process has ended."""
        if said is None:
            if host == self.host and self.state != "moving":
                self.state = "ended"
            return
        if host != self.host and said["event"] != "RESUME":
            return  # a machine that it has left, or has not reached yet
        at = said["timestamp"]["seconds"] + said["timestamp"]["microseconds"] / 1e6
        match said["event"]:
            case "POWERDOWN" | "SHUTDOWN":
                self.state = "shutting down"
            case "RESET":
                self.state = "booting"
            case "STOP":
                self._stopped_at = at
                if self.state == "running":
                    self.state = "frozen"
            case "RESUME":
                self.go_on(host, at)

    def go_on(self, host: str, at: float) -> None:
        """Take in that its machine runs, on that host."""
        self.host = host
        if self._stopped_at is not None:
            self.pauses.append((self._stopped_at, at))
            self._stopped_at = None
        if self.state in {"frozen", "moving"}:
            self.state = "running"


class GuestObserver:
    """Looks at all guests of a site, in a thread of its own, until it is closed."""

    def __init__(
        self, site: Site, guests: Iterable[GuestObservations], tell: Callable[[GuestObservations, str], None]
    ) -> None:
        self._places = {(guest.name, host): guest for guest in guests for host in HOSTS}
        self._site = site
        self._tell = tell
        self._read: dict[tuple[str, str], int] = {}
        self._paths = {site.place(*place, "kit"): place for place in self._places}
        self._monitors = Monitors(self._hear_qemu)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._monitors.close()
        self._thread.join()

    def _hear_qemu(self, path: Path, said: dict[str, Any] | None) -> None:
        name, host = self._paths[path]
        if not self._closing.is_set():
            self._places[name, host].hear_qemu(host, said)

    def _watch(self) -> None:
        look_at = 0.0
        while not self._closing.wait(_LOOK_EVERY):
            for place in self._places:
                self._read_console(*place)
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + _LOOK_FOR_MONITORS_EVERY
                for path in self._paths:
                    self._listen_to(path)

    def _listen_to(self, path: Path) -> None:
        if self._monitors.knows(path) or not path.exists():
            return
        with suppress(MonitorProblem):  # it is not there yet, or no longer
            self._monitors.open(path)
            name, host = self._paths[path]
            guest = self._places[name, host]
            status = self._monitors.execute(path, "query-status")["status"]
            if status == "inmigrate":
                guest.state = "moving"
            elif status == "running" and host != guest.host:
                guest.go_on(host, time.time())

    def _read_console(self, name: str, host: str) -> None:
        log = self._site.place(name, host, "log")
        begin = self._read.get((name, host), 0)
        try:
            if log.stat().st_size <= begin:
                return
            with log.open("rb") as file:
                file.seek(begin)
                fresh = file.read()
        except FileNotFoundError:
            return
        at = time.time()
        whole, _, _ = fresh.rpartition(b"\n")
        self._read[name, host] = begin + len(whole) + bool(whole)
        guest = self._places[name, host]
        for line in whole.decode(errors="replace").splitlines():
            if line.startswith("@ ") and (words := guest.hear_console(host, line, at)):
                guest.words = words
                self._tell(guest, words)
