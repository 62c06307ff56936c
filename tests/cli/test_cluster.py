"""``forewarn cluster status``: the nodes that share the journal, in a table of 80 columns or as JSON."""

from forewarn.control.bodies import ClusterNodeView, ClusterStatus
from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness


def node(number: int, **more: object) -> ClusterNodeView:
    result: dict[str, object] = {
        "name": f"node-{number}",
        "address": f"10.0.0.{number}:8257",
        "release": "0.9.0",
        "format": 3,
        "revision": 1_234_567,
        "can_lead": True,
        "age": 0.31,
        "role": "following",
        "revisions_behind": 0,
        "behind": 0.04,
    }
    return ClusterNodeView(**(result | more))  # type: ignore[arg-type]


STATUS = ClusterStatus(
    node="node-2",
    leader="node-1",
    term=7,
    revision=1_234_567,
    format=3,
    database="postgresql://db1:5432,db2:5432/forewarn",
    nodes=(
        node(1, role="leading"),
        node(2, can_lead=False, revisions_behind=12, behind=1.25, warnings=("its clock is 5 s ahead",)),
        node(3, role="silent", behind=None, age=61.2, revisions_behind=900),
    ),
    warnings=("node node-3 sent its last heartbeat 61 s ago",),
)


async def status() -> ClusterStatus:
    return STATUS


def test_the_nodes_are_shown_in_a_table(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Who leads, how far each of them is, and what needs attention; no line is longer than 80 columns."""
    harness.context.cluster_status = status
    ran = forewarn("cluster", "status")

    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [
        "node-1 leads in term 7; revision 1234567; format 3",
        "postgresql://db1:5432,db2:5432/forewarn",
        "NODE    ROLE                    BEHIND      HEARTBEAT   RELEASE  ADDRESS",
        "node-1  leading                 0 (0.0 s)   0.3 s ago   0.9.0    10.0.0.1:8257",
        "node-2  following, cannot lead  12 (1.2 s)  0.3 s ago   0.9.0    10.0.0.2:8257",
        "node-3  silent                  900         61.2 s ago  0.9.0    10.0.0.3:8257",
        "warning: node node-3 sent its last heartbeat 61 s ago",
        "warning: node node-2: its clock is 5 s ahead",
    ]
    assert max(map(len, ran.out.splitlines())) <= 80


def test_programs_read_it_as_json(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The fields are those of the control API."""
    harness.context.cluster_status = status
    ran = forewarn("cluster", "status", "--json")

    assert ran.json["leader"] == "node-1"
    assert ran.json["nodes"][1]["warnings"] == ["its clock is 5 s ahead"]
    assert ran.json == harness.ask("GET", "/v1/cluster").json


def test_without_a_leader_the_first_line_says_so(harness: ApiHarness, forewarn: Forewarn) -> None:
    """An operator looks at it because nothing works."""

    async def leaderless() -> ClusterStatus:
        return ClusterStatus(
            node="n1", leader="", term=7, revision=5, format=3, database="postgresql://db/f", nodes=(), warnings=()
        )

    harness.context.cluster_status = leaderless
    assert forewarn("cluster", "status").out.startswith("no node leads in term 7; revision 5")


def test_a_service_of_one_node_has_no_cluster(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The refusal says why."""
    ran = forewarn("cluster", "status")

    assert ran.code == 1
    assert ran.err.startswith("forewarn: this service has one node: its journal is shared with none")
    assert harness.ask("GET", "/v1/cluster").status == 409
