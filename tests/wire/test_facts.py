"""Facts as they are shown outside."""

import re
from datetime import UTC, datetime
from uuid import UUID

import msgspec
import pytest

from forewarn.core.declared_keys import HeldChange, HoldReason, RecordKind
from forewarn.core.facts import (
    Announced,
    Asked,
    Attempted,
    Canceled,
    ClockStepped,
    Delivered,
    Fetch,
    Fetched,
    FleetChanged,
    Mark,
    ObservationRecorded,
    SubscriptionRemoved,
    SubscriptionSet,
    TokenCreated,
    TokenRevoked,
    VmMoved,
    VmRemoved,
    VmStarted,
    VmSwitched,
    Waiting,
)
from forewarn.core.model import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    GroupKind,
    GroupTerms,
    InstanceFacts,
    Observation,
    ObservationKind,
    Operation,
    Role,
    Subscription,
    SubscriptionKind,
    Token,
    Vm,
)
from forewarn.wire.facts import describe_held, public_fields, show_ids, show_record

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ID, OTHER = str(UUID(int=0xA << 120)), str(UUID(int=0xB << 120))
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


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (
            HeldChange(RecordKind.VM, "web-0", HoldReason.EVENT, ("group", "spot"), ID),
            f"VM web-0: change of group, spot waits until event {ID.upper()} ends",
        ),
        (
            HeldChange(
                RecordKind.HOST, "h1", HoldReason.IN_USE, because=f"event {ID} moves a VM there", is_removal=True
            ),
            f"host h1: removal waits: event {ID.upper()} moves a VM there",
        ),
        (
            HeldChange(RecordKind.GROUP, "web", HoldReason.TOO_MANY, because="1 of 1 VMs would be removed"),
            "group web: addition waits for 'forewarn fleet apply FILE --yes': 1 of 1 VMs would be removed",
        ),
    ],
)
def test_a_held_change_says_what_waits_and_until_when(held: HeldChange, said: str) -> None:
    """An event's end, room, or the operator's word."""
    assert describe_held(held) == said


def test_lists_and_rows_in_a_fact_are_shown_whole() -> None:
    """With the ids and words in them as they are shown."""
    assert show_record(Fetched((Fetch(ID, "web-0", NOW),)))["fetches"] == [
        [ID.upper(), "web-0", "2026-01-01T00:00:00Z"]
    ]
    assert show_record(Delivered({ID: 4}))["revisions"] == {ID.upper(): 4}
    assert show_record(Announced(EVENT))["event"]["resources"] == ["web-0"]  # type: ignore[index]
    change = FleetChanged(groups=(GroupTerms("web", GroupKind.AVAILABILITY_SET),), removed_vms=("web-0",))
    assert show_record(change) == msgspec.json.decode(msgspec.json.encode(change))


@pytest.mark.parametrize(
    "fact",
    [
        Asked((Mark("web", NOW, "web-0"),)),
        ObservationRecorded(Observation("web-0", ObservationKind.CRASHED, NOW)),
        ClockStepped(NOW, NOW),
    ],
)
def test_a_fact_without_secrets_is_shown_whole(fact: Asked | ObservationRecorded | ClockStepped) -> None:
    """As JSON has it."""
    assert public_fields(fact) == msgspec.to_builtins(fact)


def test_the_group_of_a_vm_that_was_removed_is_shown() -> None:
    """Nobody could ask for it any more."""
    assert public_fields(VmRemoved("web-0", "deleted", group="web"))["group"] == "web"
