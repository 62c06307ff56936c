"""What ``crm_mon`` of Pacemaker 2.1.5 wrote of a real cluster is understood."""

import os
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forewarn.agent.handler import Direction, Task
from forewarn.agent.handlers.pacemaker_tools import (
    PacemakerToolFailed,
    end_standby,
    is_standby,
    own_node,
    read_resources,
    set_standby,
)
from tests.agent.harness import event

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
    with pytest.raises(PacemakerToolFailed, match="the output of crm_mon cannot be read: "):
        read_resources("Online: [ n1 n2 ]")


def tool(directory: Path, script: str, name: str = "crm_node") -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def asked(seconds: float = 30.0) -> Task:
    return Task(
        event=event(),
        vm="web-0",
        direction=Direction.DO,
        deadline=datetime.now(UTC) + timedelta(seconds=seconds),
        stopping=threading.Event(),
    )


@pytest.mark.end_to_end
def test_a_tool_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what holds its output open."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    tool(tmp_path, f"sleep 60 & echo $! > {tmp_path}/pid; wait")

    with pytest.raises(PacemakerToolFailed, match="crm_node took too long and was stopped"):
        own_node(asked(seconds=3.0))
    status = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/status")
    until = time.monotonic() + 30
    with suppress(FileNotFoundError, ProcessLookupError):
        while "zombie" not in status.read_text():
            assert time.monotonic() < until
            time.sleep(0.01)


@pytest.mark.end_to_end
def test_a_long_answer_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large cluster has much to tell."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    tool(tmp_path, "head -c 1000000 /dev/zero | tr '\\0' n")

    assert own_node(asked()) == "n" * 1_000_000


@pytest.mark.end_to_end
def test_what_a_tool_complains_of_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last words, and what to see to where the cluster does not answer."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    tool(tmp_path, "echo no such node >&2; exit 6")
    with pytest.raises(PacemakerToolFailed, match="crm_node ended with exit code 6: no such node"):
        own_node(asked())
    tool(tmp_path, "echo refused >&2; exit 102")
    with pytest.raises(PacemakerToolFailed, match=r"does not answer on this machine \(refused\); check that it runs"):
        own_node(asked())


@pytest.mark.end_to_end
def test_a_standby_is_set_read_and_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool prints a bare value only with --quiet, and forgets the attribute only with --delete."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    attribute = tmp_path / "attribute"
    tool(
        tmp_path,
        f"""
        case " $* " in
            *" --update on "*) echo on > {attribute} ;;
            *" --delete "*) rm {attribute} ;;
            *" --query --quiet "*) cat {attribute} 2>/dev/null || echo off ;;
            *) echo "scope=nodes name=standby value=$(cat {attribute})" ;;
        esac
        """,
        "crm_attribute",
    )

    set_standby("n1", asked())
    assert is_standby("n1", asked())
    end_standby("n1", asked())
    assert not is_standby("n1", asked())
    assert not attribute.exists()
