"""Real guests under the qemu driver: how soon it is called, how long they stand still, what their moves cost."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.approver import Approver
from bench.figures import Figure, spread_of
from bench.machine import cores, staying_on
from bench.monitor import Monitor
from bench.moves import moves
from bench.record_watch import RecordWatch
from bench.rounds import say
from bench.sites import BRIDGE_ADDRESS, FLEET, VM, booted, end, settings
from demo.service import Service, ended
from demo.site import Site
from forewarn.control.bodies import VmOperationBody
from forewarn.control.client import ControlClient

_LARGE = "large-0"
_FROZEN = 1
"""Seconds."""
_BETWEEN = 0.3
"""Seconds between two freezes, in which everybody comes to rest."""


def machines(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Freeze a real guest again and again, then move it to and fro."""
    if os.geteuid() != 0:
        raise SystemExit("Guests need a network of their own, which only root may make: run the bench as root.")
    core, load = cores()
    with Site(directory / "site") as site, ExitStack() as opened:
        with staying_on(load):
            address = booted(site)
        with staying_on(core):
            fleet = FLEET.format(address=address, bridge=BRIDGE_ADDRESS)
            service = Service(site, directory / "service", fleet, driver="qemu", drivers={"qemu": settings(site)})
            opened.callback(service.kill)
            client = opened.enter_context(service.begin())
        yield from _freezes(site, directory / "service" / "data", client, rounds=3 if quick else 40)
        service.kill()
        yield moves(site, directory / "driver", VM, "96 MiB", rounds=2 if quick else 15)
        end(site, VM)
        booted(site, _LARGE, 1, memory=1024, used=384)
        yield moves(site, directory / "driver", _LARGE, "384 MiB in use", rounds=1 if quick else 8)


def _freezes(site: Site, data: Path, client: ControlClient, *, rounds: int) -> Iterator[Figure]:
    (data / "driver").mkdir(mode=0o700, exist_ok=True)
    records = RecordWatch(data / "driver")
    approver = Approver(site, BRIDGE_ADDRESS)
    called, after_answer, stopped, too_long = [], [], [], []
    with Monitor(site.place(VM, "h1", "kit")) as monitor:
        for number in range(rounds):
            say(f"freeze {number + 1} of {rounds}")
            time.sleep(_BETWEEN)
            result = client.operate_vm(VM, VmOperationBody(operation="freeze", duration=_FROZEN))
            event = result.announcements[0].event.id
            time.sleep(_BETWEEN)
            wall_clock = time.time() - time.monotonic()
            sent, answered = approver.approve(event)
            record = records.wait_for_record()
            stop, resume = monitor.wait_for("STOP"), monitor.wait_for("RESUME")
            ended(client, event)
            called.append((record - sent) * 1e3)
            after_answer.append((record - answered) * 1e3)
            stopped.append((stop - wall_clock - sent) * 1e3)
            too_long.append((resume - stop - _FROZEN) * 1e3)
    say("")
    approver.close()
    records.close()
    spread = spread_of(called)
    yield Figure(
        name="an approval is sent, and the driver is called",
        asked="under 20 ms",
        limit=20.0,
        is_at_least=False,
        measured=spread.median,
        unit="ms",
        spread=spread,
        detail=f"{rounds} approvals; from the answer to the approval it is {median(after_answer):.1f} ms; the guest"
        f" stands still {median(stopped):.1f} ms after the approval was sent",
    )
    spread = spread_of(too_long)
    yield Figure(
        name=f"a guest frozen for {_FROZEN} s stands still longer",
        asked="by less than 50 ms",
        limit=50.0,
        is_at_least=False,
        measured=spread.median,
        unit="ms",
        spread=spread,
        detail=f"{rounds} freezes, by QEMU's own stamps of STOP and RESUME",
    )
