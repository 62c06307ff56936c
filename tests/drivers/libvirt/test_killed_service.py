"""A service that is killed while it drains a host or deallocates a VM, and started again: all ends as planned."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from subprocess import Popen

import libvirt
import pytest

from tests.cli.test_serve import forewarn, running
from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.hypervisor import Guest, wait_for
from tests.ports import free_port

pytestmark = pytest.mark.end_to_end

Service = Callable[[], AbstractContextManager["Popen[str]"]]


def service(place: Path, daemons: Daemons, *guests: Guest, more: str = "", hurry: int = 1) -> Service:
    """Return what runs a service for these guests, on the hosts where they are."""
    hosts = ", ".join(f'{name} = "{uri}"' for name, uri in daemons.uris.items())
    (place / "forewarn.toml").write_text(
        f'data = "data"\nmetadata = "127.0.0.1:{free_port()}"\ncontrol = "off"\nfleet = "fleet.toml"\n'
        f'driver = "libvirt"\nhurry = {hurry}\n\n[drivers.libvirt]\nhosts = {{ {hosts} }}\nmigration_uri = "tcp://{{host}}"\n{more}'
    )
    vms = "".join(f'[[vm]]\nname = "{guest.name}"\nhost = "{daemons.where(guest)[0]}"\n\n' for guest in guests)
    (place / "fleet.toml").write_text(f'[[host]]\nname = "h1"\n\n[[host]]\nname = "h2"\n\n{vms}')
    return partial(running, "serve", cwd=place, until=place / "data")


def asked(place: Path, *words: str) -> object:
    """Run a command and return its JSON."""
    ran = forewarn("--data", "data", *words, "--json", cwd=place)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_drain_goes_on_after_a_kill(daemons: Daemons, tmp_path: Path) -> None:
    """One guest is on its way, the other waits: both run once, on the planned host, and have not booted again."""
    guests = [daemons.boot(), daemons.boot()]
    boots = [guest.boots for guest in guests]
    serve = service(tmp_path, daemons, *guests, more="migrations = 1\nbandwidth = 10\n")
    with serve() as first:
        events = asked(tmp_path, "host", "drain", "h1")
        assert isinstance(events, list)
        for event in events:
            asked(tmp_path, "event", "approve", event["id"])
        wait_for(lambda: any(daemons.where(guest) == ["h1", "h2"] for guest in guests), "a guest on its way", 60)
        first.kill()
        first.wait()
    assert all(len(daemons.running(guest)) <= 1 for guest in guests)

    with serve():
        wait_for(lambda: asked(tmp_path, "event", "list") == [], "the drain to end")
        endings = [forewarn("--data", "data", "event", "show", event["id"], cwd=tmp_path).stdout for event in events]
        vms = asked(tmp_path, "vm", "list")
        (h1,) = [host for host in asked(tmp_path, "host", "list") if host["name"] == "h1"]  # type: ignore[attr-defined]

    assert isinstance(vms, list)
    hosts = {vm["name"]: vm["host"] for vm in vms}
    assert hosts == {guest.name: "h2" for guest in guests}, "\n".join(endings)
    assert h1["cordoned"]
    assert [daemons.where(guest) for guest in guests] == [daemons.running(guest) for guest in guests] == [["h2"]] * 2
    assert all(guest.still_runs for guest in guests)
    assert [guest.boots for guest in guests] == boots


def test_a_deallocation_goes_on_after_a_kill(daemons: Daemons, tmp_path: Path) -> None:
    """The guest does not listen, so that its grace is not over when the service dies; it is off in the end."""
    guest = daemons.boot(words="acpi=off")
    serve = service(tmp_path, daemons, guest, more='grace = "5s"\n')
    with serve() as first:
        asked(tmp_path, "vm", "deallocate", guest.name)
        first.kill()
        first.wait()
    assert daemons.running(guest) == ["h1"]

    with serve():
        wait_for(lambda: guest.state == libvirt.VIR_DOMAIN_SHUTOFF, "the guest to be off")
        wait_for(lambda: not _shown(tmp_path, guest).get("power"), "the outcome to be recorded")
        assert _shown(tmp_path, guest)["deallocated"]

        asked(tmp_path, "vm", "start", guest.name)
        wait_for(lambda: daemons.running(guest) == ["h1"], "the guest to run again")
    assert daemons.where(guest) == ["h1"]


def _shown(place: Path, guest: Guest) -> dict[str, object]:
    shown = asked(place, "vm", "show", guest.name)
    assert isinstance(shown, dict)
    return shown
