"""A cluster under load survives every fault: what was acknowledged is recorded once, and nothing is done twice."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.cluster.cluster_load import (
    FAULTS,
    LONGEST_OUTAGE,
    LoadedCluster,
    fail_over,
    kill_leader,
    pause_leader,
    pause_leader_before_a_call,
)
from tests.cluster.database_pair import DatabasePair, network_namespace

log = logging.getLogger(__name__)
pytestmark = pytest.mark.end_to_end

ROUNDS, IN_A_ROW = 4, 5
SEED = 1


def mixtures() -> list[list[Callable[[LoadedCluster], float]]]:
    """Return the faults of each round: every one at least once, the others and the order chosen at random."""
    random = Random(SEED)
    chosen = [*FAULTS, *random.choices(FAULTS, k=ROUNDS * IN_A_ROW - len(FAULTS))]
    random.shuffle(chosen)
    return [chosen[start : start + IN_A_ROW] for start in range(0, len(chosen), IN_A_ROW)]


@pytest.fixture(scope="module")
def databases() -> Iterator[DatabasePair]:
    with network_namespace():
        made = DatabasePair()
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def cluster(tmp_path: Path, databases: DatabasePair, request: pytest.FixtureRequest) -> Iterator[LoadedCluster]:
    databases.create_database()
    seed, fences = getattr(request, "param", (0, True))
    made = LoadedCluster(tmp_path, databases, seed, fences=fences)
    try:
        made.start()
        yield made
    finally:
        made.close()
    for node in made.nodes.values():
        assert "Traceback" not in node.log


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_loses_nothing_and_is_over_soon(
    cluster: LoadedCluster, fault: Callable[[LoadedCluster], float]
) -> None:
    """Operations and approvals go on at every node that runs; afterwards all nodes agree byte for byte."""
    with cluster.load():
        outage = fault(cluster)
    cluster.check()
    log.info("%s: served after %.1f s", fault.__name__, outage)
    assert outage < LONGEST_OUTAGE


@pytest.mark.parametrize("cluster", [(0, False)], indirect=True, ids=["not-fencing"])
@pytest.mark.parametrize("fault", [kill_leader, pause_leader, pause_leader_before_a_call, fail_over])
def test_a_driver_that_does_not_fence_terms_is_called_once(
    cluster: LoadedCluster, fault: Callable[[LoadedCluster], float]
) -> None:
    """An event that another leader has attempted is not tried again: its outcome is unknown."""
    test_a_fault_loses_nothing_and_is_over_soon(cluster, fault)


@pytest.mark.parametrize(
    ("cluster", "faults"),
    [((seed, True), faults) for seed, faults in enumerate(mixtures())],
    indirect=["cluster"],
    ids=range(ROUNDS),
)
def test_a_mixture_of_faults_loses_nothing(
    cluster: LoadedCluster, faults: list[Callable[[LoadedCluster], float]]
) -> None:
    """Faults in a row, chosen at random: twenty in all; none of them is noticed for long."""
    with cluster.load():
        outages = [(fault(cluster), fault.__name__) for fault in faults]
    cluster.check()
    log.info("served after %s", outages)
    assert max(outages)[0] < LONGEST_OUTAGE, outages
