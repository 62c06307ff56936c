"""How fast whole systems are simulated: checked steps per second of one core, and the fixed seeds on two."""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time

from bench.figures import Figure, spread_of
from forewarn.simulator.seeds import run_seed, run_seeds

_SEEDS = 2_000
_QUICK_SEEDS = 20
_AT_A_TIME = 25


def simulator(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Run seeds in this process by its own time, then the fixed seeds in two processes."""
    del directory  # a simulation makes its own, in memory
    run_seed(0)  # loads the framework of the control API
    rates = [_steps_per_second(first) for first in range(0, _QUICK_SEEDS if quick else 500, _AT_A_TIME)]
    yield Figure(
        name="checked steps per second and core",
        asked="at least 3,000",
        limit=3_000.0,
        measured=spread_of(rates).median,
        unit="/s",
        spread=spread_of(rates),
        detail=f"exchanges and actions, by the processor's time, {_AT_A_TIME} seeds in a row",
    )
    seeds = range(_QUICK_SEEDS if quick else _SEEDS)
    began = perf_counter()
    runs = list(run_seeds(seeds, jobs=2))
    took = perf_counter() - began
    yield Figure(
        name=f"{len(seeds):,} seeds in two processes",
        asked="" if quick else "under 180 s",
        limit=None if quick else 180.0,
        is_at_least=False,
        measured=took,
        unit="s",
        detail=f"{sum(run.steps for run in runs):,} steps in {sum(run.seconds for run in runs) / 3600:.0f} h of"
        f" simulated time; 100,000 seeds take {100_000 * took / len(seeds) / 3600:.1f} h at this rate (asked: 2.5 h)",
    )


def _steps_per_second(first: int) -> float:
    began = process_time()
    steps = sum(run_seed(seed).steps for seed in range(first, first + _AT_A_TIME))
    return steps / (process_time() - began)
