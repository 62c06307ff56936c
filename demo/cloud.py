"""The cloud of the demo: three guests on two hosts, the service over them, and what is seen of both."""

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from demo.guest import Guest
from demo.guest_observer import HOSTS, GuestObservations, GuestObserver
from demo.journal_printer import JournalPrinter
from demo.service import Service
from demo.site import Site
from forewarn.audit.timeline import Timeline
from forewarn.control.client import ControlClient
from forewarn.control.rollout_views import RolloutDetail

NAMES = ("web-0", "web-1", "web-2")
SPOT = "web-1"
"""The guest that may be evicted."""
MEMORY = 96
HURRY = 10
"""The rules' 15 minutes of notice are 90 seconds, and the 30 seconds before an eviction are 3."""
_PATIENCE = 180.0
_GRACE = 15.0
"""Seconds that a guest has to shut down by itself, on a machine that does much else."""


class DemoProblem(Exception):
    """The demo cannot go on."""


class Listener(Protocol):
    """Callback for what happens; called from several threads."""

    def say(self, text: str) -> None:
        """Tell what the demo does."""

    def tell_heard(self, guest: GuestObservations, words: str) -> None:
        """Tell what a guest said."""

    def tell_recorded(self, text: str) -> None:
        """Tell what the journal says."""


class Cloud:
    """All that runs; what is open is closed in ``close``, however far it came."""

    client: ControlClient
    _record: JournalPrinter

    def __init__(self, directory: Path, listener: Listener) -> None:
        self.site = Site(directory / "site")
        self.guests = [GuestObservations(name, "", number) for number, name in enumerate(NAMES)]
        self._directory = directory
        self._listener = listener
        self._may_end: set[str] = set()
        self._open = ExitStack()

    def open(self) -> None:
        """Build it, and return when every guest has booted and is answered."""
        self._listener.say("a network of its own, with 169.254.169.254 in it, and the guests' kernel")
        self._open.enter_context(self.site)
        for guest in self.guests:
            guest.address = self.site.describe(guest.name, guest.update_domain, approve="self", memory=MEMORY)
        watcher = GuestObserver(self.site, self.guests, self._listener.tell_heard)
        self._open.callback(watcher.close)
        self._listener.say("three guests boot, in software emulation")
        for guest in self.guests:
            self.site.run(self.site.start, guest.name, guest.host)
        service = Service(self.site, self._directory / "service", self._fleet(), **self._settings())
        self._open.callback(service.kill)
        self.client = self._open.enter_context(service.begin())
        self._record = JournalPrinter(self.data, self._listener.tell_recorded)
        self._open.callback(self._record.close)
        self._listener.say("forewarn serve answers on 169.254.169.254, with driver qemu")
        for guest in self.guests:
            self.wait_for(f"{guest.name} to boot and be answered", lambda guest=guest: guest.is_answered)  # type: ignore[misc]

    def close(self) -> None:
        """End everything, and take the network away."""
        try:
            self._open.close()
        finally:
            self.site.close()

    @property
    def data(self) -> Path:
        """Where the service keeps its data, by which commands find it."""
        return self._directory / "service" / "data"

    def guest(self, name: str) -> GuestObservations:
        return next(guest for guest in self.guests if guest.name == name)

    def let_end(self, name: str) -> None:
        """From now on the guest's machine may end."""
        self._may_end.add(name)

    def stay(self) -> None:
        """Stay until somebody interrupts, or the service is lost."""
        self._may_end.update(NAMES)
        self.wait_for("an interruption", lambda: False, math.inf)

    def hold_back(self, name: str) -> None:
        """Have a guest approve nothing any more."""
        guest = Guest(self.site, name, self.guest(name).host)
        try:
            guest.approve("never")
        finally:
            guest.close()

    def ended(self, event: str) -> Timeline:
        """Wait until an event has ended and the end is shown; return its timeline."""
        self.wait_for(f"the end of event {event}", lambda: event in self._record.over)
        return self.client.timeline(event)

    def rolled_out(self, name: str) -> RolloutDetail:
        """Wait until a rollout has ended or pauses and that is shown; return its state."""
        self.wait_for(f"the end of rollout {name}", lambda: name in self._record.over)
        return self.client.rollout(name)

    def reboots(self, host: str) -> list[int]:
        """Return how many machines each reboot of a host has ended."""
        result = self.site.directory / host / "reboots"
        return [int(line) for line in result.read_text(encoding="utf-8").splitlines()] if result.exists() else []

    def wait_for(self, what: str, is_so: Callable[[], bool], seconds: float = _PATIENCE) -> None:
        """Wait until something is so; raise Trouble as soon as it can no longer become so, or in the end."""
        ending = time.monotonic() + seconds
        while not is_so():
            if failure := self._record.failure:
                raise DemoProblem(f"the service is lost: {failure}")
            for guest in self.guests:
                if guest.state == "ended" and guest.name not in self._may_end:
                    raise DemoProblem(f"the machine of {guest.name} has ended, though nobody asked for it")
            if time.monotonic() > ending:
                raise DemoProblem(f"waited {seconds:.0f} s for {what}, in vain")
            time.sleep(0.05)

    def _fleet(self) -> str:
        tables = [f'[[host]]\nname = "{host}"\n' for host in HOSTS]
        tables.append('[[group]]\nname = "web"\nkind = "scale-set"\n')
        tables += [
            f'[[vm]]\nname = "{guest.name}"\ngroup = "web"\nhost = "{guest.host}"\naddress = "{guest.address}"\n'
            f"update_domain = {guest.update_domain}\nfault_domain = {guest.update_domain}\n"
            f"spot = {str(guest.name == SPOT).lower()}\n"
            for guest in self.guests
        ]
        return "".join(tables)

    def _settings(self) -> dict[str, object]:
        start = self.site.command(self.site.start, "{vm}", "{host}")
        driver = {
            "qmp": str(self.site.place("{vm}", "{host}", "qmp")),
            "start": start,
            "receive": [*start, "{incoming}"],
            "incoming": f"unix:{self.site.place('{vm}', '{host}', 'incoming')}",
            "grace": _GRACE,
            "timeout": _PATIENCE,
            "host_program": str(self.site.reboot),
        }
        return {"driver": "qemu", "hurry": HURRY, "drivers": {"qemu": driver}}
