"""Faults at random under load: kills and stops of leader and workers lose nothing, and show nothing backwards."""

from pathlib import Path

import pytest

from tests.workers.worker_load import LoadedSite, play

pytestmark = pytest.mark.end_to_end

ROUNDS = 3


@pytest.mark.parametrize("seed", [1, 2])
def test_a_few_rounds_of_random_faults_lose_nothing(tmp_path: Path, seed: int) -> None:
    """Each acknowledged command is in the journal once, and no incarnation falls."""
    loaded = LoadedSite(tmp_path, seed)
    try:
        assert len(list(play(loaded, ROUNDS))) == ROUNDS
    finally:
        loaded.close()
