"""What ``crm_mon`` of Pacemaker 2.1.5 wrote of a real cluster is understood."""

from pathlib import Path

import pytest

from forewarn.agent.handlers.pacemaker_tools import ToolFailed, read_resources

RECORDED = Path(__file__).parent / "crm_mon"


def on_n1(name: str) -> list[str]:
    return [each.id for each in read_resources((RECORDED / f"{name}.xml").read_text()) if each.may_be_on("n1")]


def moving(name: str) -> list[tuple[str, str]]:
    found = read_resources((RECORDED / f"{name}.xml").read_text())
    return [(each.id, each.role) for each in found if each.is_moving()]


def test_resources_are_found_at_every_depth() -> None:
    """Plain ones, instances of a clone, and members of a group."""
    assert on_n1("before") == ["web", "db", "each", "ga", "gb"]
    assert moving("before") == []


def test_what_is_being_stopped_may_still_be_here() -> None:
    """Pacemaker names no node for it, so it counts for every node."""
    assert moving("stopping") == [("db", "Stopping")]
    assert "db" in on_n1("stopping")


def test_what_is_being_started_elsewhere_moves_and_is_not_here() -> None:
    """The node that it starts on is named."""
    assert moving("starting") == [("db", "Starting")]
    assert "db" not in on_n1("starting")


def test_a_node_in_standby_is_free_in_the_end() -> None:
    """A clone's instance that has nowhere to go is stopped, and on no node."""
    assert on_n1("moved") == []
    assert moving("moved") == []


def test_what_the_cluster_does_not_manage_is_known() -> None:
    """It will not move by itself."""
    found = read_resources((RECORDED / "unmanaged.xml").read_text())

    assert [each.id for each in found if not each.is_managed] == ["gb"]


def test_a_cluster_without_resources_is_empty() -> None:
    """There is nothing to wait for."""
    assert read_resources("<pacemaker-result><nodes/></pacemaker-result>") == []


def test_what_is_no_xml_is_told() -> None:
    """An old tool prints something else."""
    with pytest.raises(ToolFailed, match="what crm_mon wrote cannot be read: "):
        read_resources("Online: [ n1 n2 ]")
