"""GETs beside writes, snapshots and changes of the fleet, against GETs with nothing beside them."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from threading import Event as Signal

from bench import fleets, pacer, service
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
from bench.rounds import alternate
from bench.server import Server
from forewarn.control.client import ControlClient
from forewarn.fleetfile.diff import FleetDiff

_FLEET = 100_000
_QUICK_FLEET = 10_000
_RATE = 1_000
_TAIL = 0.999
_ALLOWED = 20.0
"""Milliseconds above the p99.9 of undisturbed GETs."""

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
        yield from _tails(ours, data, rounds=2 if quick else 10, seconds=2.0 if quick else 3.0)
        for size in (10_000,) if quick else (10_000, 100_000):
            yield _pause(ours, data, size, times=1 if quick else 3)


def _tails(ours: Server, data: Path, *, rounds: int, seconds: float) -> Iterator[Figure]:
    _, load = cores()
    took: dict[str, list[float]] = {"undisturbed": [], **{name: [] for name in _DISTURBANCES}}

    def phase(name: str) -> float:
        with beside(data, *_DISTURBANCES.get(name, ())):
            millis = pacer.run(load, Pace(ours.port, _RATE, seconds))
        took[name] += millis
        return percentile(millis, _TAIL)

    tails = alternate({name: partial(phase, name) for name in took}, rounds)
    quiet = percentile(took["undisturbed"], _TAIL)
    for name in _DISTURBANCES:
        above = [one - other for one, other in zip(tails[name], tails["undisturbed"], strict=True)]
        yield Figure(
            name=f"p99.9 of GETs beside {name}",
            asked=f"at most {_ALLOWED:.0f} ms above the p99.9 without",
            limit=_ALLOWED,
            is_at_least=False,
            measured=percentile(took[name], _TAIL) - quiet,
            unit="ms above",
            spread=spread_of(above),
            noise=spread_of([tail - median(tails["undisturbed"]) for tail in tails["undisturbed"]]),
            detail=f"{percentile(took[name], _TAIL):.1f} ms against {quiet:.1f} ms; medians"
            f" {median(took[name]):.2f} and {median(took['undisturbed']):.2f} ms; longest {max(took[name]):.0f} ms",
        )


def _pause(ours: Server, data: Path, size: int, *, times: int) -> Figure:
    """Apply larger differences, and see how long the longest GET then takes."""
    _, load = cores()
    longest = []
    for change in (addition(size), removal(size)) * times:
        with beside(data, partial(_apply, change)):
            longest.append(max(pacer.run(load, Pace(ours.port, _RATE, 2 + size / 20_000))))
    spread = spread_of(longest)
    return Figure(
        name=f"longest GET beside a change of {size:,} VMs",
        measured=spread.high,
        unit="ms",
        spread=spread,
        detail="VMs added in one change, and removed in another",
    )


def _apply(change: FleetDiff, data: Path, _: Signal) -> None:
    with ControlClient.local(data) as client:
        client.change_fleet(change)
