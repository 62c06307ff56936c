"""Real guests for the tests of this folder: booted once, saved, and restored for each test."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from demo.guest import Guest
from demo.site import Site

NAMES = ("web-0", "web-1")


@dataclass
class GuestHarness:
    """The guests of one test, on two hosts of one site."""

    site: Site
    directory: Path
    """For what the test itself keeps."""
    addresses: dict[str, str]
    guests: list[Guest] = field(default_factory=list)

    def guest(self, name: str, host: str = "h1") -> Guest:
        """Return a machine's handle, which is let go of at the end of the test."""
        guest = Guest(self.site, name, host)
        self.guests.append(guest)
        return guest

    def restored(self, name: str) -> Guest:
        """Return a guest that has booted and asks for its events, on host h1."""
        guest = self.guest(name)
        guest.restore(self.site.directory / f"{name}.saved")
        return guest

    def settings(self, **more: object) -> dict[str, object]:
        """Return the settings with which the driver finds these machines."""
        start = self.site.command(self.site.start, "{vm}", "{host}")
        return {
            "qmp": str(self.site.place("{vm}", "{host}", "qmp")),
            "start": start,
            "receive": [*start, "{incoming}"],
            "incoming": f"unix:{self.site.place('{vm}', '{host}', 'incoming')}",
            "grace": 0.5,
            "timeout": 30,
            **more,
        }


@pytest.fixture(scope="session")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, dict[str, str]]]:
    with Site(tmp_path_factory.mktemp("site")) as site:
        addresses = {name: site.describe(name, number) for number, name in enumerate(NAMES)}
        guests = [Guest(site, name) for name in NAMES]
        for guest in guests:
            guest.start()
        for guest in guests:
            guest.wait_for("its first question", lambda guest=guest: bool(guest.said("events")))  # type: ignore[misc]
            guest.save(site.directory / f"{guest.name}.saved")
            guest.close()
        yield site, addresses


@pytest.fixture
def guest_harness(_site: tuple[Site, dict[str, str]], tmp_path: Path) -> Iterator[GuestHarness]:
    """Give a test its guests, and end whatever machine it leaves."""
    site, addresses = _site
    guest_harness = GuestHarness(site, tmp_path, addresses)
    for number, name in enumerate(NAMES):
        site.describe(name, number)
    yield guest_harness
    for guest in guest_harness.guests:
        guest.close()
    for host in ("h1", "h2"):
        for name in NAMES:
            guest = Guest(site, name, host)
            guest.stop()
            guest.close()
            for kind in ("log", "pid", "qmp", "kit", "console", "incoming"):
                site.place(name, host, kind).unlink(missing_ok=True)
