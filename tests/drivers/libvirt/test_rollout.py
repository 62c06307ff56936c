"""A rollout over two real libvirt hosts: each is emptied live, has its command run once, and takes guests again."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.drivers.libvirt.daemons import NAMES, Daemons
from tests.drivers.libvirt.hypervisor import Guest, wait_for
from tests.drivers.libvirt.test_killed_service import asked, service

pytestmark = pytest.mark.end_to_end

PROGRAM = """\
#!/bin/sh
# Note the run, and last until the test lets it end.
cd "$(dirname "$0")"
echo "$1: $2" >>ran
until [ -e "$1.may-end" ]; do sleep 0.1; done
"""


@contextmanager
def watched(daemons: Daemons, *guests: Guest) -> Iterator[None]:
    """Look at the guests all the time; none may ever run on two hosts."""
    twice: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            # One that moves between two questions looks like two, but not again.
            twice.extend(g.name for g in guests if len(daemons.running(g)) > 1 and len(daemons.running(g)) > 1)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not twice


@pytest.mark.parametrize("killed_in", ["", "move", "command"])
def test_both_hosts_are_maintained_while_their_guests_run_on(
    daemons: Daemons, tmp_path: Path, killed_in: str
) -> None:
    """No guest boots again or is on a host during its command; a service that is killed goes on where it was."""
    guests = [daemons.boot(host=host) for host in NAMES]
    boots = [guest.boots for guest in guests]
    program, ran = tmp_path / "maintain", tmp_path / "ran"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    serve = service(tmp_path, daemons, *guests, more=f'bandwidth = 10\nhost_program = "{program}"\n', hurry=300)
    asks = ("--command", "update the kernel", "--all", "--settle", "5m")

    with watched(daemons, *guests):
        with serve() as first:
            asked(tmp_path, "rollout", "start", "kernel", *asks)
            if killed_in == "move":
                wait_for(lambda: daemons.where(guests[0]) == ["h1", "h2"], "the guest of h1 on its way")
            else:
                wait_for(ran.exists, "the command on h1")
                assert all(daemons.running(guest) == ["h2"] for guest in guests)
            if killed_in:
                first.kill()
                first.wait()
            else:
                _end_commands(daemons, tmp_path, guests)
        if killed_in:
            with serve():
                _end_commands(daemons, tmp_path, guests)

    assert ran.read_text().splitlines() == ["h1: update the kernel", "h2: update the kernel"]
    assert [daemons.where(guest) for guest in guests] == [daemons.running(guest) for guest in guests] == [["h1"]] * 2
    assert all(guest.still_runs for guest in guests)
    assert [guest.boots for guest in guests] == boots


def _end_commands(daemons: Daemons, place: Path, guests: list[Guest]) -> None:
    """Let the command of each host end once it runs, without a guest on the host; wait for the rollout's end."""
    for number, host in enumerate(NAMES):
        wait_for(lambda number=number: _count(place / "ran") > number, f"the command on {host}")  # type: ignore[misc]
        assert not any(host in daemons.running(guest) for guest in guests)
        (place / f"{host}.may-end").touch()
    wait_for(lambda: _shown(place)["state"] != "running", "the rollout to end")
    shown = _shown(place)
    assert (shown["state"], shown["done"]) == ("completed", len(NAMES)), shown
    hosts = asked(place, "host", "list")
    assert isinstance(hosts, list)
    assert not any(host["cordoned"] for host in hosts)


def _count(ran: Path) -> int:
    return len(ran.read_text().splitlines()) if ran.exists() else 0


def _shown(place: Path) -> dict[str, object]:
    shown = asked(place, "rollout", "show", "kernel")
    assert isinstance(shown, dict)
    return shown
