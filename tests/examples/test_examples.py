"""The small clients under ``examples/`` do what their page says, against the emulator."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.conformance.checks import RuleOutcome
from forewarn.conformance.trials import try_out
from forewarn.testing import ScheduledEvents

pytestmark = pytest.mark.end_to_end
EXAMPLES = Path(__file__).parents[2] / "examples"
Command = Callable[[Path], list[str]]


def bash(_: Path) -> list[str]:
    return ["bash", str(EXAMPLES / "bash/events.sh")]


def python(_: Path) -> list[str]:
    return [sys.executable, str(EXAMPLES / "python/events.py")]


def csharp(directory: Path) -> list[str]:
    program = directory / "Events.exe"
    source = EXAMPLES / "csharp/Events.cs"
    subprocess.run(["mcs", f"-out:{program}", "-r:System.Runtime.Serialization.dll", source], check=True)
    return ["mono", str(program)]


@pytest.fixture(params=[bash, python, csharp], ids=lambda make: make.__name__)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    make: Command = request.param
    return make(tmp_path)


def look(client: list[str], vm: str = "web-0") -> list[str]:
    """Let the client look once, with a proxy in its way that nobody answers; return what it says."""
    trap = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    out = subprocess.run(
        [*client, vm, "once"], env=os.environ | trap, capture_output=True, text=True, check=True, timeout=60
    )
    assert out.stderr == ""
    return out.stdout.splitlines()


@pytest.mark.scheduled_events("web-0", "web-1")
def test_a_client_gets_ready_and_approves_its_own_event_only(
    client: list[str], scheduled_events: ScheduledEvents
) -> None:
    """A reboot is prepared for; the neighbour's event is left alone; a second look finds nothing to do."""
    assert look(client) == []
    mine = scheduled_events.vm("web-0").reboot()
    neighbours = scheduled_events.vm("web-1").freeze()

    said = look(client, "WEB-0")

    assert [line.split()[0] for line in said] == ["Reboot", "getting", "approved"]
    scheduled_events.expect_approved(mine, by="web-0")
    scheduled_events.expect_not_approved(neighbours)
    assert look(client) == []


def test_a_client_lets_a_short_freeze_pass(client: list[str], scheduled_events: ScheduledEvents) -> None:
    """What is over in seconds is approved without further ado; a longer one is prepared for."""
    short = scheduled_events.vms[0].freeze(seconds=5)
    assert [line.split()[0] for line in look(client, scheduled_events.vms[0].name)] == ["Freeze", "approved"]
    scheduled_events.expect_approved(short)
    scheduled_events.advance("20m")

    scheduled_events.vms[0].freeze(seconds=60)

    said = look(client, scheduled_events.vms[0].name)
    assert [line.split()[0] for line in said] == ["Freeze", "getting", "approved"]


def test_a_client_outlives_an_endpoint_that_fails(client: list[str], scheduled_events: ScheduledEvents) -> None:
    """It says so at most, and ends well."""
    scheduled_events.fail_next(status=500)

    out = subprocess.run([*client, "web-0", "once"], env=os.environ, capture_output=True, timeout=60, check=False)

    assert out.returncode == 0
    assert b"Traceback" not in out.stderr


def test_a_client_passes_our_own_trials(client: list[str]) -> None:
    """Those that an endpoint in bad shape is for; whoever takes an example takes no fault with it."""
    trials = ("notices-a-cancel", "stands-500", "stands-empty-body", "stands-half-body")
    findings = try_out(f"{shlex.join(client)} {{vm}}", only=trials)

    assert {each.rule: each for each in findings if each.outcome is not RuleOutcome.KEPT} == {}


def test_a_client_that_is_told_no_name_says_how_it_is_used(client: list[str]) -> None:
    """In one line."""
    out = subprocess.run(client, capture_output=True, text=True, timeout=60, check=False)

    assert out.returncode != 0
    assert "usage: " in out.stderr
    assert out.stderr.count("\n") == 1
