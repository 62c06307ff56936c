"""Mixed callers beside nginx, and the service beside itself with fleets of other sizes."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import callers, fleets, service
from bench.callers import Plan
from bench.figures import Figure, ratios, spread_of
from bench.machine import cores
from bench.pair import beside_nginx, compared
from bench.rounds import alternate
from bench.server import Server

_CALLERS = 10_000
_SIZES = (1_000, 100_000, 1_000_000)
_QUICK_SIZES = (1_000, 20_000)


def mixed(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Measure 10,000 callers with 1,000 header sets, all versions and 20 % If-None-Match, kept alive and not."""
    core, load = cores()
    who = list(range(_CALLERS))
    with service.serving(fleets.make_journal(directory / "data", _CALLERS), core) as ours:
        etags = _etags(ours, who)
        by_address = {fleets.address_of(number): etag for number, etag in zip(who, etags, strict=True)}
        for closing in (False, True):
            name = "one new connection per request" if closing else f"{_CALLERS:,} keep-alive connections"
            with beside_nginx(ours, directory, core, by_address, closing=closing) as servers:
                measures = {
                    name: partial(_cost, load, server, who, etags, 1.0, closing=closing)
                    for name, server in servers.items()
                }
                for server in servers.values():
                    _warm_up(server, who, etags, closing=closing)
                costs = alternate(measures, 3 if quick else 12)
            yield compared(f"mixed callers, {name}", 0.7, costs)
    yield from _sizes(directory, _QUICK_SIZES if quick else _SIZES, rounds=3 if quick else 12)


def _sizes(directory: Path, sizes: tuple[int, ...], *, rounds: int) -> Iterator[Figure]:
    """Measure the same number of callers, spread over the whole fleet, in fleets of other sizes."""
    core, load = cores()
    with ExitStack() as stack:
        measures = {}
        for size in sizes:
            who = list(range(0, size, size // sizes[0]))
            ours = stack.enter_context(service.serving(fleets.kept_journal(directory, size), core))
            etags = _etags(ours, who)
            _warm_up(ours, who, etags, closing=False)
            measures[f"{size}"] = partial(_cost, load, ours, who, etags, 1.0, closing=False)
        costs = alternate(measures, rounds)
    smallest = costs[f"{sizes[0]}"]
    for size in sizes[1:]:
        ratio = spread_of(ratios(costs[f"{size}"], smallest))
        yield Figure(
            name=f"a request at {size:,} VMs against one at {sizes[0]:,}",
            asked="at most 1.25 of its CPU",
            limit=1.25,
            is_at_least=False,
            measured=ratio.median,
            spread=ratio,
            detail=f"{sizes[0]:,} of the VMs ask, spread evenly;"
            f" {spread_of(smallest).median:.1f} and {spread_of(costs[f'{size}']).median:.1f} µs per request",
        )


def _etags(server: Server, who: list[int]) -> list[str]:
    _, core = cores()
    return callers.run(
        core, Plan(port=server.port, pid=server.pid, callers=who, closing=True, wants_etags=True)
    ).etags


def _warm_up(server: Server, who: list[int], etags: list[str], *, closing: bool) -> None:
    """Let every caller send once what it will go on sending."""
    _, core = cores()
    for share in (0.0, 1.0):
        plan = Plan(port=server.port, pid=server.pid, callers=who, etags=etags, closing=closing, conditional=share)
        callers.run(core, plan)


def _cost(core: int, server: Server, who: list[int], etags: list[str], seconds: float, *, closing: bool) -> float:
    plan = Plan(port=server.port, pid=server.pid, callers=who, etags=etags, seconds=seconds, closing=closing)
    return callers.run(core, plan).cost
