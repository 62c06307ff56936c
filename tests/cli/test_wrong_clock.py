"""A service that is really started with a clock ten years ahead, stopped, and started with the right one."""

import shutil
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forewarn.control.bodies import HostOperationBody
from forewarn.control.client import ControlClient
from tests.cli import test_serve
from tests.cli.test_serve import FOREWARN, PATIENCE, running
from tests.harness import FLEET
from tests.ports import free_port

pytestmark = pytest.mark.end_to_end


def test_a_start_ten_years_ahead_leaves_nothing_behind_but_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event starts, no history goes; afterwards events are announced for the present, and the step is told."""
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")
    data = tmp_path / "data"
    faketime = shutil.which("faketime")
    assert faketime, "install Debian's faketime"
    ahead = tmp_path / "ahead"
    # The program itself stays a parent that passes no signal on; what it sets for its child is enough.
    preset = f"$({faketime} -f +3650d env | grep -E '^(LD_PRELOAD|FAKETIME)=')"
    ahead.write_text(f'#!/bin/sh\nexec env {preset} {sys.executable} {FOREWARN} "$@"\n', encoding="utf-8")
    ahead.chmod(0o755)
    arguments = ("serve", "--data", "data", "--metadata", f"127.0.0.1:{free_port()}", "--fleet", "fleet.toml")

    def visit(program: Path | str) -> tuple[list[datetime | None], tuple[str, ...]]:
        monkeypatch.setattr(test_serve, "FOREWARN", str(program))
        with running(*arguments, cwd=tmp_path, until=data) as service:
            with ControlClient.local(data) as client:
                events = [event.not_before for event in client.events()]
                warnings = client.health().warnings
            service.send_signal(signal.SIGTERM)
            assert service.wait(PATIENCE) == 0
        return events, warnings

    with running(*arguments, cwd=tmp_path, until=data) as service:
        with ControlClient.local(data) as client:
            client.operate_host("h1", HostOperationBody(operation="freeze"))
        service.send_signal(signal.SIGTERM)
        assert service.wait(PATIENCE) == 0
    before, _ = visit(FOREWARN)
    while_ahead, warned = visit(ahead)
    after, still_warned = visit(FOREWARN)

    assert while_ahead == after == before
    assert before
    assert all(when and when < datetime.now(UTC) + timedelta(hours=1) for when in before)
    assert [sum("the clock showed" in each for each in found) for found in (warned, still_warned)] == [1, 1]
