"""GETs beside writes, snapshots and changes of the fleet, against GETs with nothing beside them."""

from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from threading import Event as Signal
from time import perf_counter

from bench import fleets, pacer, service
from bench.approvals import Restart, approve_one
from bench.disturbances import (
    CHANGES,
    WRITES,
    Disturb,
    addition,
    beside,
    change_fleet,
    removal,
    take_snapshots,
    write,
)
from bench.figures import Figure, percentile, spread_of
from bench.machine import cores, staying_on
from bench.pacer import Pace
from bench.processes import peak_memory
from bench.rounds import alternate
from bench.server import Server
from bench.slowest_gets import TAIL, tail_beside
from forewarn.control.bodies import VmOperationBody
from forewarn.control.client import ControlClient
from forewarn.fleetfile.diff import FleetDiff

_FLEET = 100_000
_QUICK_FLEET = 10_000
_RATE = 1_000
_LARGE = {10_000: 3, 100_000: 3, 1_000_000: 1}
"""How often a change of so many VMs is applied and taken back."""
_ASKED: dict[int, tuple[float, float | None]] = {100_000: (50.0, 100.0), 1_000_000: (250.0, None)}
"""Milliseconds beside a change of so many VMs: p99.9, longest."""
_APPROVED = 2.0
_LONGEST = 900.0
"""Seconds that the largest change may take."""

_DISTURBANCES: dict[str, tuple[Disturb, ...]] = {
    f"{WRITES} writes per second": (write,),
    "snapshots, one after another": (take_snapshots,),
    f"{CHANGES} changes of 1,000 VMs per second": (change_fleet,),
    "all of these together": (write, take_snapshots, change_fleet),
}


def latency(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Measure how much later GETs are answered beside other work, 1,000 GETs per second."""
    core, load = cores()
    data = fleets.make_journal(directory / "data", _QUICK_FLEET if quick else _FLEET)
    with service.serving(data, core) as ours, staying_on(load):
        yield from _slowest_gets(ours, data, rounds=2 if quick else 10, seconds=2.0 if quick else 3.0)
        numbers = cycle(number for number in range(3_000, _QUICK_FLEET) if number % 1_000 < 400)  # standalone VMs
        for size, times in {10_000: 1}.items() if quick else _LARGE.items():
            yield from _large_changes(ours, data, size, numbers, times=times)


def _slowest_gets(ours: Server, data: Path, *, rounds: int, seconds: float) -> Iterator[Figure]:
    _, load = cores()
    took: dict[str, list[list[float]]] = {"undisturbed": [], **{name: [] for name in _DISTURBANCES}}

    def phase(name: str) -> float:
        with beside(data, *_DISTURBANCES.get(name, ())):
            took[name].append(pacer.run(load, Pace(ours.port, _RATE, seconds)))
        return percentile(took[name][-1], TAIL)

    alternate({name: partial(phase, name) for name in took}, rounds)
    for name in _DISTURBANCES:
        yield tail_beside(name, took[name], took["undisturbed"])


def _large_changes(ours: Server, data: Path, size: int, numbers: Iterator[int], *, times: int) -> Iterator[Figure]:
    """Apply larger differences; see what GETs take from their beginning to their end, and approvals meanwhile."""
    _, load = cores()
    tails, longest, quiet, took = [], [], [], []
    announcements: list[float] = []
    approvals: list[float] = []
    for change in (addition(size), removal(size)) * times:
        millis = pacer.run(load, Pace(ours.port, _RATE, 5.0))
        quiet.append((percentile(millis, TAIL), max(millis)))
        over = data.with_name("over")
        over.unlink(missing_ok=True)
        began = perf_counter()
        with beside(
            data, partial(_apply, change, over), partial(_approve, ours, numbers, announcements, approvals, over)
        ):
            millis = pacer.run(load, Pace(ours.port, _RATE, _LONGEST, str(over)))
        took.append(perf_counter() - began)
        tails.append(percentile(millis, TAIL))
        longest.append(max(millis))
    asked, most = _ASKED.get(size, (None, None))
    without = (
        f"without a change p99.9 {median(tail for tail, _ in quiet):.0f} ms,"
        f" longest {max(longest for _, longest in quiet):.0f} ms"
    )
    yield Figure(
        name=f"p99.9 of GETs beside a change of {size:,} VMs",
        asked=f"below {asked:.0f} ms" if asked else "",
        limit=asked,
        is_at_least=False,
        measured=median(tails),
        unit="ms",
        spread=spread_of(tails),
        detail=f"{without}; VMs added in one change and removed in another, {median(took):.0f} s each",
    )
    yield Figure(
        name=f"longest GET beside a change of {size:,} VMs",
        asked=f"below {most:.0f} ms" if most else "",
        limit=most,
        is_at_least=False,
        measured=max(longest),
        unit="ms",
        spread=spread_of(longest),
        detail=without,
    )
    yield Figure(
        name=f"longest command beside a change of {size:,} VMs",
        asked=f"below {_APPROVED:.0f} s",
        limit=_APPROVED,
        is_at_least=False,
        measured=max(*approvals, *announcements),
        unit="s",
        spread=spread_of(approvals + announcements),
        detail=f"{len(approvals)} restarts of other VMs, announced and approved one after another;"
        f" the service held at most {peak_memory(ours.pid) / 2**20:,.0f} MiB",
    )


def _apply(change: FleetDiff, over: Path, data: Path, _: Signal) -> None:
    try:
        with ControlClient.local(data) as client:
            client.change_fleet(change)
    finally:
        over.touch()


def _approve(
    ours: Server,
    numbers: Iterator[int],
    announcements: list[float],
    approvals: list[float],
    over: Path,
    data: Path,
    stop: Signal,
) -> None:
    """Announce a restart and approve it, again and again."""
    with ControlClient.local(data) as client:
        for number in numbers:
            vm, _ = fleets.mixed(number)
            began = perf_counter()
            result = client.operate_vm(vm.name, VmOperationBody(operation="restart"))
            announcements.append(perf_counter() - began)
            approvals.append(approve_one(ours.port, Restart(vm.address, result.announcements[0].event.id)))
            if over.exists() or stop.wait(0.25):
                return
