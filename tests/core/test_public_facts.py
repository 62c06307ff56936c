"""What is shown of facts holds neither hashes, nor signing secrets, nor more of a URL than its host."""

from datetime import UTC, datetime

from forewarn.core.credentials import Role, Subscription, SubscriptionKind, Token
from forewarn.core.facts import Attempted, SubscriptionSet, TokenCreated, VmStarted
from forewarn.core.public_facts import public_fields


def test_secrets_are_left_out() -> None:
    """Every other field is there, as JSON has it."""
    token = Token("t1", "ci", Role.VIEWER, "5ec7e7", datetime(2026, 1, 1, tzinfo=UTC))
    hook = Subscription("s1", "ops", SubscriptionKind.SLACK, "https://hooks.slack.com/services/key", "whsec_key")

    assert public_fields(TokenCreated(token)) == {
        "fact": "token-created",
        "token": {"id": "t1", "name": "ci", "role": "viewer", "created_at": "2026-01-01T00:00:00Z"},
    }
    assert public_fields(SubscriptionSet(hook)) == {
        "fact": "subscription-set",
        "subscription": {"id": "s1", "name": "ops", "kind": "slack", "target": "https://hooks.slack.com/…"},
    }
    assert public_fields(VmStarted("web-0")) == {"fact": "vm-started", "vm": "web-0"}


def test_the_group_of_an_event_is_shown_with_the_event_alone() -> None:
    """A later fact about the event holds it for the service itself."""
    at = datetime(2026, 1, 1, tzinfo=UTC)

    assert public_fields(Attempted("e1", at, group="web")) == {
        "fact": "attempted",
        "event": "e1",
        "at": "2026-01-01T00:00:00Z",
    }


def test_a_mail_address_is_shown() -> None:
    """It opens nothing."""
    mail = Subscription("s1", "ops", SubscriptionKind.MAIL, "ops@example.org")

    assert public_fields(SubscriptionSet(mail))["subscription"] == {
        "id": "s1",
        "name": "ops",
        "kind": "mail",
        "target": "ops@example.org",
    }
