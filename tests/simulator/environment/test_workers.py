"""Workers in a simulation: they answer guests, die and lag, and every promise is kept all the same."""

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from forewarn.simulator.generator import make_plan
from forewarn.simulator.simulation import Simulation
from forewarn.workers.publication import Publication

SEEDS = range(40, 48)


def run(seed: int, directory: Path) -> tuple[list[str], Counter[str], str]:
    directory.mkdir(exist_ok=True)
    plan = replace(make_plan(seed), has_sqlite=False, workers=2)
    report = Simulation(plan, directory).run()
    return report.problems, report.reached, report.digest


@pytest.mark.end_to_end
def test_promises_are_kept_while_workers_die_and_lag(tmp_path: Path) -> None:
    """Both happen in a few seeds, and equal seeds give equal runs."""
    reached: Counter[str] = Counter()
    digests: list[str] = []
    for seed in SEEDS:
        problems, found, digest = run(seed, tmp_path / str(seed))
        assert problems == []
        reached += found
        digests.append(digest)
    assert reached["worker killed"] > 0
    assert reached["worker lagging"] > 0
    assert run(SEEDS[0], tmp_path / "again")[2] == digests[0]


@pytest.mark.end_to_end
def test_a_leader_that_does_not_wait_for_its_workers_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows what some of them do not hold."""

    async def publish(self: Publication, revision: int, *_: object) -> None:
        self.revision = revision
        self._shown[0] = revision

    monkeypatch.setattr(Publication, "publish", publish)
    assert any("FellBehind" in each for each in run(SEEDS[0], tmp_path)[0])
