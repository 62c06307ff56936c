"""Commands on VMs."""

from pathlib import Path

import pytest

from tests.cli.conftest import Forewarn
from tests.harness import FLEET, ApiHarness, open_harness


def test_a_removed_vm_and_its_canceled_events_are_named_for_programs(harness: ApiHarness, forewarn: Forewarn) -> None:
    """As JSON."""
    event = forewarn("vm", "freeze", "web-0", "--json").json["id"]
    removed = forewarn("vm", "remove", "web-0", "--yes", "--cancel-events", "--json").json

    assert removed == {"removed": "web-0", "canceled": [event]}
    assert "web-0" not in harness.node.replica.fleet.vms


def test_a_move_is_recorded(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Where the driver cannot carry it out; a second time it changes nothing."""
    assert forewarn("vm", "move", "web-0", "h2").out == "web-0 is on host h2\n"
    assert forewarn("vm", "move", "web-0", "h2", "--json").json["host"] == "h2"
    assert harness.node.replica.fleet.vms["web-0"].standing_on == "h2"
    assert harness.node.replica.fleet.events == {}
    refused = forewarn("vm", "move", "web-0", "h1", "--duration", "3")
    assert (refused.code, "only recorded" in refused.err) == (1, True)
    assert forewarn("vm", "move", "web-0", "h9").code == 1
    assert forewarn("vm", "move", "nobody", "h1").code == 1


@pytest.mark.usefixtures("harness")
def test_a_move_is_refused_while_an_event_depends_on_the_place(forewarn: Forewarn) -> None:
    """The refusal names the event."""
    (event,) = forewarn("host", "freeze", "h2", "--json").json[:1]

    refused = forewarn("vm", "move", event["resources"][0], "h1")

    assert (refused.code, event["id"].lower() in refused.err.lower()) == (1, True)


def test_a_driver_moves_the_guest_after_notice(tmp_path: Path, forewarn: Forewarn) -> None:
    """Announced as a live migration, to that host; with --record nothing is announced."""
    with open_harness(tmp_path, moves_live=True, moves_to_host=True) as harness:
        harness.declare(FLEET)

        event = forewarn("vm", "move", "web-0", "h2", "--json").json
        again = forewarn("vm", "move", "web-0", "h2")
        recorded = forewarn("vm", "move", "db", "h1", "--record")

        assert (event["type"], event["not_before"]) == ("Freeze", "2026-01-01T00:15:00Z")
        assert (again.code, event["id"].lower() in again.err.lower()) == (1, True)
        assert recorded.out == "db is on host h1\n"
        story = harness.ask("GET", f"/v1/events/{event['id']}").json
        assert (story["target"], story["operation"], story["source"]) == ("h2", "vm move", "Platform")
        assert harness.node.replica.fleet.vms["web-0"].standing_on == "h1"
