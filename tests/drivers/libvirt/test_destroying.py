"""A service that is killed while libvirt destroys a guest: the next one finds it done, and goes on from there."""

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

import libvirt
import pytest

from forewarn.core.model import EventType
from forewarn.node.driver import Impact, ImpactDone
from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.hypervisor import Guest
from tests.drivers.libvirt.machines import when_ended

pytestmark = pytest.mark.end_to_end


def process_of(guest: Guest) -> int:
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and f"guest={guest.name}," in (entry / "cmdline").read_text(errors="replace"):
                return int(entry.name)
    pytest.fail(f"{guest.name} has no process")


def cut_off(daemons: Daemons, guest: Guest, asked: Impact, step: str) -> None:
    """Leave an event as a service leaves it that is killed while libvirt destroys the guest; that takes seconds."""
    with daemons.driver()._executor._progress_store.held(asked.event.id) as progress_file:
        progress_file.begin(asked)
        progress_file.note(step, guest.name, **({} if step == "deleting" else {"id": str(guest.domain.ID())}))
    domain = libvirt.open(daemons.uris["h1"]).lookupByName(guest.name)
    os.kill(process_of(guest), signal.SIGSTOP)  # libvirt asks it to end, waits for it, and kills it then
    threading.Thread(target=domain.destroy, daemon=True).start()


@pytest.mark.parametrize(
    ("type", "step", "state"),
    [
        (EventType.PREEMPT, "stopping", libvirt.VIR_DOMAIN_SHUTOFF),
        (EventType.REDEPLOY, "stopping", libvirt.VIR_DOMAIN_RUNNING),
        (EventType.TERMINATE, "deleting", None),
    ],
)
def test_a_destruction_that_is_under_way_is_no_failure(
    daemons: Daemons, type: EventType, step: str, state: int | None
) -> None:
    """Evicted it is off, redeployed it runs again, deleted it is gone."""
    guest = daemons.boot()
    asked = guest.impact(type, deletes=type is EventType.TERMINATE)
    cut_off(daemons, guest, asked, step)

    assert when_ended(daemons.driver(redeploy="restart"), asked) == ImpactDone()
    assert (guest.state if guest.is_known else None) == state
