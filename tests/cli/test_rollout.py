"""Commands on rollouts: planned, started, steered and shown."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forewarn.cli import watching
from forewarn.cli.rollout import _row
from forewarn.cli.rollout_output import rollout_lines
from forewarn.control.client import ControlClient
from forewarn.control.rollout_views import RolloutDetail, RolloutHostView, RolloutView
from forewarn.core.rollouts.facts import RolloutWaveStarted
from forewarn.core.rollouts.model import HostStep, RolloutOperation, RolloutTerms
from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_plan_prints_waves_prediction_and_slow_groups(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Nothing is changed."""
    told = forewarn("rollout", "plan", "kernel", "--operation", "reboot", "--hosts", "h*")
    assert told.code == 0
    assert told.out.splitlines()[0].split() == ["WAVE", "STARTS", "ENDS", "HOSTS"]
    assert "slow: group" in told.out
    assert "2 waves; ends at about" in told.out
    assert harness.node.replica.fleet.rollouts == {}


def test_a_plan_that_cannot_be_carried_out_names_why(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The exit code says so; start refuses it likewise."""
    given = ("--operation", "reboot", "--all", "--group-share", "20%")
    told = forewarn("rollout", "plan", "kernel", *given)
    assert (told.code, "is less than one VM" in told.out) == (1, True)
    refused = forewarn("rollout", "start", "kernel", *given)
    assert (refused.code, "or more" in refused.err) == (1, True)
    assert harness.node.replica.fleet.rollouts == {}


def test_a_rollout_is_started_shown_and_steered(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Each command shows what it made of it."""
    assert "is running" in forewarn("rollout", "start", "kernel", "--operation", "reboot", "--all").out
    again = forewarn("rollout", "start", "kernel", "--operation", "reboot", "--all")
    assert (again.code, "rollout kernel is running already" in again.err) == (1, True)
    paused = forewarn("rollout", "pause", "kernel").out.splitlines()
    assert paused[0].startswith("rollout kernel (reboot) is paused: paused by ")
    assert paused[-1] == "go on: forewarn rollout resume kernel; end it: forewarn rollout cancel kernel"
    assert forewarn("rollout", "edit", "kernel", "--parallel", "2", "--json").json["terms"]["parallel"] == 2
    assert "is running" in forewarn("rollout", "resume", "kernel").out
    assert forewarn("rollout", "skip", "kernel", "h1", "--json").json["skipped"] == 1
    assert forewarn("rollout", "retry", "kernel", "h1", "--json").json["skipped"] == 0
    assert forewarn("rollout", "list", "--json").json[0]["name"] == "kernel"
    forewarn("rollout", "cancel", "kernel", "--yes")
    harness.advance_rollouts()
    assert "is canceled: canceled by" in forewarn("rollout", "show", "kernel").out
    assert forewarn("rollout", "list").out == "no rollout is under way\n"
    assert "canceled" in forewarn("rollout", "list", "--all").out


def test_a_saved_plan_is_refused_after_the_fleet_changed(
    harness: ApiHarness, forewarn: Forewarn, tmp_path: Path
) -> None:
    """It names the wave that would be another one."""
    assert forewarn("rollout", "plan", "k", "--operation", "reboot", "--hosts", "h*", "--out", "p.json").code == 0
    assert len(json.loads((tmp_path / "p.json").read_text())["waves"]) == 2
    forewarn("host", "fail", "h1", "--yes")
    refused = forewarn("rollout", "start", "k", "--plan", "p.json")
    assert refused.code == 1
    assert "wave 1 was h1, and would be h2 now; plan it again" in refused.err
    assert harness.node.replica.fleet.rollouts == {}
    forewarn("host", "repaired", "h1")
    assert forewarn("rollout", "start", "k", "--plan", "p.json").code == 0


def test_what_waits_for_whom_is_shown(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Approval, and until when."""
    forewarn("rollout", "start", "k", "--operation", "reboot", "--hosts", "h1")
    harness.advance_rollouts()
    shown = forewarn("rollout", "show", "k").out
    assert "h1 is announced since" in shown
    assert "waits for approval until" in shown
    assert any(isinstance(fact, RolloutWaveStarted) for fact in harness.recorded())


@pytest.mark.usefixtures("harness")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--all",), "say what is done to each host"),
        (("--operation", "reboot"), "no hosts are named"),
        (("--operation", "reboot", "--hosts", "x*"), "no host matches 'x*'"),
        (("--operation", "reboot", "--all", "--fleet-share", "0"), "write it like 20%"),
        (
            ("--operation", "reboot", "--all", "--fleet-share", "half"),
            "'half' is not a valid share; write it like 20% or 0.2",
        ),
        (("--operation", "reboot", "--all", "--order", "size"), "is not one of name, fewest-vms"),
        (("--operation", "reboot", "--all", "--parallel-per", "rack"), "write it like rack=2"),
        (("--operation", "reboot", "--all", "--gate-command", "x"), "set gate_programs"),
        (("--operation", "reboot", "--all", "--gate-url", "http://127.0.0.1:1/"), "does not answer"),
        (("--command", "update", "--all"), "the driver cannot run commands on hosts"),
        (("--operation", "reboot", "--all", "--window", "Sat 02:00-02:00"), "different times of day"),
        (("--operation", "reboot", "--hosts", "h1,h2"), "give --hosts once for each"),
    ],
)
def test_invalid_input_is_refused_with_its_remedy(forewarn: Forewarn, given: tuple[str, ...], words: str) -> None:
    """Before anything is announced, and without a traceback."""
    refused = forewarn("rollout", "start", "k", *given)
    assert refused.code in (1, 2)
    assert words in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.usefixtures("harness")
def test_what_cannot_be_saved_or_found_says_what_to_do(forewarn: Forewarn) -> None:
    """A directory that is missing, and a rollout that never was."""
    given = ("--operation", "reboot", "--hosts", "h1", "--out", "missing/plan.json")
    unsaved = forewarn("rollout", "plan", "kernel", *given)
    assert (unsaved.code, "name a file in a directory of yours" in unsaved.err) == (2, True)
    unknown = forewarn("rollout", "show", "kernel")
    assert (unknown.code, "'forewarn rollout list --all' shows them" in unknown.err) == (1, True)
    planned = forewarn("rollout", "plan", "kernel", "--operation", "reboot", "--hosts", "h1")
    assert "\n1 wave; ends at about" in planned.out


def test_a_rollout_is_shown_until_it_has_ended(
    harness: ApiHarness, forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it became is the last thing that is printed."""
    monkeypatch.setattr(watching, "SETTLE", 0.01)
    forewarn("rollout", "start", "kernel", "--operation", "reboot", "--all")

    look = ControlClient.rollout

    def look_and_cancel(client: ControlClient, name: str) -> RolloutDetail:
        found = look(client, name)
        if found.state == "running":
            harness.ask("POST", f"/v1/rollouts/{name}/cancel")
            harness.advance_rollouts()
        return found

    monkeypatch.setattr(ControlClient, "rollout", look_and_cancel)
    told = forewarn("rollout", "show", "kernel", "--watch")

    assert told.code == 0
    assert told.out.splitlines()[0] == "rollout kernel (reboot) is running"
    assert "is canceled: canceled by" in told.out


def test_what_withdraws_events_asks_first(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Without a terminal it needs --yes; a pause that withdraws nothing does not ask."""
    forewarn("rollout", "start", "kernel", "--operation", "reboot", "--all")
    for command in (("cancel", "kernel"), ("pause", "kernel", "--withdraw")):
        refused = forewarn("rollout", *command)
        assert (refused.code, "give --yes" in refused.err) == (2, True)
    assert harness.node.replica.fleet.rollouts["kernel"].state == "running"
    paused = forewarn("rollout", "pause", "kernel")
    assert "\nno end is predicted while it is paused\n" in paused.out


@pytest.mark.usefixtures("harness")
def test_gate_windows_alerts_and_settle_time_can_be_removed(forewarn: Forewarn) -> None:
    """By an edit; one that also sets what it removes is refused."""
    given = ("--operation", "reboot", "--all", "--window", "00:00-23:00", "--settle", "10m")
    assert forewarn("rollout", "start", "kernel", *given).code == 0
    edited = forewarn("rollout", "edit", "kernel", "--no-windows", "--no-gate", "--settle", "0s", "--json").json[
        "terms"
    ]
    assert not {"windows", "settle", "gate", "alerts"} & {key for key, value in edited.items() if value}
    both = forewarn("rollout", "edit", "kernel", "--no-windows", "--window", "00:00-23:00")
    assert (both.code, "leave one of them out" in both.err) == (2, True)


def test_a_recurring_rollout_that_rests_shows_its_last_run(harness: ApiHarness, forewarn: Forewarn) -> None:
    """What came of it, when the next one begins, and how to end it."""
    forewarn("rollout", "start", "k", "--operation", "reboot", "--hosts", "h1", "--every", "7d")
    forewarn("rollout", "skip", "k", "h1")
    harness.advance_rollouts()
    lines = forewarn("rollout", "show", "k").out.splitlines()
    assert lines[0].startswith("rollout k (reboot) is resting")
    assert lines[1].startswith("run 1 is completed, ")
    assert lines[1].endswith(": 0 done, 0 failed, 1 skipped")
    assert lines[2].endswith("; end it: forewarn rollout cancel k")


def test_a_plan_names_a_gate_that_cannot_run_and_a_rollout_in_the_way(
    harness: ApiHarness, forewarn: Forewarn
) -> None:
    """As start does."""
    given = ("--operation", "reboot", "--hosts", "h1")
    gate = forewarn("rollout", "plan", "kernel", *given, "--gate-command", "is-well")
    assert (gate.code, "problem: gates may run no programs here" in gate.out) == (1, True)
    forewarn("rollout", "start", "kernel", *given)
    again = forewarn("rollout", "plan", "kernel", *given)
    assert (again.code, "problem: rollout kernel is running already" in again.out) == (1, True)
    other = forewarn("rollout", "plan", "other", *given)
    assert (other.code, "problem: rollout kernel has host h1" in other.out) == (1, True)
    assert harness.ask("PATCH", "/v1/rollouts/kernel", {"gate": {"command": " "}}).status == 409
    assert harness.ask("PATCH", "/v1/rollouts/kernel", {"gate": {"url": "http://[::1"}}).status == 409


def test_history_shows_the_decisions_of_a_rollout(harness: ApiHarness, forewarn: Forewarn) -> None:
    """And nothing else."""
    forewarn("rollout", "start", "kernel", "--operation", "reboot", "--all")
    forewarn("rollout", "start", "other", "--operation", "freeze", "--all", "--on-conflict", "queue")
    harness.advance_rollouts()
    lines = [json.loads(line) for line in forewarn("history", "--rollout", "kernel", "--json").out.splitlines()]
    assert {"rollout-started", "rollout-wave-started"} <= {line["fact"] for line in lines}
    assert {line["detail"]["rollout"] for line in lines} == {"kernel"}


def test_a_rollout_that_waits_for_its_window_says_until_when() -> None:
    """The VMs are told before the window opens, so that there are two times."""
    found = RolloutDetail(
        name="k",
        state="paused",
        reason="host h2 failed: no room",
        blocked="the next maintenance window opens at 2026-01-03T01:00:00Z; VMs are told before",
        blocked_until=datetime(2026, 1, 3, 0, 45, tzinfo=UTC),
        operation="reboot",
        by="root",
        started_at=NOW,
        wave=1,
        hosts=3,
        done=0,
        failed=1,
        skipped=0,
        active=1,
        waiting=1,
        terms=RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True),
        current=(
            RolloutHostView(
                host="h1", step=HostStep.SETTLING, wave=1, since=NOW, until=NOW + timedelta(minutes=5), reason=""
            ),
        ),
    )
    lines = list(rollout_lines(found, NOW))
    assert lines[-3].startswith("waits until Sat 3 Jan 00:45 UTC: the next maintenance window opens at")
    assert lines[-2] == "h1 is settling since 12:00:00 UTC until 12:05 UTC"
    assert lines[-1].startswith("try failed hosts again: forewarn rollout retry k; go on: forewarn rollout resume k;")


@pytest.mark.parametrize(("failed", "shown"), [(0, "-"), (3, "3")])
def test_a_list_tells_how_many_hosts_failed(failed: int, shown: str) -> None:
    """None is a dash."""
    view = RolloutView(
        name="kernel", state="running", operation="reboot", by="ada", started_at=NOW, wave=1,
        hosts=9, done=4, failed=failed, skipped=0, active=1, waiting=1,
    )  # fmt: skip

    assert _row(view)[:7] == ("kernel", "reboot", "running", "1", "9", "4", shown)


@pytest.mark.usefixtures("harness")
def test_a_file_that_holds_no_plan_is_refused(forewarn: Forewarn, tmp_path: Path) -> None:
    """The sentence names the file and the command that saves one."""
    (tmp_path / "p.json").write_text("{", encoding="utf-8")
    refused = forewarn("rollout", "start", "k", "--plan", "p.json")

    assert refused.code == 2
    assert "p.json is not a plan saved by 'forewarn rollout plan --out'" in refused.err
