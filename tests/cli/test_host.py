"""Commands on hosts: their state, and what stands in the way of maintenance."""

import json

import pytest

from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness


def test_the_state_of_a_host_is_told_until_it_is_repaired(harness: ApiHarness, forewarn: Forewarn) -> None:
    """In the list, in its own page, and in JSON; what was Scheduled because of it is canceled."""
    assert forewarn("host", "degrade", "h1", "--fails-within", "7d").code == 0
    assert forewarn("host", "fail", "h2", "--yes").code == 0

    listed = forewarn("host", "list", "--json").json
    assert [(host["name"], host["state"], host["vms"]) for host in listed] == [
        ("h1", "degraded", 2),
        ("h2", "failed", 2),
    ]
    assert forewarn("host", "list").out.split() == [
        "HOST",
        "STATE",
        "VMS",
        "h1",
        "degraded",
        "2",
        "h2",
        "failed",
        "2",
    ]
    assert forewarn("host", "show", "h1").out.split()[:4] == ["host", "h1", "state", "degraded"]
    assert "pool_0, web-0" in forewarn("host", "show", "h1").out
    assert forewarn("host", "show", "h2", "--json").json == {
        "name": "h2",
        "vms": 2,
        "state": "failed",
        "cordoned": False,
        "labels": {},
    }
    assert forewarn("host", "repaired", "h1").out == "h1 is up; 2 events are canceled\n"
    assert forewarn("host", "repaired", "h2", "--json").json["state"] == "up"
    assert forewarn("host", "repaired", "h2").out == "h2 is up\n"
    assert forewarn("host", "repaired", "h3").code == 1
    assert harness.ask("POST", "/v1/hosts/h2/operations", {"operation": "repaired", "duration": 3}).status == 400


def test_no_vm_is_added_to_a_failed_host(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The refusal says what to do instead."""
    forewarn("host", "fail", "h2", "--yes")

    refused = forewarn("vm", "add", "new", "--host", "h2")

    assert refused.code == 1
    assert (
        "has failed; choose another host, or, if it works again, record that: forewarn host repaired h2"
        in refused.err
    )
    assert "new" not in harness.node.replica.fleet.vms


@pytest.mark.usefixtures("harness")
def test_a_longer_prediction_tells_what_stands(forewarn: Forewarn) -> None:
    """Not that no VM runs there."""
    first = forewarn("host", "degrade", "h1", "--fails-within", "2d", "--json").json
    again = forewarn("host", "degrade", "h1", "--fails-within", "7d", "--json").json
    nearer = forewarn("host", "degrade", "h1", "--fails-within", "1d", "--json").json

    assert again == first
    assert [event["id"] for event in nearer] == [event["id"] for event in first]
    assert nearer[0]["not_before"] < first[0]["not_before"]


@pytest.mark.usefixtures("harness")
@pytest.mark.parametrize("operation", ["freeze", "reboot", "redeploy"])
def test_maintenance_that_is_unfinished_is_not_announced_again(forewarn: Forewarn, operation: str) -> None:
    """The refusal names the event that stands."""
    announced = forewarn("host", operation, "h1", "--json").json

    refused = forewarn("host", operation, "h1")

    assert refused.code == 1
    said = f"host h1 has an unfinished {operation} already: event {announced[0]['id']} and 1 more"
    assert said.lower() in refused.err.lower()


def test_an_announcement_in_quiet_hours_says_when_it_can_start(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Of one VM and of a host, and in the API; what takes no turns is not held up."""
    forewarn("group", "set", "web", "quiet_hours=00:00-06:30")

    one = forewarn("vm", "freeze", "web-0")
    assert ", when quiet hours end, unless approved before them" in one.out
    several = forewarn("host", "reboot", "h1")
    assert several.out.count("at the earliest: quiet hours of web") == 1
    announced = harness.ask("POST", "/v1/vms/web-1/operations", {"operation": "freeze"}).json
    assert announced["announcements"][0]["earliest_start"] == "2026-01-01T06:30:00Z"
    event = announced["announcements"][0]["event"]["id"]
    assert harness.ask("GET", f"/v1/events/{event}").json["earliest_start"] == "2026-01-01T06:30:00Z"
    harness.enrol("web", "web-1")
    announced = harness.ask("POST", "/v1/vms/web-1/operations", {"operation": "restart"}).json
    assert announced["announcements"][0]["earliest_start"] is None


@pytest.mark.usefixtures("harness")
def test_a_quorum_can_be_left_again(forewarn: Forewarn) -> None:
    """Another rule has none."""
    assert forewarn("group", "set", "web", "approval=quorum", "quorum=2").code == 0

    left = forewarn("group", "set", "web", "approval=any", "--json").json

    assert (left["approval"], left["policy"].get("quorum")) == ("any", None)


@pytest.mark.usefixtures("harness")
def test_only_spot_vms_are_evicted(forewarn: Forewarn) -> None:
    """Any other is refused with what can be done instead."""
    refused = forewarn("vm", "evict", "web-0", "--yes")

    assert (refused.code, "web-0 is not a spot VM" in refused.err) == (1, True)


def test_a_drain_prints_its_plan_and_its_events(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The plan changes nothing; the drain cordons the host and announces what the plan said."""
    planned = forewarn("host", "drain", "h1", "--dry-run")
    assert planned.out.splitlines()[0].split() == ["VM", "GROUP", "TO", "LIVE", "MEMORY", "CPUS"]
    assert planned.out.splitlines()[1].split() == ["pool_0", "pool", "h2", "no", "-", "-"]
    plan = forewarn("host", "drain", "h1", "--dry-run", "--json").json
    assert [(each["vm"], each["host"]) for each in plan["placements"]] == [("pool_0", "h2"), ("web-0", "h2")]
    assert not harness.node.replica.fleet.cordoned

    drained = forewarn("host", "drain", "h1", "--json").json
    assert [event["resources"] for event in drained] == [["pool_0"], ["web-0"]]
    assert [event.placements for event in harness.node.replica.fleet.events.values()] == [
        {"pool_0": "h2"},
        {"web-0": "h2"},
    ]
    assert forewarn("host", "list").out.splitlines()[1].split() == ["h1", "up,", "cordoned", "2"]
    assert forewarn("host", "show", "h1", "--json").json["cordoned"] is True

    again = forewarn("host", "drain", "h1")
    assert (again.code, "has an unfinished drain already: event " in again.err) == (1, True)
    assert forewarn("host", "uncordon", "h1").out == "h1 is up; 2 events are canceled\n"
    assert forewarn("host", "uncordon", "h1").out == "h1 is up\n"


@pytest.mark.usefixtures("harness")
@pytest.mark.parametrize("verb", ["cordon", "drain", "enter-maintenance"])
def test_an_event_that_may_still_move_vms_to_a_cordoned_host_is_named(forewarn: Forewarn, verb: str) -> None:
    """Its driver may have chosen the host before; the operator is told what to look at, and the history has it."""
    redeploy = forewarn("vm", "redeploy", "web-0", "--json").json["id"]
    assert forewarn("host", verb, "h2").out.splitlines()[-1] == (
        f"event {redeploy} started before and may still move VMs to h2; "
        "when it has ended, see 'forewarn vm list --host h2'"
    )
    lines = [json.loads(line) for line in forewarn("history", "--json").out.splitlines()]
    (line,) = (each for each in lines if each["fact"] == "host-cordon-set")
    assert line["detail"] == {"cordoned": True, "arriving": [redeploy]}


def test_who_cannot_go_is_named_before_anything_moves(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The refusal names the flag that goes on without them; then they are told again, and recorded."""
    assert forewarn("host", "cordon", "h2").out == "h2 is up, cordoned\n"
    refused = forewarn("host", "drain", "h1")
    assert refused.code == 1
    assert "these VMs cannot leave h1: pool_0 (no other host is up, not cordoned and not in a wave" in refused.err
    assert refused.err.rstrip().endswith("free capacity for them, or continue without them: --leave-stuck")
    assert list(harness.node.replica.fleet.cordoned) == ["h2"]
    assert "web-0 cannot leave h1: no other host" in forewarn("host", "drain", "h1", "--dry-run").out

    drained = forewarn("host", "drain", "h1", "--leave-stuck")
    assert drained.out.splitlines() == [
        "h1 is cordoned; no running VM has to leave it",
        "pool_0 stays on h1: no other host is up, not cordoned and not in a wave of a rollout",
        "web-0 stays on h1: no other host is up, not cordoned and not in a wave of a rollout",
    ]
    assert "left: pool_0 no other host" in forewarn("history", "--host", "h1", "--wide").out
    assert "host-cordon-set" in forewarn("history", "--vm", "web-0").out


def test_nothing_comes_to_a_cordoned_host(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The refusal says how to end that; what was moved by hand is recorded all the same."""
    forewarn("vm", "deallocate", "web-0")
    forewarn("host", "cordon", "h1")
    for words in (("vm", "add", "new", "--host", "h1"), ("vm", "move", "db", "h1"), ("vm", "start", "web-0")):
        refused = forewarn(*words)
        assert refused.code == 1
        assert refused.err.rstrip().endswith("forewarn host uncordon h1")
    assert forewarn("vm", "move", "db", "h1", "--record").code == 0
    assert harness.node.replica.fleet.vms["db"].standing_on == "h1"
    assert harness.ask("POST", "/v1/hosts/h1/operations", {"operation": "cordon", "leave_stuck": True}).status == 400


def test_deallocated_vms_stay_when_their_host_is_drained(harness: ApiHarness, forewarn: Forewarn) -> None:
    """They are told, so that nobody waits for them."""
    forewarn("vm", "deallocate", "web-0")

    assert "deallocated, and stay recorded on h1: web-0" in forewarn("host", "drain", "h1", "--dry-run").out
    assert "deallocated VMs that stay recorded on h1: 1" in forewarn("host", "drain", "h1").out
    assert harness.node.replica.fleet.vms["web-0"].standing_on == "h1"
