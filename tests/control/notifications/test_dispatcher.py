"""Telling subscribers: at least once, in order per event, whatever the receiver does, across restarts."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from email import message_from_bytes
from email.policy import SMTP
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from forewarn.clocks import ManualClock
from forewarn.config.settings import MailSettings
from forewarn.control.notifications.worker import DeliveryState, DeliveryStatus
from forewarn.core.commands import ChangeFleet
from forewarn.core.errors import Refused, Unavailable
from forewarn.core.facts import Delivered, Entry
from forewarn.core.model import EventType, Subscription, SubscriptionKind
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import JournalFailed
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.node.feed import Commit
from tests.control.notifications.harness import NotificationHarness, play
from tests.control.notifications.receivers import Received, Receiver, ReceiverResponse, mail_sink
from tests.node.harness import OPERATOR

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
LIFE = ["scheduled", "approved", "started", "completed"]


def kinds(received: list[Received]) -> list[str]:
    return [each.json["type"].rpartition(".")[2] for each in received]


def lives(received: list[Received]) -> dict[str, list[str]]:
    """Return what was told of each event, in order."""
    found: dict[str, list[str]] = {}
    for each in received:
        found.setdefault(each.json["subject"], []).extend(kinds([each]))
    return found


def test_an_event_is_told_from_its_announcement_to_its_end() -> None:
    """One message for each step, with what the event was, also when it has left the fleet."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        await harness.subscribe(receiver.url)
        event = await harness.whole_life()
        await harness.settled()

        assert kinds(receiver.taken) == LIFE
        assert {each.json["data"]["Group"] for each in receiver.taken} == {"web"}
        assert {each.json["subject"] for each in receiver.taken} == {event.upper()}
        assert [each.json["data"]["EventStatus"] for each in receiver.taken] == [
            "Scheduled",
            "Scheduled",
            "Started",
            "Completed",
        ]

    with Receiver() as receiver:
        play(story)


def test_nothing_is_told_of_what_was_before_the_subscription() -> None:
    """It begins with what happens after it, and knows what those events were."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        event = await harness.node_harness.operate("restart", "web-0")
        await harness.subscribe(receiver.url)
        await harness.node_harness.approve(event)
        await harness.settled()

        assert kinds(receiver.taken) == ["approved", "started"]
        assert receiver.taken[0].json["data"]["Resources"] == ["web-0"]
        assert receiver.taken[0].json["data"]["NotBefore"] != ""
        assert receiver.taken[1].json["data"]["NotBefore"] == ""

    with Receiver() as receiver:
        play(story)


def test_only_what_was_asked_for_is_told() -> None:
    """By group and by type of event."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        await harness.subscribe(receiver.url, name="freezes", types=(EventType.FREEZE,))
        await harness.subscribe(receiver.url, name="web", groups=("web",), types=(EventType.REDEPLOY,))
        await harness.whole_life()
        await harness.node_harness.operate("redeploy", "web-1")
        await harness.node_harness.operate("freeze", "web-2")
        await harness.settled()

        assert sorted(each.json["data"]["EventType"] for each in receiver.taken) == ["Freeze", "Redeploy"]

    with Receiver() as receiver:
        play(story)


@pytest.mark.end_to_end
def test_a_receiver_that_is_down_for_an_hour_gets_everything_afterwards() -> None:
    """Once each, in order per event; meanwhile it is seen to be parked, and is asked rarely."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        ops = await harness.subscribe(receiver.url)
        receiver.down()
        for number in range(20):
            await harness.whole_life(f"web-{number % 3}")
            await harness.advance(3 * MINUTE)
        parked = harness.delivery(ops)

        assert parked.state is DeliveryState.PARKED
        assert parked.waiting == 80
        assert parked.since == harness.clock.now() - 20 * 3 * MINUTE
        assert "cannot be reached: connection refused" in parked.last_error
        assert parked.next_try_at
        assert parked.next_try_at - harness.clock.now() <= 5 * MINUTE
        assert harness.told(ops) < harness.node_harness.node.replica.revision - 80

        receiver.up()
        await harness.advance(5 * MINUTE)

        assert len(receiver.ids) == len(set(receiver.ids)) == 80
        assert list(lives(receiver.taken).values()) == [LIFE] * 20
        assert harness.delivery(ops) == DeliveryStatus()

    with Receiver() as receiver:
        play(story)


@pytest.mark.end_to_end
def test_what_waits_beyond_the_window_is_counted_and_not_held() -> None:
    """However long a receiver is down, memory holds a window's worth, and the number that waits is right."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        ops = await harness.subscribe(receiver.url)
        receiver.down()
        for number in range(60):
            await harness.whole_life(f"web-{number % 3}")
            await harness.settled()
        (worker,) = harness.dispatcher._workers.values()

        assert harness.delivery(ops).waiting == 240
        assert len(worker._delivery_queue) <= 5 + 100

        receiver.answer = lambda _: ReceiverResponse(204 if len(receiver.taken) < 150 else 503)
        receiver.up()
        await harness.advance(10 * MINUTE)

        assert harness.delivery(ops).waiting == 240 - len(receiver.taken)
        assert 150 <= len(receiver.taken) < 160

        receiver.answer = lambda _: ReceiverResponse()
        await harness.advance(10 * MINUTE)

        assert list(lives(receiver.taken).values()) == [LIFE] * 60
        assert len(receiver.ids) == 240
        assert harness.delivery(ops).waiting == 0

    with Receiver() as receiver:
        play(story, window=5)


def test_it_is_tried_again_after_longer_and_longer_waits() -> None:
    """Twice as long each time, up to five minutes, and never quite regularly."""
    tries = []

    async def story(harness: NotificationHarness) -> None:
        def refuse(_: Received) -> ReceiverResponse:
            tries.append(harness.clock.now())
            return ReceiverResponse(503)

        receiver.answer = refuse
        await harness.node_harness.add_fleet()
        await harness.subscribe(receiver.url)
        await harness.node_harness.operate("restart", "web-0")
        await harness.settled()
        while len(tries) < 14:
            await harness.advance(SECOND, 10)

    with Receiver() as receiver:
        play(story)
    waits = [(later - earlier).total_seconds() for earlier, later in pairwise(tries)]

    for number, wait in enumerate(waits):
        longest = min(2.0**number, 300.0)
        assert longest / 2 <= wait <= longest + 1


def test_a_receiver_says_how_long_it_wants_to_be_left_alone() -> None:
    """As Slack does when it was told too much."""

    async def story(harness: NotificationHarness) -> None:
        receiver.answer = lambda _: ReceiverResponse(429, {"Retry-After": "90"})
        await harness.node_harness.add_fleet()
        ops = await harness.subscribe(receiver.url)
        await harness.node_harness.operate("restart", "web-0")
        await harness.settled()

        assert harness.delivery(ops).next_try_at == harness.clock.now() + 90 * SECOND

    with Receiver() as receiver:
        play(story)


@pytest.mark.end_to_end
def test_a_notice_that_is_refused_holds_back_its_own_event_only() -> None:
    """The others go on; what is refused keeps its order, and arrives when it is taken at last."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        ops = await harness.subscribe(receiver.url)
        bad = await harness.node_harness.operate("restart", "web-0")
        receiver.answer = lambda got: ReceiverResponse(400 if got.json["subject"] == bad.upper() else 200)
        await harness.node_harness.approve(bad)
        await harness.complete(bad)
        for number in range(10):
            await harness.whole_life(f"web-{1 + number % 2}")
            await harness.advance(MINUTE)

        assert list(lives(receiver.taken).values())[-10:] == [LIFE] * 10
        assert harness.delivery(ops).state is DeliveryState.HEALTHY
        assert harness.delivery(ops).refused == 1
        assert harness.delivery(ops).waiting == 4 - len(lives(receiver.taken).get(bad.upper(), []))
        assert "answered 400" in harness.delivery(ops).last_error

        receiver.answer = lambda _: ReceiverResponse()
        await harness.advance(5 * MINUTE)

        assert lives(receiver.taken)[bad.upper()] == LIFE
        assert len(receiver.ids) == len(set(receiver.ids)) == 44
        assert harness.delivery(ops) == DeliveryStatus()

    with Receiver() as receiver:
        play(story)


@pytest.mark.end_to_end
def test_a_notice_that_is_refused_for_a_day_is_given_up() -> None:
    """Though others are taken; the record does not stand still for its sake, and the loss is seen."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        ops = await harness.subscribe(receiver.url)
        bad = await harness.node_harness.operate("freeze", "web-0")
        receiver.answer = lambda got: ReceiverResponse(
            400 if got.json["type"].endswith("scheduled") and bad.upper() in str(got.json) else 200
        )
        for _ in range(26):
            await harness.whole_life("web-2")
            await harness.advance(30 * MINUTE, 2)

        assert harness.delivery(ops).missed == 1
        assert harness.delivery(ops).waiting == 0
        assert lives(receiver.taken)[bad.upper()] == ["started"]

    with Receiver() as receiver:
        play(story)


def test_a_receiver_that_is_gone_is_not_tried_again_until_a_test_reaches_it() -> None:
    """410 says: never again. Nothing is lost meanwhile."""

    async def story(harness: NotificationHarness) -> None:
        receiver.answer = lambda _: ReceiverResponse(410)
        await harness.node_harness.add_fleet()
        ops = await harness.subscribe(receiver.url)
        await harness.whole_life()
        await harness.advance(MINUTE, 90)

        assert len(receiver.tried) == 1
        assert harness.delivery(ops).state is DeliveryState.GONE
        assert harness.delivery(ops).waiting == 4
        with pytest.raises(Unavailable, match=r"was not delivered: localhost:\d+ answered 410 Gone"):
            await harness.dispatcher.send_test(ops)
        assert harness.delivery(ops).state is DeliveryState.GONE

        receiver.answer = lambda _: ReceiverResponse()
        sent = await harness.dispatcher.send_test(ops)
        await harness.settled()

        assert "answered 204" in sent.detail
        assert kinds(receiver.taken) == ["test", *LIFE]
        assert harness.delivery(ops) == DeliveryStatus()

    with Receiver() as receiver:
        play(story)


def test_a_restart_goes_on_where_the_last_record_was() -> None:
    """What was told is not told again, what was not told is; an event announced before is known."""
    journal, clock = MemoryJournal(), ManualClock()
    events: list[str] = []

    async def first(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        await harness.subscribe(receiver.url)
        events.append(await harness.node_harness.operate("restart", "web-0"))
        await harness.settled()
        receiver.down()
        await harness.node_harness.approve(events[0])
        await harness.settled()

    async def second(harness: NotificationHarness) -> None:
        receiver.up()
        await harness.complete(events[0])
        await harness.advance(MINUTE)

    with Receiver() as receiver:
        play(first, journal, clock)
        play(second, journal, clock)

    assert kinds(receiver.taken) == LIFE


@pytest.mark.end_to_end
def test_a_restart_on_disk_goes_on_too(tmp_path: Path) -> None:
    """With the journal of a real service, and what its history knows of events that ended meanwhile."""
    clock = ManualClock()

    async def first(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        await harness.subscribe(receiver.url, groups=("web",))
        await harness.whole_life("web-0")
        await harness.settled()
        receiver.down()
        for number in range(30):
            await harness.whole_life(f"web-{number % 3}")
        await harness.settled()

    async def second(harness: NotificationHarness) -> None:
        receiver.up()
        await harness.advance(MINUTE)

    with Receiver() as receiver:
        for story in (first, second):
            with closing(SqliteJournal(tmp_path)) as journal:
                play(story, journal, clock)

    assert list(lives(receiver.taken).values()) == [LIFE] * 31
    assert len(receiver.ids) == len(set(receiver.ids))


def test_a_crash_repeats_the_last_seconds_only() -> None:
    """What was recorded is not told again; what was told since is, under the same id."""
    journal, clock = MemoryJournal(), ManualClock()

    async def first(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        await harness.subscribe(receiver.url)
        await harness.whole_life("web-0")
        await harness.advance(10 * SECOND)
        await harness.whole_life("web-1")
        await harness.settled()

    async def second(harness: NotificationHarness) -> None:
        await harness.settled()

    with Receiver() as receiver:
        play(first, journal, clock, crashes=True)
        assert len(receiver.ids) == 8
        play(second, journal, clock)

    assert kinds(receiver.taken) == LIFE * 3
    assert receiver.ids[8:] == receiver.ids[4:8]


class StumblingJournal(MemoryJournal):
    """A journal that fails once behind an append that was durable."""

    stumbles = False

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        super().append(expected_revision, entries)
        if self.stumbles:
            self.stumbles = False
            raise JournalFailed("the disk is tired")


def test_what_became_durable_although_the_append_failed_is_told() -> None:
    """The writer reads the journal anew, and so do those who tell."""
    journal = StumblingJournal()

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        await harness.subscribe(receiver.url)
        await harness.node_harness.operate("freeze", "web-0")
        journal.stumbles = True
        await harness.node_harness.operate("freeze", "web-1")
        await harness.node_harness.operate("freeze", "web-2")
        await harness.settled()

        assert sorted(each.json["data"]["Resources"][0] for each in receiver.taken) == ["web-0", "web-1", "web-2"]

    with Receiver() as receiver:
        play(story, journal)


def test_whoever_is_told_otherwise_goes_on_where_it_was() -> None:
    """Another address gets what the old one did not take, and nothing else."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        ops = await harness.subscribe(receiver.url)
        event = await harness.node_harness.operate("restart", "web-0")
        await harness.settled()
        receiver.down()
        await harness.node_harness.approve(event)
        await harness.settled()
        await harness.set(replace(ops, target=other.url))
        await harness.settled()

        assert kinds(receiver.taken) == ["scheduled"]
        assert kinds(other.taken) == ["approved", "started"]

    with Receiver() as receiver, Receiver() as other:
        play(story)


def test_how_far_they_were_told_is_recorded_seconds_after_a_delivery() -> None:
    """So that a crash repeats no more than that."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        ops = await harness.subscribe(receiver.url)
        await harness.whole_life()
        await harness.settled()
        revision = harness.node_harness.node.replica.revision
        await harness.advance(5 * SECOND)

        assert harness.told(ops) == revision
        assert harness.node_harness.node.replica.revision == revision + 1

    with Receiver() as receiver:
        play(story)


@pytest.mark.end_to_end
def test_an_idle_service_records_nothing() -> None:
    """The record of a delivery is nothing to record, nor is a restart."""
    journal, clock = MemoryJournal(), ManualClock()
    revisions: list[int] = []

    async def first(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        await harness.subscribe(receiver.url)
        await harness.whole_life()
        await harness.settled()
        await harness.advance(timedelta(hours=3), 20)

        assert sum(isinstance(fact, Delivered) for fact in harness.node_harness.facts) == 1
        revisions.append(harness.node_harness.node.replica.revision)

    async def later(harness: NotificationHarness) -> None:
        await harness.settled()
        await harness.advance(timedelta(hours=3), 20)

    with Receiver() as receiver:
        play(first, journal, clock)
        play(later, journal, clock)
        play(later, journal, clock)

    assert [journal.load().revision] == revisions


def test_entries_about_no_event_are_recorded_rarely() -> None:
    """A subscriber to whom nothing happens for years must not fall behind what the journal keeps."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet(enrolled=False)
        ops = await harness.subscribe(receiver.url)
        await harness.settled()
        await harness.node_harness.add_fleet()
        revision = harness.node_harness.node.replica.revision
        await harness.advance(timedelta(minutes=59))
        assert harness.told(ops) < revision

        await harness.advance(MINUTE)
        assert harness.told(ops) == revision

    with Receiver() as receiver:
        play(story)


class ForgetfulJournal(MemoryJournal):
    """A journal that no longer holds its first entries."""

    first = 1

    def entries(self, after: int = 0, limit: int | None = None) -> Iterator[Entry]:
        return super().entries(max(after, self.first - 1), limit)

    def history(
        self,
        subject: str,
        *,
        limit: int | None = None,
        after: int = 0,
        before: int | None = None,
        from_oldest: bool = False,
    ) -> list[Entry]:
        kept = max(after, self.first - 1)
        return super().history(subject, limit=limit, after=kept, before=before, from_oldest=from_oldest)


def test_whoever_misses_what_the_journal_no_longer_holds_is_told_so() -> None:
    """In a message of its own, and in the status; then it goes on with what there is."""
    journal, clock = ForgetfulJournal(), ManualClock()
    revisions: list[int] = []

    async def first(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        ops = await harness.subscribe(receiver.url)
        receiver.down()
        revisions.append(ops.delivered_revision + 1)
        await harness.whole_life()
        await harness.settled()
        journal.first = harness.node_harness.node.replica.revision
        await harness.node_harness.operate("freeze", "web-1")

    async def second(harness: NotificationHarness) -> None:
        receiver.up()
        await harness.advance(MINUTE)
        ((_, delivery),) = harness.dispatcher.deliveries().items()

        assert delivery.missed == journal.first - 1 - revisions[0]

    with Receiver() as receiver:
        play(first, journal, clock)
        play(second, journal, clock)

    # The end of the first event is still held, but what the event was is not.
    assert kinds(receiver.taken) == ["missed", "scheduled"]
    assert receiver.ids[0] == f"missed-{revisions[0] + 1}-{journal.first - 1}"


def test_an_event_whose_announcement_is_no_longer_held_is_told_while_it_lives() -> None:
    """What the fleet says of it at the start is kept."""
    journal, clock = ForgetfulJournal(), ManualClock()
    events: list[str] = []

    async def first(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        await harness.subscribe(receiver.url)
        events.append(await harness.node_harness.operate("restart", "web-0"))
        await harness.advance(5 * SECOND)
        journal.first = harness.node_harness.node.replica.revision

    async def second(harness: NotificationHarness) -> None:
        await harness.node_harness.approve(events[0])
        await harness.complete(events[0])
        await harness.settled()

    with Receiver() as receiver:
        play(first, journal, clock)
        play(second, journal, clock)

    assert kinds(receiver.taken) == LIFE


def test_whoever_is_removed_is_told_nothing_more() -> None:
    """Not even what was waiting."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        ops = await harness.subscribe(receiver.url)
        receiver.down()
        await harness.whole_life()
        await harness.settled()
        await harness.unsubscribe(ops)
        receiver.up()
        await harness.advance(MINUTE, 20)

        assert receiver.tried == []
        assert harness.dispatcher.deliveries() == {}

    with Receiver() as receiver:
        play(story)


def test_a_receiver_that_hangs_delays_nobody_else() -> None:
    """Everybody has a worker of their own."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        receiver.down()
        await harness.subscribe(receiver.url, name="down")
        await harness.subscribe(other.url, name="up")
        await harness.whole_life()
        await harness.settled()

        assert kinds(other.taken) == LIFE

    with Receiver() as receiver, Receiver() as other:
        play(story)


def test_people_are_told_by_slack_teams_and_mail() -> None:
    """Each in its own form, one message for each step."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        await harness.subscribe(slack.url, SubscriptionKind.SLACK, name="slack")
        await harness.subscribe(teams.url, SubscriptionKind.TEAMS, name="teams")
        await harness.subscribe("ops@example.org", SubscriptionKind.MAIL, name="mail")
        await harness.whole_life()
        await harness.settled()

        assert [each.json["text"].split(" web-0 ")[1].split()[0] for each in slack.taken] == [
            "is",
            "was",
            "has",
            "is",
        ]
        assert len(teams.taken) == 4
        subjects = [message_from_bytes(mail, policy=SMTP)["Subject"] for mail in sink.mails]
        assert [subject.startswith("[Forewarn] Reboot of web-0 ") for subject in subjects] == [True] * 4

    with Receiver() as slack, Receiver() as teams, mail_sink() as sink:
        play(story, mail=MailSettings(host="127.0.0.1", port=sink.port, tls="none", sender="forewarn@example.org"))


def test_owners_are_told_that_their_vms_were_removed() -> None:
    """Once for each group that lost some, also to one who was away; not to others, nor who wants some types only."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        await harness.subscribe(ours.url, name="ours", groups=("web",))
        await harness.subscribe(everything.url, name="all")
        await harness.subscribe(few.url, name="few", types=(EventType.REBOOT,))
        await harness.node_harness.node.submit(ChangeFleet(id="removal", by=OPERATOR, removed_vms=("web-0", "web-1")))
        await harness.settled()

        for taken in (ours.taken, everything.taken):
            (removed,) = [each.json for each in taken if each.json["type"] == "io.forewarn.vm.removed"]
            assert (removed["subject"], removed["data"]["Resources"]) == ("web", ["web-0", "web-1"])
            assert removed["data"]["By"] == str(OPERATOR)
        assert few.taken == []

    with Receiver() as ours, Receiver() as everything, Receiver() as few:
        play(story)


def test_a_subscription_by_mail_needs_a_mail_server() -> None:
    """Without one it is refused, with the setting's name, before anything is recorded; other kinds need none."""

    async def story(harness: NotificationHarness) -> None:
        mail = Subscription("s1", "ops", SubscriptionKind.MAIL, "ops@example.org")
        with pytest.raises(Refused, match=r"no mail server is configured; set host and sender in \[mail\] of"):
            harness.dispatcher.check(mail)
        harness.dispatcher.check(Subscription("s2", "hook", SubscriptionKind.WEBHOOK, "http://example.org"))
        harness.dispatcher.set_mail(MailSettings(host="mail.example.org", sender="forewarn@example.org"))
        harness.dispatcher.check(mail)

    play(story)


def test_a_mail_without_a_mail_server_waits_and_says_what_to_set() -> None:
    """Until the settings name one."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        ops = await harness.subscribe("ops@example.org", SubscriptionKind.MAIL)
        await harness.node_harness.operate("restart", "web-0")
        await harness.settled()

        assert "set host and sender in [mail]" in harness.delivery(ops).last_error

    play(story)


def test_another_mail_server_gets_what_waits() -> None:
    """As soon as it is set, and what was delivered already is not sent again."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        ops = await harness.subscribe("ops@example.org", SubscriptionKind.MAIL)
        await harness.node_harness.operate("restart", "web-0")
        await harness.settled()
        assert harness.delivery(ops).last_error

        harness.dispatcher.set_mail(
            MailSettings(host="127.0.0.1", port=sink.port, tls="none", sender="forewarn@example.org")
        )
        await harness.settled()
        assert (harness.delivery(ops).last_error, len(sink.mails)) == ("", 1)
        harness.dispatcher.set_mail(MailSettings())
        await harness.settled()
        assert len(sink.mails) == 1

    with mail_sink() as sink:
        play(story)


def test_without_subscriptions_what_happens_is_only_counted() -> None:
    """A first subscription then begins with the entry after it."""

    async def story(harness: NotificationHarness) -> None:
        await harness.node_harness.add_fleet()
        replica = harness.node_harness.node.replica
        last = list(harness.journal.entries())[-1]
        harness.dispatcher._recent_entries.begin(0)
        harness.dispatcher.publish(Commit((last,), replica.fleet))

        assert harness.dispatcher._recent_entries.head == last.revision == replica.revision

    play(story)


def test_a_stop_does_not_wait_for_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that does not answer would hold the service; what has not begun is dropped."""
    asked: list[dict[str, object]] = []

    async def story(harness: NotificationHarness) -> None:
        monkeypatch.setattr(harness.dispatcher._threads, "shutdown", lambda **how: asked.append(how))

    play(story)

    assert asked == [{"wait": False, "cancel_futures": True}]
