"""A million VMs that asked once and are idle: what they weigh, and how long a restart takes."""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from bench import callers, fleets, service
from bench.callers import Plan
from bench.figures import Figure, spread_of
from bench.machine import cores
from bench.processes import memory_of

_SIZE = 1_000_000
_QUICK_SIZE = 50_000
_BATCH = 100_000


def memory(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Measure the mixed fleet, then the one where every VM stands alone."""
    size = _QUICK_SIZE if quick else _SIZE
    yield from _weigh(directory, "mixed fleet", size, fleets.mixed, restarts=1 if quick else 3, is_asked=True)
    yield from _weigh(
        directory, "standalone VMs, each with its own vm_id", size, fleets.standalone, restarts=1, is_asked=False
    )


def _weigh(
    directory: Path, name: str, size: int, member: fleets.Member, *, restarts: int, is_asked: bool
) -> Iterator[Figure]:
    core, load = cores()
    data = fleets.kept_journal(directory, size, member)
    starts = []
    for _ in range(restarts):
        began = perf_counter()
        with service.serving(data, core) as ours:
            ours.ask()
            starts.append(perf_counter() - began)
            if len(starts) < restarts:
                continue
            fresh = memory_of(ours.pid)
            for start in range(0, size, _BATCH):
                who = list(range(start, min(start + _BATCH, size)))
                callers.run(load, Plan(port=ours.port, pid=ours.pid, callers=who, closing=True))
            asked = memory_of(ours.pid)
    yield Figure(
        name=f"memory per idle VM, {size:,} VMs, {name}",
        asked="at most 1,024 bytes" if is_asked else "",
        limit=1024.0 if is_asked else None,
        is_at_least=False,
        measured=asked.resident / size,
        unit="bytes",
        detail=f"resident {asked.resident / 2**20:,.0f} MiB (proportional {asked.proportional / 2**20:,.0f} MiB), the"
        f" interpreter included; {fresh.resident / size:,.0f} bytes per VM before anybody asked",
    )
    restart = spread_of(starts)
    yield Figure(
        name=f"restart from the snapshot, {size:,} VMs, {name}",
        asked="under 20 s" if is_asked else "",
        limit=20.0 if is_asked else None,
        is_at_least=False,
        measured=restart.median,
        unit="s",
        spread=restart,
        detail="from the start of the process to its first answer",
    )
