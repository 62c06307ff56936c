"""A storm of approvals, by this version of the service and by the version before its write path was made faster."""

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from threading import Event as Signal

from bench import baseline, fleets, nginx, pacer, service
from bench.approvals import Restart, announce_restarts, durable_approvals
from bench.disturbances import beside
from bench.figures import Figure, percentile, ratios, spread_of
from bench.generator import IN_FLIGHT, Generator
from bench.machine import cores, staying_on
from bench.pacer import Pace
from bench.processes import cpu_seconds, wait_until_idle
from bench.rounds import alternate
from bench.server import Server
from bench.slowest_gets import TAIL, tail_beside
from bench.wrk import TARGET

_CPU = 0.333
"""The most CPU per approval, of what the baseline needs."""
_GOAL = 12_000
"""Approvals per second."""
_WARM_UP = 1_000
"""Approvals to each server before anything is measured."""
_GETS = 1_000
"""GETs per second beside a storm."""
_LONGEST = 120.0
"""Seconds that a storm beside GETs may take."""
_BEGINNING = 30.0
"""Seconds until the GETs beside a storm must have begun."""


class _Side:
    """A server that takes approvals, and what they cost it; the warm-up does not count."""

    def __init__(
        self, server: Server, generator: Generator, restarts: Iterator[Restart], target: str = TARGET
    ) -> None:
        self._server = server
        self._generator = generator
        self._restarts = restarts
        self._target = target
        self.acknowledged = 0
        self.rates: list[float] = []
        self.storm(_WARM_UP)
        self.rates.clear()
        self._counted_from = cpu_seconds(server.pid), self.acknowledged

    def storm(self, number: int) -> float:
        """Let so many VMs approve; return the microseconds of CPU that each approval took meanwhile."""
        _, load = cores()
        some = list(islice(self._restarts, number))
        before = cpu_seconds(self._server.pid)
        done = self._generator.approve(load, self._server.port, some, self._target)
        self.acknowledged += done.requests
        self.rates.append(done.rate)
        return (cpu_seconds(self._server.pid) - before) / done.requests * 1e6

    def whole_cost(self) -> float:
        """Return the CPU of each approval, with all that the server did between the storms, in microseconds."""
        cpu, approvals = self._counted_from
        return (cpu_seconds(self._server.pid) - cpu) / (self.acknowledged - approvals) * 1e6


def approvals(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Let VMs approve restarts: what that costs, how many a second, and how GETs fare beside it."""
    generator = Generator(directory)
    yield from _compared(directory, generator, rounds=3 if quick else 12, number=1_000 if quick else 2_000)
    yield _gets(directory, generator, rounds=2 if quick else 10, number=2_000 if quick else 10_000)


def _compared(directory: Path, generator: Generator, *, rounds: int, number: int) -> Iterator[Figure]:
    core, _ = cores()
    ours = fleets.make_journal(directory / "ours", _WARM_UP + rounds * number)
    restarts = announce_restarts(ours, _WARM_UP + rounds * number)
    before = Path(shutil.copytree(ours, directory / "before"))
    logged = Path(shutil.copytree(ours, directory / "logged"))
    with ExitStack() as stack:
        serve = stack.enter_context
        empty = serve(nginx.serving(directory, core, {}, b""))
        sides = {
            "ours": _Side(serve(service.serving(ours, core)), generator, iter(restarts)),
            "before": _Side(
                serve(service.serving(before, core, environment=baseline.environment(directory))),
                generator,
                iter(restarts),
            ),
            "logged": _Side(
                serve(service.serving(logged, core, more=("--log-level", "info"))), generator, iter(restarts)
            ),
            "nginx": _Side(empty, generator, cycle(restarts), nginx.EMPTY),
        }
        costs = alternate({name: partial(side.storm, number) for name, side in sides.items()}, rounds)
        whole = {name: side.whole_cost() for name, side in sides.items()}
    for data, name in ((ours, "ours"), (before, "before"), (logged, "logged")):
        durable_approvals(data, sides[name].acknowledged)
    ratio = spread_of(ratios(costs["ours"], costs["before"]))
    yield Figure(
        name="CPU per approval over HTTP, against the version before",
        asked=f"at most {_CPU} of it",
        limit=_CPU,
        is_at_least=False,
        measured=ratio.median,
        spread=ratio,
        noise=spread_of([cost / median(costs["before"]) for cost in costs["before"]]),
        detail=f"{median(costs['ours']):.0f} µs against {median(costs['before']):.0f} µs; with what is done between"
        f" storms {whole['ours']:.0f} µs against {whole['before']:.0f} µs",
    )
    logging = spread_of(ratios(costs["logged"], costs["ours"]))
    yield Figure(
        name="CPU per approval at the default log level, against warnings only",
        measured=logging.median,
        spread=logging,
        detail=f"{median(costs['logged']):.0f} µs against {median(costs['ours']):.0f} µs, three lines each",
    )
    rate = spread_of(sides["ours"].rates)
    yield Figure(
        name=f"approvals per second, {IN_FLIGHT} connections at a time",
        measured=rate.median,
        unit="per second",
        spread=rate,
        detail=f"the goal is {_GOAL:,}; the version before {median(sides['before'].rates):,.0f}; the generator's own"
        f" ceiling, against nginx with an empty answer, {median(sides['nginx'].rates):,.0f}; all"
        f" {sides['ours'].acknowledged:,} acknowledged approvals are in the journal",
    )


def _gets(directory: Path, generator: Generator, *, rounds: int, number: int) -> Figure:
    """Measure GETs while as many VMs as possible approve, for as long as that lasts, and as long without."""
    core, load = cores()
    data = fleets.make_journal(directory / "gets", _WARM_UP + rounds * number)
    restarts = announce_restarts(data, _WARM_UP + rounds * number)
    took: dict[str, list[list[float]]] = {"storm": [], "without": []}
    with service.serving(data, core) as server, staying_on(load):
        side = _Side(server, generator, iter(restarts))

        def storm(begun: Path, over: Path, _data: Path, stop: Signal) -> None:
            until = time.monotonic() + _BEGINNING
            while not begun.exists() and time.monotonic() < until:
                if stop.wait(0.001):
                    return
            try:
                side.storm(number)
            finally:
                over.touch()

        def beside_storm() -> float:
            begun, over = directory / "begun", directory / "over"
            begun.unlink(missing_ok=True)
            over.unlink(missing_ok=True)
            with beside(data, partial(storm, begun, over)):
                took["storm"].append(pacer.run(load, Pace(server.port, _GETS, _LONGEST, str(over), str(begun))))
            return percentile(took["storm"][-1], TAIL)

        def without() -> float:
            wait_until_idle(server.pid)
            took["without"].append(pacer.run(load, Pace(server.port, _GETS, len(took["storm"][-1]) / _GETS)))
            return percentile(took["without"][-1], TAIL)

        alternate({"storm": beside_storm, "without": without}, rounds)
    durable_approvals(data, side.acknowledged)
    return tail_beside(f"a storm of approvals, {median(side.rates):,.0f} per second", took["storm"], took["without"])
