"""What is told of each fact, and how CloudEvents writes it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from forewarn.control.notifications.formats import headline
from forewarn.control.notifications.notification import (
    Notification,
    NotificationType,
    cloud_event,
    gap_notification,
    make_test_notification,
    matches_subscription,
    notification_of,
    removal_notifications,
    rollout_notification,
)
from forewarn.core import facts, lifecycle
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Approved,
    Attempted,
    BroughtForward,
    Canceled,
    Completed,
    Entry,
    Failed,
    Postponed,
    Started,
    StartedAtOnce,
    Waiting,
)
from forewarn.core.model import NODE, Caller, CallerKind, EventStatus, EventType, Subscription, SubscriptionKind, Vm
from forewarn.core.rollouts import facts as rollout_facts
from forewarn.core.rollouts.model import Rollout, RolloutOperation, RolloutResult, RolloutTerms
from tests.control.notifications.samples import AT, message
from tests.wire.samples import event

ROOT = Caller(CallerKind.OPERATOR, "root", "control.sock")
WEB = Caller(CallerKind.VM, "web-0")
EVENT = event()
LATER = EVENT.not_before + timedelta(minutes=5)
AT_ONCE = event(status=EventStatus.STARTED, without_notice="host failed", started_at=AT)

NAMED = "root (control.sock)"
EARLIER = "the hardware is expected to fail earlier than was announced"
TOLD: list[tuple[Any, str, str, str, str]] = [
    (Announced(event(reason="it is the fairest")), "scheduled", "Scheduled", NAMED, "it is the fairest"),
    (StartedAtOnce(AT_ONCE), "started", "Started", NAMED, "host failed"),
    (Approved(EVENT.id, AT, WEB), "approved", "Scheduled", "web-0", ""),
    (Postponed(EVENT.id, AT, WEB, 300, LATER, "backup"), "postponed", "Scheduled", "web-0", "by 300 s: backup"),
    (BroughtForward(EVENT.id, AT, LATER), "advanced", "Scheduled", NAMED, EARLIER),
    (Started(EVENT.id, AT, "due"), "started", "Started", NAMED, "due"),
    (Completed(EVENT.id, AT, "moved"), "completed", "Completed", NAMED, "moved"),
    (Failed(EVENT.id, AT, "no power"), "failed", "Failed", NAMED, "no power"),
    (Canceled(EVENT.id, AT, "canceled by root"), "canceled", "Canceled", NAMED, "canceled by root"),
]


def message_of(fact: AnyFact) -> Notification | None:
    before = AT_ONCE if isinstance(fact, Attempted | Completed | Failed) else EVENT
    after = lifecycle.follow(before, fact)  # type: ignore[arg-type]
    assert after is not None
    return notification_of(Entry(7, AT, "c", ROOT, (fact,)), 0, after)


@pytest.mark.parametrize(
    ("fact", "kind", "status", "by", "reason"), TOLD, ids=[type(each[0]).__name__ for each in TOLD]
)
def test_each_fact_is_told_with_status_cause_and_reason(
    fact: AnyFact, kind: str, status: str, by: str, reason: str
) -> None:
    """What happened, how the event stands after it, who did it and why."""
    message = message_of(fact)
    assert message is not None
    body = msgspec.json.decode(cloud_event(message, "urn:forewarn:site"))

    assert body["type"] == f"io.forewarn.event.{kind}"
    assert body["data"]["EventStatus"] == status
    assert (body["data"]["By"], body["data"]["Reason"]) == (by, reason)


@pytest.mark.parametrize("fact", [Waiting(EVENT.id, AT, "x"), Attempted(EVENT.id, AT)])
def test_inner_matters_are_not_told(fact: AnyFact) -> None:
    """That an event waits its turn, or that the driver is called, changes nothing for those outside."""
    assert message_of(fact) is None


def test_a_message_has_all_that_cloudevents_asks_for() -> None:
    """And its id is made of the revision and the number of the fact."""
    entry = Entry(7, AT, "c", ROOT, (Attempted(EVENT.id, AT), Completed(EVENT.id, AT)))
    message = notification_of(entry, 1, event(status=EventStatus.COMPLETED))
    assert message is not None
    body = msgspec.json.decode(cloud_event(message, "urn:forewarn:site"))
    del body["data"]

    assert body == {
        "specversion": "1.0",
        "id": "7-1",
        "source": "urn:forewarn:site",
        "type": "io.forewarn.event.completed",
        "subject": EVENT.id.upper(),
        "time": "2026-03-05T06:53:09Z",
        "datacontenttype": "application/json",
    }


def test_a_change_of_time_is_told_with_the_new_time() -> None:
    """NotBefore is what the fact made it."""
    postponed = message_of(Postponed(EVENT.id, AT, WEB, 300, LATER))
    assert postponed is not None

    assert msgspec.json.decode(cloud_event(postponed, "s"))["data"]["NotBefore"] == "Thu, 05 Mar 2026 07:13:09 GMT"
    assert postponed.reason == "by 300 s"


def test_an_approval_that_does_not_count_says_so() -> None:
    """The receiver must not take it for the word that was awaited."""
    message = message_of(Approved(EVENT.id, AT, WEB, counts=False))

    assert message is not None
    assert "does not count" in message.reason


@pytest.mark.parametrize(
    ("groups", "types", "wanted"),
    [
        ((), (), True),
        (("web",), (), True),
        (("db",), (), False),
        ((), (EventType.FREEZE,), True),
        ((), (EventType.REBOOT,), False),
        (("web", "db"), (EventType.REBOOT, EventType.FREEZE), True),
        (("web",), (EventType.REBOOT,), False),
    ],
)
def test_filters_go_by_group_and_by_type(
    groups: tuple[str, ...],
    types: tuple[EventType, ...],
    wanted: bool,  # noqa: FBT001 - it is what the table says
) -> None:
    """Both must fit; none is no limit."""
    subscription = Subscription("1", "ops", SubscriptionKind.WEBHOOK, "http://x", groups=groups, types=types)

    assert matches_subscription(message(), subscription) is wanted
    assert matches_subscription(gap_notification(1, 2, AT), subscription)


def test_what_is_about_no_event_has_a_detail_instead() -> None:
    """What is missing, and what is a test."""
    missed = msgspec.json.decode(cloud_event(gap_notification(3, 9, AT), "s"))
    trial = msgspec.json.decode(cloud_event(make_test_notification("ab", AT, "ops"), "s"))

    assert (missed["id"], missed["type"], "subject" in missed) == ("missed-3-9", "io.forewarn.missed", False)
    assert "from revision 3 to 9" in missed["data"]["Detail"]
    assert (trial["id"], trial["type"]) == ("test-ab", NotificationType.TEST)
    assert "this is a test of the subscription 'ops'" in trial["data"]["Detail"]


def test_the_page_tells_every_type_and_key() -> None:
    """Whoever writes a receiver finds all of them."""
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "notifications.md").read_text(encoding="utf-8")
    example = msgspec.json.decode(page.partition("```json\n")[2].partition("```")[0])
    sent = msgspec.json.decode(cloud_event(message(), "s"))

    assert [each for each in NotificationType if f"| `{each}` |" not in page] == []
    assert (list(example), list(example["data"])) == (list(sent), list(sent["data"]))


def test_a_rollout_is_told_when_it_starts_pauses_is_late_and_finishes() -> None:
    """To subscriptions without a filter; what its hosts do in between is told by their events."""
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)
    rollout = Rollout(name="kernel", id="1", by="ann", terms=terms, hosts=("h1", "h2"), started_at=AT)
    result = (
        rollout_facts.RolloutStarted(rollout),
        rollout_facts.RolloutPaused("kernel", AT, "the gate failed: 500"),
        rollout_facts.RolloutLate("kernel", AT, AT),
        rollout_facts.RolloutEnded("kernel", AT, RolloutResult.COMPLETED, done=2),
    )
    entry = Entry(7, AT, "c", NODE, (*result, rollout_facts.RolloutResumed("kernel", AT, "resumed by ann")))
    messages = [rollout_notification(entry, number) for number in range(5)]

    assert [message.type.rpartition(".")[2] if message else None for message in messages] == [
        "started",
        "paused",
        "late",
        "finished",
        None,
    ]
    paused = messages[1]
    assert paused is not None
    assert (
        msgspec.json.decode(cloud_event(paused, "here"))["data"]["Detail"]
        == "rollout kernel pauses: the gate failed: 500"
    )
    assert headline(paused) == "Rollout kernel pauses"
    chat = Subscription("s", "chat", SubscriptionKind.WEBHOOK, "https://example.org")
    assert matches_subscription(paused, chat)
    assert not matches_subscription(paused, replace(chat, groups=("web",)))


def test_each_group_is_told_which_of_its_vms_were_removed() -> None:
    """VMs that were only changed are not named."""
    before = (Vm("web-0", "web"), Vm("web-1", "web"), Vm("web-2", "web"), Vm("db", "db"))
    changed = facts.FleetChanged(before_vms=before, removed_vms=("web-0", "web-2", "db"))
    told = list(removal_notifications(Entry(7, AT, "c", ROOT, (changed,)), 0))

    assert [(each.id, each.group, each.vms) for each in told] == [
        ("7-0-web", "web", ("web-0", "web-2")),
        ("7-0-db", "db", ("db",)),
    ]
