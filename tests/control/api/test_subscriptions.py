"""Subscriptions over the control API."""

from tests.harness import ApiHarness


def test_a_secret_that_cannot_sign_is_refused(harness: ApiHarness) -> None:
    """Before the subscription is added, rather than with its first message."""
    body = {"name": "ops", "kind": "webhook", "target": "https://example.org/", "secret": "whsec_short"}
    said = harness.ask("POST", "/v1/subscriptions", body)

    assert (said.status, "a signing secret is" in said.json["detail"]) == (400, True)
    assert not harness.node.replica.fleet.subscriptions
