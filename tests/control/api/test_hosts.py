"""Hosts over the control API."""

from tests.harness import ApiHarness


def test_a_host_is_added_with_its_labels(harness: ApiHarness) -> None:
    """In the order of their keys."""
    said = harness.ask("POST", "/v1/hosts", {"name": "h9", "labels": {"rack": "r1", "os": "linux"}})

    assert said.status == 201, said.json
    assert list(harness.node.replica.fleet.hosts["h9"].labels.items()) == [("os", "linux"), ("rack", "r1")]
