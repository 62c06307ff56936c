"""Rollouts: how long planning takes, what the next wave costs, and GETs beside a rollout."""

import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from math import log
from pathlib import Path
from statistics import median
from threading import Event as Signal

import msgspec

from bench import fleets, pacer, service
from bench.disturbances import beside
from bench.figures import Figure, percentile, spread_of
from bench.machine import cores, staying_on
from bench.pacer import Pace
from bench.rollout_planning import PlanningCost, WaveCost
from bench.rounds import alternate
from bench.slowest_gets import TAIL, tail_beside
from forewarn.control.bodies import RolloutBody, RolloutTermsBody
from forewarn.control.client import ControlClient
from forewarn.core.errors import ForewarnError
from forewarn.core.rollouts.model import RolloutOperation

_VMS, _HOSTS, _GROUPS = 100_000, 5_000, 2_000
_SIZES = (1_000, 10_000, 100_000, 1_000_000)
_QUICK_SIZES = (1_000, 10_000)
_VMS_PER_HOST, _VMS_PER_GROUP = 20, 50
_GIB = 2**30
_RATE = 1_000
_HURRY = "600"


def rollouts(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Plan rollouts in processes of their own, compute waves, and ask for documents beside one."""
    sizes = _QUICK_SIZES if quick else _SIZES
    costs = {size: _cost_of_planning(size) for size in sizes}
    yield from _planning(_cost_of_planning(_VMS))
    yield _growth(costs)
    yield _waves(10_000, 100_000 if quick else 1_000_000)
    yield from _slowest_gets(directory, quick=quick)


def _planning(cost: PlanningCost) -> Iterator[Figure]:
    what = f"{_VMS:,} VMs on {_HOSTS:,} hosts in {_GROUPS:,} groups"
    detail = f"{cost.waves:,} waves, with the processor's time; the fleet itself takes {cost.before / 2**20:.0f} MiB"
    yield Figure(
        name=f"planning of a rollout, {what}",
        asked="under 5 s",
        limit=5.0,
        is_at_least=False,
        measured=cost.seconds,
        unit="s",
        detail=detail,
    )
    yield Figure(
        name=f"memory of planning, {what}",
        asked="under 1 GiB",
        limit=1.0,
        is_at_least=False,
        measured=cost.peak / _GIB,
        unit="GiB",
        detail="the whole process, with the fleet",
    )


def _growth(costs: dict[int, PlanningCost]) -> Figure:
    rates = {size: cost.seconds / (size * log(size)) for size, cost in costs.items()}
    first, last = min(rates), max(rates)
    series = ", ".join(f"{cost.seconds:.2f} s for {size:,}" for size, cost in costs.items())
    return Figure(
        name=f"growth of planning from {first:,} to {last:,} VMs, against n log n",
        asked="at most 1.25: what is not in the processor's caches takes longer",
        limit=1.25,
        is_at_least=False,
        measured=rates[last] / rates[first],
        detail=series,
    )


def _waves(small: int, large: int) -> Figure:
    ratios = [_cost_of_waves(large).seconds / _cost_of_waves(small).seconds for _ in range(3)]
    return Figure(
        name=f"the next wave with {large:,} VMs, against {small:,}",
        asked="at most 1.25",
        limit=1.25,
        is_at_least=False,
        measured=median(ratios),
        spread=spread_of(ratios),
        detail="choosing and announcing a wave of ten hosts",
    )


def _cost_of_planning(size: int) -> PlanningCost:
    hosts, groups = max(1, size // _VMS_PER_HOST), max(1, size // _VMS_PER_GROUP)
    return msgspec.json.decode(_run("plan", size, hosts, groups), type=PlanningCost)


def _cost_of_waves(size: int) -> WaveCost:
    hosts, groups = max(1, size // _VMS_PER_HOST), max(1, size // _VMS_PER_GROUP)
    return msgspec.json.decode(_run("waves", size, hosts, groups), type=WaveCost)


def _run(*words: object) -> bytes:
    command = [sys.executable, "-m", "bench.rollout_planning", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def _slowest_gets(directory: Path, *, quick: bool) -> Iterator[Figure]:
    core, load = cores()
    data = fleets.make_journal(directory / "data", 10_000 if quick else _VMS)
    took: dict[str, list[list[float]]] = {"undisturbed": [], "a rollout": []}
    with service.serving(data, core, more=("--hurry", _HURRY)) as ours, staying_on(load):

        def phase(name: str) -> float:
            with beside(data, *((_roll_out,) if name == "a rollout" else ())):
                took[name].append(pacer.run(load, Pace(ours.port, _RATE, 2.0 if quick else 10.0)))
            return percentile(took[name][-1], TAIL)

        alternate({name: partial(phase, name) for name in took}, 2 if quick else 6)
    yield tail_beside("a rollout over all hosts", took["a rollout"], took["undisturbed"])


def _roll_out(data: Path, over: Signal) -> None:
    """Keep a rollout over all hosts going until the phase is over."""
    terms = RolloutTermsBody(operation=RolloutOperation.FREEZE, all_hosts=True, parallel=10)
    name = f"bench-{time.monotonic_ns()}"
    with ControlClient.local(data) as client:
        client.start_rollout(RolloutBody(name=name, terms=terms))
        over.wait()
        try:
            client.steer_rollout(name, "cancel")
            while client.rollouts():
                time.sleep(0.05)
        except ForewarnError:
            return  # it has ended by itself
