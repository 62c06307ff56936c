"""Many rounds of faults on a service with workers under load, chosen at random by a seed."""

import logging
import os
from pathlib import Path

from tests.workers.worker_load import LoadedSite, play

log = logging.getLogger(__name__)


def test_rounds_of_random_faults_lose_nothing(tmp_path: Path) -> None:
    """ROUNDS rounds with SEED; after each, what was acknowledged is recorded once, and no incarnation fell."""
    seed, rounds = int(os.environ.get("SEED", "1")), int(os.environ.get("ROUNDS", "100"))
    loaded = LoadedSite(tmp_path, seed)
    try:
        for number, faults in enumerate(play(loaded, rounds), 1):
            log.info("round %d: %s", number, faults)
    finally:
        loaded.close()
    counts = len(loaded.announced), len(loaded.approved), loaded.shown
    log.info("%d restarts, %d approvals and %d documents were answered", *counts)
