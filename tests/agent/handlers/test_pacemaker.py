"""The pacemaker handler where there is no cluster; ``make test-pacemaker`` runs it with one."""

import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, Task
from forewarn.agent.handlers.pacemaker import PacemakerHandler, PacemakerSettings
from forewarn.core.errors import BadInput
from forewarn.core.model import EventStatus, EventType
from forewarn.wire.document import ScheduledEvent
from tests.agent.handlers.pages import HandlerPage


def task(direction: Direction, kept: dict[str, str] | None = None, seconds: float = 0.3) -> Task:
    return Task(
        event=ScheduledEvent(id="e", type=EventType.REBOOT, status=EventStatus.SCHEDULED, resources=("vm-0",)),
        vm="vm-0",
        direction=direction,
        deadline=datetime.now(UTC) + timedelta(seconds=seconds),
        stopping=threading.Event(),
        kept=kept or {},
    )


def test_missing_tools_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both directions name the tool and the package that has it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    handler = PacemakerHandler.from_settings({}, tmp_path)

    for answer in (handler.do(task(Direction.DO)), handler.undo(task(Direction.UNDO, {"n1": "off"}))):
        assert isinstance(answer, HandlerFailed)
        assert "is not installed; install Pacemaker's command-line tools (pacemaker-cli-utils)" in answer.reason


def test_a_node_that_was_never_touched_needs_no_cluster_to_be_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undo of nothing is done, even where Pacemaker was taken away."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert PacemakerHandler.from_settings({}, tmp_path).undo(task(Direction.UNDO)) == HandlerDone()


@pytest.mark.end_to_end
def test_the_node_that_is_set_is_put_in_standby(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster is not asked for the name of this machine."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked = tmp_path / "asked"
    for name, said in (("crm_attribute", "off"), ("crm_mon", "<pacemaker-result/>"), ("crm_node", "another")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} $* >> {asked}\necho '{said}'\n")
        (tmp_path / name).chmod(0o755)
    handler = PacemakerHandler.from_settings({"node": "n1", "poll": "0.05s"}, tmp_path / "kept")

    assert handler.do(task(Direction.DO, seconds=30)) == HandlerDone({"n1": "off"}, "nothing runs on n1")
    assert "crm_attribute --node n1 --name standby --update on --lifetime forever" in asked.read_text()
    assert "crm_node" not in asked.read_text()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"node": "--all"}, "setting 'node' of handler 'pacemaker': '--all' is not a node name"),
        ({"node": "n1 n2"}, "'n1 n2' is not a node name; see 'crm_node --list'"),
        ({"poll": "0s"}, "setting 'poll' of handler 'pacemaker' is too short"),
        ({"nod": "n1"}, "did you mean 'node'?"),
    ],
)
def test_a_wrong_setting_is_refused(tmp_path: Path, settings: dict[str, object], sentence: str) -> None:
    """Each mistake is one sentence with its remedy, and no cluster is asked for it."""
    with pytest.raises(BadInput) as refused:
        PacemakerHandler.from_settings(settings, tmp_path)

    assert sentence in str(refused.value)


def test_its_page_tells_every_setting(tmp_path: Path) -> None:
    """And its example can be used."""
    page = HandlerPage("pacemaker")

    page.assert_names_settings(PacemakerSettings)
    page.assert_examples_are_understood(PacemakerHandler, tmp_path)
