"""Whole systems with faults keep every promise: fixed seeds, and those that once found something."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from forewarn.simulator.seeds import run_seed

SEEDS = 2000
AT_A_TIME = 50
FIRST = 10
"""What `make check` runs."""
PORTIONS = [range(max(first, FIRST), first + AT_A_TIME) for first in range(0, SEEDS, AT_A_TIME)]


CORPUS = [
    int(seed)
    for seed in re.findall(r"^(\d+) \S", Path(__file__).with_name("corpus.txt").read_text("utf-8"), re.MULTILINE)
]


def broken(seeds: Iterable[int]) -> str:
    """Return the problems of the seeds, each with the command that shows how it came about."""
    return "\n".join(
        f"{problem} (python -m forewarn.simulator --seed {seed})"
        for seed in seeds
        for problem in run_seed(seed).problems
    )


def named(seeds: range) -> str:
    return f"{seeds.start}-{seeds.stop - 1}"


def test_the_first_seeds_keep_every_promise() -> None:
    """Whatever fails, whenever: nothing acknowledged is lost, nothing is done twice, everything ends."""
    assert broken(range(FIRST)) == ""


@pytest.mark.end_to_end
@pytest.mark.parametrize("seeds", PORTIONS, ids=named)
def test_all_fixed_seeds_keep_every_promise(seeds: range) -> None:
    """As the first ones, with more faults in more combinations."""
    assert broken(seeds) == ""


@pytest.mark.end_to_end
def test_what_once_failed_keeps_every_promise() -> None:
    """A mended fault stays mended."""
    assert broken(CORPUS) == ""


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.end_to_end), 1, 2])
def test_a_seed_gives_the_same_run_twice(seed: int) -> None:
    """Else no failure could be replayed."""
    assert run_seed(seed).digest == run_seed(seed).digest


@pytest.mark.end_to_end
def test_a_seed_gives_the_same_run_in_every_process() -> None:
    """The order of sets, which each process draws anew, decides nothing; `make test-pythons` runs the same seeds."""
    program = "from forewarn.simulator.seeds import digests; print(*digests(range(20)))"
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": order},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for order in ("1", "2")
    }

    assert len(said) == 1
