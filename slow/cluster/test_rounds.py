"""Many rounds of faults on one cluster under load, chosen at random by a seed."""

import logging
import os
from pathlib import Path
from random import Random

from tests.cluster.cluster_load import FAULTS, LONGEST_OUTAGE, LoadedCluster
from tests.cluster.database_pair import DatabasePair, network_namespace

log = logging.getLogger(__name__)


def test_rounds_of_random_faults_lose_nothing(tmp_path: Path) -> None:
    """ROUNDS rounds with SEED; after each of them everything that was acknowledged is recorded once."""
    seed, rounds = int(os.environ.get("SEED", "1")), int(os.environ.get("ROUNDS", "200"))
    random = Random(seed)
    outages: list[float] = []
    with network_namespace():
        databases = DatabasePair()
        cluster = LoadedCluster(tmp_path, databases, seed)
        try:
            cluster.start()
            for number in range(1, rounds + 1):
                with cluster.load():
                    for fault in random.choices(FAULTS, k=random.randint(1, 3)):
                        outages.append(fault(cluster))
                        log.info("round %d: %s, served after %.1f s", number, fault.__name__, outages[-1])
                cluster.check()
        finally:
            cluster.close()
            databases.close()
    log.info("longest outage of %d faults: %.1f s", len(outages), max(outages))
    assert max(outages) < LONGEST_OUTAGE
    assert not any("Traceback" in node.log for node in cluster.nodes.values())
