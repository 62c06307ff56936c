"""Commands on VMs."""

from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness


def test_a_removed_vm_and_its_canceled_events_are_named_for_programs(harness: ApiHarness, forewarn: Forewarn) -> None:
    """As JSON."""
    event = forewarn("vm", "freeze", "web-0", "--json").json["id"]
    removed = forewarn("vm", "remove", "web-0", "--yes", "--cancel-events", "--json").json

    assert removed == {"removed": "web-0", "canceled": [event]}
    assert "web-0" not in harness.node.replica.fleet.vms
