"""What an operator of a cluster copies and types, with real servers: docs/operate/ and deploy/cluster/."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.cluster.membership import LEASE
from forewarn.config import settings
from tests.cluster.cluster_processes import until
from tests.cluster.database_pair import network_namespace
from tests.deploy.documented_cluster import DEPLOY, PAGES, VMS, DocumentedCluster

CLUSTER = DEPLOY / "cluster"
GATE = "https://10.0.0.10:8255"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DocumentedCluster]:
    """Yield a cluster that was set up by the page; its commands were typed, and its checks agree."""
    with network_namespace():
        made = DocumentedCluster()
        try:
            made.set_up()
            yield made
        finally:
            made.close()


@pytest.mark.end_to_end
def test_the_page_sets_up_three_nodes(cluster: DocumentedCluster) -> None:
    """One leads, all know each other, and each answers every VM."""
    until(lambda: all(len(view.nodes) == 3 for node in cluster.nodes.values() if (view := node.view())))
    assert {cluster.leader().name} | {node.name for node in cluster.followers()} == set(cluster.nodes)
    for node in cluster.nodes.values():
        assert [node.get(vm) for vm in VMS] == [200, 200]
        assert "Traceback" not in node.log


def test_the_example_of_settings_can_be_loaded() -> None:
    """It is what the service takes, and names every setting of a cluster."""
    found = settings.load({}, {}, CLUSTER / "forewarn.toml")

    assert found.journal_name == "postgresql"
    named = set(re.findall(r"^(\w+) =", (CLUSTER / "forewarn.toml").read_text("ascii"), re.MULTILINE))
    asked = {name for name in settings.KEYS if name.startswith(("cluster", "node", "behind", "answer_behind"))}
    assert asked <= named


@pytest.mark.end_to_end
def test_systemd_accepts_the_drop_in(tmp_path: Path) -> None:
    """Without an error, and without a warning; a stop leaves time to pass leadership on."""
    (tmp_path / "forewarn.service").write_text((DEPLOY / "systemd" / "forewarn.service").read_text("utf-8"))
    (tmp_path / "forewarn.service.d").mkdir()
    drop_in = (CLUSTER / "forewarn.service.d" / "cluster.conf").read_text("utf-8")
    (tmp_path / "forewarn.service.d" / "cluster.conf").write_text(drop_in)
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "forewarn.service"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    assert "TimeoutStopSec=60s" in drop_in


@pytest.mark.end_to_end
def test_haproxy_leads_around_a_node_that_ends(cluster: DocumentedCluster) -> None:
    """Operators are answered through it whichever node leads, also just after a node was killed."""

    def ask() -> str:
        return cluster.machines["gate"].run(f"forewarn --url {GATE} vm list", is_checked=False)

    assert "web-0" in ask()
    leader = cluster.leader()
    leader.kill()
    until(lambda: "web-0" in ask(), 10)
    assert cluster.leader() is not leader
    until(lambda: "web-0" in ask(), 10)
    leader.start()
    until(lambda: all(len(view.nodes) == 3 for node in cluster.nodes.values() if (view := node.view())))


@pytest.mark.end_to_end
def test_a_node_that_is_told_to_stop_passes_leadership_on(cluster: DocumentedCluster) -> None:
    """Another node leads as soon as its process has ended: none waits for the end of its lease."""
    leader = cluster.leader()
    leader.stop()
    until(lambda: any(node.is_leading() for node in cluster.nodes.values()), LEASE)
    leader.start()


@pytest.mark.end_to_end
def test_a_follower_says_nothing_of_writing(cluster: DocumentedCluster) -> None:
    """So that no alert about the journal fires for it; the leader can write."""
    follower = next(iter(cluster.followers()))
    for node, expected in ((cluster.leader(), ["1.0"]), (follower, [])):
        asked = f"curl -s --unix-socket {node.data}/control.sock http://localhost/metrics"
        result = node.machine.run(asked)
        assert re.findall(r"^forewarn_journal_writable (.*)$", result, re.MULTILINE) == expected
        assert "\nforewarn_cluster_leading " in result


@pytest.mark.end_to_end
def test_the_page_on_backups_restores_a_point_in_time(cluster: DocumentedCluster) -> None:
    """The restored server accepts writes, and holds what was there at that time and nothing newer."""
    page = (PAGES / "back-up-and-restore.md").read_text("utf-8")
    backup, restore = re.findall(r"<!-- on: \w+ -->\n+```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    database, restored = cluster.machines["db1"], cluster.machines["restored"]
    psql = "sudo -u postgres psql -At forewarn -c"
    database.run(backup)
    last = f'{psql} "TABLE forewarn.head" | cut -d"|" -f2'
    before, then = database.run(last), database.run(f'{psql} "SELECT clock_timestamp()"').strip()
    cluster.machines["gate"].run(f"forewarn --url {GATE} vm restart web-1 --not-before +1h")
    assert int(database.run(last)) > int(before)
    switched = database.run(f'{psql} "SELECT pg_walfile_name(pg_switch_wal())"').strip()
    until((database.path("/var/backups/postgresql/wal") / switched).exists)

    restored.add_postgresql()
    restored.run("systemctl stop postgresql; rm -r $PGDATA")
    subprocess.run(["cp", "-a", database.path("/var/backups"), restored.path("/var/lib/..")], check=True)
    restored.run(f"TIME='{then}'\n{restore}")
    until(lambda: restored.run(f'{psql} "SELECT pg_is_in_recovery()"') == "f\n")
    assert restored.run(last) == before


@pytest.mark.end_to_end
def test_the_page_on_failover_promotes_a_standby(cluster: DocumentedCluster) -> None:
    """The primary is killed; after what the page says the nodes write again, without a restart, and agree."""
    cluster.machines["db1"].run("kill -9 $(head -1 $PGDATA/postmaster.pid)")
    cluster.type_page("fail-over.md")

    def restart() -> bool:
        said = cluster.machines["gate"].run(f"forewarn --url {GATE} vm restart web-1", is_checked=False)
        return "event " in said or "unfinished" in said

    until(restart, 30)
    assert all((view := node.view()) and view.reloads == 0 for node in cluster.nodes.values())
    in_step = "SELECT application_name, sync_state FROM pg_stat_replication"
    until(lambda: cluster.machines["db2"].run(f'sudo -u postgres psql -Atc "{in_step}"') == "db3|quorum\n")
