"""One guest moved to and fro while it runs: by the driver, and by the same steps said to QEMU plainly.

Either begins with a machine that waits at the other host, started by the same command, and is over when the guest
runs there and the machine it left has ended.
"""

import os
import select
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from uuid import uuid4

from bench.figures import Figure, ratios, spread_of
from bench.monitor import Monitor
from bench.rounds import alternate
from bench.sites import HOSTS, settings
from demo.site import Site
from forewarn.clocks import SystemClock
from forewarn.core.model import Event, EventSource, EventStatus, EventType, Host, Observation, Operation, Vm
from forewarn.drivers.qemu.driver import QemuDriver
from forewarn.node.driver import CandidateHost, Impact, ImpactDone, ImpactUnderway

_BETWEEN = 1.5
"""Seconds between two moves, in which the driver finds the machine where it is."""


def moves(site: Site, directory: Path, vm: str, result: str, *, rounds: int) -> Figure:
    """Compare the driver's moves of a guest with plain ones, and plain ones with each other."""
    driver = QemuDriver.from_settings(settings(site), SystemClock(), 1.0, directory)
    # As in a service, where the driver talks to every machine before anything is to be done to it.
    driver.watch(_ignore)
    own: list[float] = []

    def ours(here: str, there: str) -> None:
        impact = _impact(vm, here, there)
        done = driver.perform(impact)
        while isinstance(done, ImpactUnderway):
            done = driver.outcome_of(impact)
        if not isinstance(done, ImpactDone):
            raise SystemExit(f"The driver could not move the guest: {done}")

    def plain(here: str, there: str) -> None:
        own.append(_move_plainly(site, vm, here, there))

    way = _Way()
    turns = {"ours": partial(way, ours), "plain": partial(way, plain), "again": partial(way, plain)}
    try:
        took = alternate(turns, rounds)
    finally:
        driver.close()
    middle = {name: median(series) * 1e3 for name, series in took.items()}
    return Figure(
        name=f"a live move of a guest with {result}, above the same by plain QMP",
        asked="under 5 %",
        limit=5.0,
        is_at_least=False,
        measured=median(above := _above(took["ours"], took["plain"])),
        unit="%",
        spread=spread_of(above),
        noise=spread_of(_above(took["again"], took["plain"])),
        detail=f"{middle['ours']:.0f} ms; plainly {middle['plain']:.0f} and {middle['again']:.0f} ms, of which QEMU's"
        f" own migration takes {median(own):.0f} ms; at their best {min(took['ours']) * 1e3:.0f} and"
        f" {min(took['plain'] + took['again']) * 1e3:.0f} ms",
    )


def _ignore(_: Observation) -> None:
    """Take no notice of moves that the driver did not make itself."""


def _above(series: list[float], other: list[float]) -> list[float]:
    return [(ratio - 1) * 100 for ratio in ratios(series, other)]


class _Way:
    """Where the guest stands; every move is to the other host."""

    def __init__(self) -> None:
        self._hosts = HOSTS

    def __call__(self, move: Callable[[str, str], None]) -> float:
        time.sleep(_BETWEEN)
        began = perf_counter()
        move(*self._hosts)
        took = perf_counter() - began
        self._hosts = self._hosts[1], self._hosts[0]
        return took


def _move_plainly(site: Site, vm: str, here: str, there: str) -> float:
    """Move the guest without the driver; return the milliseconds that QEMU counts for the migration itself."""
    process = os.pidfd_open(int(site.place(vm, here, "pid").read_text("utf-8")))
    incoming = f"unix:{site.place(vm, there, 'incoming')}"
    site.run(site.start, vm, there, incoming)
    with Monitor(site.place(vm, here, "kit")) as source, Monitor(site.place(vm, there, "kit")) as target:
        source.execute("migrate", uri=incoming)
        target.wait_for("RESUME")
        while (result := source.execute("query-migrate"))["status"] != "completed":
            pass
        source.execute("quit")
        select.select([process], [], [])
    os.close(process)
    return float(result["total-time"])


def _impact(vm: str, here: str, there: str) -> Impact:
    now = datetime.now(UTC)
    event = Event(
        id=str(uuid4()),
        type=EventType.REDEPLOY,
        source=EventSource.PLATFORM,
        group="web",
        resources=(vm,),
        status=EventStatus.STARTED,
        not_before=now,
        announced_at=now,
        operation=Operation.VM_REDEPLOY,
        host=here,
        duration=-1,
        attempted_at=now,
        attempts=1,
    )
    return Impact(event, (Vm(vm, "web", host=here),), now, deletes=False, candidates=(CandidateHost(Host(there)),))
