"""Facts as they are shown outside."""

import re
from datetime import UTC, datetime
from uuid import uuid4

import msgspec

from forewarn.core.facts import (
    Announced,
    Attempted,
    Canceled,
    Delivered,
    Fetch,
    Fetched,
    SubscriptionRemoved,
    SubscriptionSet,
    TokenCreated,
    TokenRevoked,
    VmMoved,
    VmStarted,
    VmSwitched,
    Waiting,
)
from forewarn.core.model import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    InstanceFacts,
    Operation,
    Role,
    Subscription,
    SubscriptionKind,
    Token,
    Vm,
)
from forewarn.wire.facts import public_fields, show_ids, show_record

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ID, OTHER = str(uuid4()), str(uuid4())
EVENT = Event(
    ID, EventType.FREEZE, EventSource.PLATFORM, "web", ("web-0",), EventStatus.SCHEDULED, NOW, NOW,
    Operation.VM_FREEZE, waits_for=OTHER,
)  # fmt: skip
SUBSCRIPTION = Subscription(ID, "ops", SubscriptionKind.WEBHOOK, "https://example.org", types=(EventType.PREEMPT,))


def test_an_event_in_a_fact_is_spelled_as_its_vms_read_it() -> None:
    """Id, type, status and source."""
    shown = show_record(Announced(EVENT))["event"]

    assert isinstance(shown, dict)
    assert {key: shown[key] for key in ("id", "type", "status", "source", "waits_for")} == {
        "id": ID.upper(),
        "type": "Freeze",
        "status": "Scheduled",
        "source": "Platform",
        "waits_for": OTHER.upper(),
    }


def test_every_id_in_a_fact_is_shown_in_one_case() -> None:
    """Wherever it stands in it."""
    facts = [
        Announced(EVENT),
        Canceled(ID, NOW, f"after {OTHER}"),
        Waiting(ID, NOW, OTHER),
        Fetched((Fetch(ID, "web-0", NOW),)),
        SubscriptionSet(SUBSCRIPTION),
        SubscriptionRemoved(ID),
        Delivered({ID: 4}),
        VmSwitched("web-0", ID, on=True, at=NOW),
    ]
    text = msgspec.json.encode([show_record(fact) for fact in facts]).decode()

    assert ID.upper() in text
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", text.replace(ID.upper(), "").replace(OTHER.upper(), ""))
    assert show_record(SubscriptionSet(SUBSCRIPTION))["subscription"]["types"] == ["Preempt"]  # type: ignore[index]


def test_what_is_no_id_of_ours_stays_as_it_was_given() -> None:
    """A VM's own id is the operator's, and a name may look like anything."""
    vm = Vm(ID, "web", instance=InstanceFacts(vm_id=ID))

    assert show_record(vm) == msgspec.to_builtins(vm)
    assert show_record(VmMoved(ID, "h1"))["vm"] == ID
    assert show_record(TokenRevoked("0123abcd"))["token"] == "0123abcd"  # noqa: S105


def test_a_sentence_shows_the_ids_in_it_in_one_case() -> None:
    """The rules write them as the journal keeps them."""
    assert show_ids(f"event {ID} has started") == f"event {ID.upper()} has started"


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
