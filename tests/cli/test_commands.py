"""Every command against a service that answers."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forewarn.audit.timeline import EventView
from forewarn.cli.control_commands import describe_announcement
from forewarn.control.views import AnnouncementView
from forewarn.core.facts import Mark
from forewarn.core.model import Policy
from tests.cli.conftest import Forewarn
from tests.harness import FLEET, ApiHarness, open_harness

KEYS = {"id", "type", "status", "not_before", "resources"}


def test_vms_are_listed_and_shown(harness: ApiHarness, forewarn: Forewarn) -> None:
    """As a table for people, as JSON for programs."""
    listed = forewarn("vm", "list")
    assert listed.out.splitlines()[0].split() == ["VM", "GROUP", "HOST", "UD", "FD", "ADDRESS", "STATE", "EVENTS"]
    assert listed.out.splitlines()[4].split() == ["web-1", "web", "h2", "1", "1", "10.0.0.2", "running", "-"]
    assert [vm["name"] for vm in forewarn("vm", "list", "--json").json] == sorted(harness.node.replica.fleet.vms)

    assert "address        10.0.0.1\n" in forewarn("vm", "show", "web-0").out
    assert forewarn("vm", "show", "web-0", "--json").json["address"] == "10.0.0.1"


def test_an_operation_prints_its_event(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The five keys, whichever operation it was."""
    harness.enrol("web", "web-1")
    ran = forewarn("vm", "restart", "web-0", "--description", "why", "--json")

    assert set(ran.json) == KEYS
    assert (ran.json["type"], ran.json["status"], ran.json["resources"]) == ("Reboot", "Scheduled", ["web-0"])
    assert ran.json["not_before"] == "2026-01-01T00:15:00Z"


def test_a_restart_that_will_wait_says_so_and_who_last_asked(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The operator sees at once whether anybody is there to approve."""
    harness.enrol("web", "web-1")

    ran = forewarn("vm", "restart", "web-0")

    first, second = ran.out.splitlines()
    assert first.startswith("web-0 will restart at ")
    assert " unless approved; web-1 polled " in first
    assert second.startswith("event ")


def test_after_a_restart_of_the_service_only_what_is_known_is_said(harness: ApiHarness, forewarn: Forewarn) -> None:
    """No VM asked since: the request that the journal knows of is told as that, in words and by its flag."""
    harness.enrol("web", "web-1")
    harness.asked["web"] = Mark("web", harness.clock.now(), "")

    first, _ = forewarn("vm", "restart", "web-0").out.splitlines()
    assert "; no VM of web has polled since the service started; the last known request is web-1's, " in first
    group = forewarn("group", "show", "web", "--json").json
    assert (group["asked_by"], group["asked_since_start"]) == ("web-1", False)
    assert group["switches_off_at"] is not None
    assert ", before the start" in forewarn("group", "show", "web").out


@pytest.fixture
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


NOW = datetime(2026, 1, 1, 14, 17, tzinfo=UTC)


def announced(type_: str, status: str = "Scheduled", **more: object) -> AnnouncementView:
    not_before = NOW + timedelta(minutes=15) if status == "Scheduled" else None
    event = EventView("ID", type_, status, not_before, ("web-0",))
    return AnnouncementView(event=event, group="web", **more)  # type: ignore[arg-type]  # as the test says


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (
            announced("Reboot", asked_by="web-1", asked_at=NOW - timedelta(seconds=3), asked_since_start=True),
            "web-0 will restart at 14:32 UTC unless approved; web-1 polled 3 s ago",
        ),
        (
            announced("Freeze"),
            "web-0 will freeze at 14:32 UTC unless approved; no VM of web has polled since the service started",
        ),
        (announced("Terminate", "Started", without_notice="why"), "web-0 is deleted now: why"),
        (
            announced("Reboot", without_notice="why"),
            "web-0 will restart as soon as the event it is under has ended: why",
        ),
    ],
)
@pytest.mark.usefixtures("_in_utc")
def test_what_will_happen_is_one_sentence(result: AnnouncementView, said: str) -> None:
    """In words, with the time on the operator's own clock."""
    assert describe_announcement(result, NOW) == said


@pytest.mark.parametrize(
    ("operation", "vm", "type_"),
    [
        ("restart", "web-0", "Reboot"),
        ("redeploy", "web-0", "Redeploy"),
        ("freeze", "web-0", "Freeze"),
        ("evict", "pool_0", "Preempt"),
        ("delete", "db", "Terminate"),
    ],
)
def test_every_operation_on_a_vm_announces_its_type(
    harness: ApiHarness, forewarn: Forewarn, operation: str, vm: str, type_: str
) -> None:
    """As the table of operations says."""
    is_final = operation in ("evict", "delete")
    ran = forewarn("vm", operation, vm, *(["--yes"] if is_final else []), "--json")

    assert ran.json["type"] == type_
    assert len(harness.node.replica.fleet.events) == 1


def test_an_operations_options_reach_the_event(harness: ApiHarness, forewarn: Forewarn) -> None:
    """When, for how long, and in whose words."""
    forewarn(
        "vm", "freeze", "web-0", "--not-before", "2026-01-01T05:00Z", "--duration", "9", "--description", "because"
    )

    (event,) = harness.node.replica.fleet.events.values()
    assert (event.not_before, event.duration, event.description) == (
        datetime(2026, 1, 1, 5, tzinfo=UTC),
        9,
        "because",
    )


def test_a_host_operation_prints_all_its_events(harness: ApiHarness, forewarn: Forewarn) -> None:
    """An array, one event per group and update domain."""
    ran = forewarn("host", "reboot", "h1", "--json")

    assert [event["resources"] for event in ran.json] == [["pool_0"], ["web-0"]]
    assert all(set(event) == KEYS for event in ran.json)
    assert forewarn("host", "list").out.split() == ["HOST", "STATE", "VMS", "h1", "up", "2", "h2", "up", "2"]
    assert len(harness.node.replica.fleet.events) == 2


def test_a_host_without_vms_announces_nothing(harness: ApiHarness, forewarn: Forewarn) -> None:
    """And says so; in JSON it is an empty array."""
    harness.declare(FLEET + '[[host]]\nname = "h3"\n')

    assert forewarn("host", "reboot", "h3").out == "no running VM stands on h3; nothing was announced\n"
    assert forewarn("host", "reboot", "h3", "--json").json == []


def test_events_are_listed_approved_and_canceled(harness: ApiHarness, forewarn: Forewarn) -> None:
    """By a shortened id as the list shows it."""
    assert forewarn("event", "list").out == "no events are coming\n"
    first = forewarn("vm", "freeze", "web-0", "--json").json["id"]
    second = forewarn("vm", "freeze", "web-1", "--json").json["id"]
    assert first[:8] in forewarn("event", "list").out

    assert forewarn("event", "approve", first[:8]).out == "Freeze of web-0 is Started\n"
    waiting = forewarn("event", "approve", second[:8].lower()).out
    assert waiting == f"Freeze of web-1 is Scheduled; approved, and waits until event {first} has ended\n"
    assert forewarn("event", "cancel", second, "--json").json["status"] == "Canceled"
    refused = forewarn("event", "cancel", first)
    assert (refused.code, "can no longer be canceled" in refused.err) == (1, True)

    assert [event["status"] for event in forewarn("event", "list", "--json").json] == ["Started"]
    assert [event["status"] for event in forewarn("event", "list", "--all", "--json").json] == ["Canceled", "Started"]
    assert harness.node.replica.fleet.events


def test_an_events_story_is_printed(harness: ApiHarness, forewarn: Forewarn) -> None:
    """For people step by step, for programs in full."""
    harness.enrol("web", "web-0")
    event = forewarn("vm", "restart", "web-0", "--json").json["id"]
    harness.show(event.lower(), "web-0")
    forewarn("event", "approve", event)
    harness.finish(event.lower())

    result = forewarn("event", "show", "last").out
    for word in (event, "Scheduled", "fetched", "approved", "Started", "attempted", "Completed", "whole life"):
        assert word in result
    assert forewarn("event", "show", event, "--json").json["steps"][0]["what"] == "Scheduled"


def test_a_story_without_a_fetch_says_what_that_means(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The record may have lost the last seconds."""
    forewarn("vm", "restart", "web-0")

    assert "No fetch is on record." in forewarn("event", "show", "last").out
    assert harness.node.replica.fleet.events


def test_an_approved_event_was_seen_although_no_fetch_is_on_record(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Only the time of the first fetch is lost, not that somebody saw the event."""
    harness.enrol("web", "web-0")
    event = forewarn("vm", "restart", "web-0", "--json").json["id"]
    forewarn("event", "approve", event)
    result = forewarn("event", "show", "last").out

    assert "No fetch is on record" not in result
    assert "The time of the first fetch is not on record. Fetches are noted in batches;" in result


def test_groups_are_listed_shown_and_set(harness: ApiHarness, forewarn: Forewarn) -> None:
    """With their terms and who asked last."""
    harness.enrol("web", "web-1")

    assert "web-1, " in forewarn("group", "list").out
    shown = forewarn("group", "set", "pool", "approval=all", "terminate_notice=PT10M", "eviction=delete", "--json")
    assert [shown.json[key] for key in ("approval", "terminate_notice", "eviction")] == ["all", "PT10M", "delete"]
    assert forewarn("group", "set", "pool", "terminate_notice=none", "--json").json["terminate_notice"] is None
    policy = (
        "approval=quorum",
        "quorum=1",
        "approve_user_reboot=true",
        "approve_all_down=false",
        "postpone_limit=30m",
    )
    shown = forewarn("group", "set", "web", *policy, "quiet_hours=22:00-06:00; Sat,Sun 00:00-24:00")
    assert "quiet hours          22:00-06:00; Sat,Sun 00:00-24:00\n" in shown.out
    assert "postpone limit       30 min\n" in shown.out
    forewarn("group", "set", "web", "quiet_hours=none")
    assert harness.node.replica.fleet.groups["web"].terms.policy == Policy(1, True, False, False, 1_800)
    assert "web-0, web-1\n" in forewarn("group", "show", "web").out


@pytest.mark.parametrize(
    ("term", "code", "said"),
    [
        ("approval", 2, "'approval' is not of the form KEY=VALUE"),
        ("aproval=all", 2, "there is no key 'aproval'; did you mean 'approval'?"),
        ("approval=some", 2, "approval is 'some', expected one of any, all, quorum"),
        ("terminate_notice=PT1M", 2, "expected a duration from PT5M to PT15M"),
        ("terminate_notice=PT5M", 1, "terminate_notice is for scale-set groups"),
    ],
)
def test_wrong_terms_are_refused(harness: ApiHarness, forewarn: Forewarn, term: str, code: int, said: str) -> None:
    """By the command line where it can know, by the rules where only they can."""
    ran = forewarn("group", "set", "web", term)

    assert ran.code == code
    assert said in ran.err
    assert harness.node.replica.fleet.groups["web"].terms.terminate_notice is None


def test_vms_are_added_and_removed(harness: ApiHarness, forewarn: Forewarn) -> None:
    """In a group that is there, or alone."""
    added = forewarn(
        "vm", "add", "web-2", "--group", "web", "--host", "h1", "--address", "10.0.0.9", "--tag", "a=b=c"
    )
    assert added.out == "web-2 was added to group web\n"
    assert harness.node.replica.fleet.vms["web-2"].instance.tags == {"a": "b=c"}
    assert forewarn("vm", "add", "solo", "--json").json["group"] == "solo"

    again = forewarn("vm", "add", "web-2")
    assert (again.code, "there is a VM 'web-2' already" in again.err) == (1, True)
    assert forewarn("vm", "add", "x", "--address", "nowhere").code == 2
    assert forewarn("vm", "add", "x", "--tag", "nothing").code == 2
    assert forewarn("vm", "add", "x", "--group", "wep").code == 1

    forewarn("vm", "add", "wired", "--tap", "tap0", "--mark", "7", "--mac-address", "52:54:00:12:34:56")
    shown = forewarn("vm", "show", "wired").out
    assert [line.split() for line in shown.splitlines() if line.startswith(("tap ", "mark ", "mac "))] == [
        ["tap", "tap0"],
        ["mark", "7"],
        ["mac", "address", "52:54:00:12:34:56"],
    ]

    assert forewarn("vm", "remove", "solo", "--yes").out == "solo was removed\n"
    assert "solo" not in harness.node.replica.fleet.groups


def test_a_vm_with_an_event_is_removed_only_with_it(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Nobody is surprised by a canceled event."""
    event = forewarn("vm", "freeze", "web-0", "--json").json["id"]

    assert forewarn("vm", "remove", "web-0", "-y").code == 1
    assert (
        forewarn("vm", "remove", "web-0", "-y", "--cancel-events").out
        == f"web-0 was removed; event {event} is canceled\n"
    )
    assert "web-0" not in harness.node.replica.fleet.vms


def test_vms_are_deallocated_and_started(harness: ApiHarness, forewarn: Forewarn) -> None:
    """With what that cancels."""
    event = forewarn("vm", "freeze", "web-0", "--json").json["id"]

    said = forewarn("vm", "deallocate", "web-0").out
    assert said == f"web-0 is deallocated; event {event} is canceled; start it with 'forewarn vm start web-0'\n"
    assert forewarn("vm", "show", "web-0", "--json").json["deallocated"]
    assert forewarn("vm", "start", "web-0").out == "web-0 is running\n"
    assert not harness.node.replica.fleet.vms["web-0"].deallocated


def test_a_fleet_file_is_applied_whole(harness: ApiHarness, forewarn: Forewarn) -> None:
    """What changed is counted, and a second time nothing does."""
    file = Path("fleet.toml")
    file.write_text(
        FLEET.replace('name = "db"', 'name = "db"\nzone = "1"') + '[[vm]]\nname = "new"\n', encoding="utf-8"
    )

    assert forewarn("fleet", "apply", "fleet.toml").out == "1 group and 2 VMs declared\n"
    assert forewarn("fleet", "apply", "fleet.toml").out.endswith("nothing was changed\n")

    file.write_text('[[vm]]\nname = "new"\n', encoding="utf-8")
    counts = forewarn("fleet", "apply", "fleet.toml", "--json").json
    assert (counts["vms"], counts["removed_vms"], counts["removed_hosts"], counts["canceled"]) == (0, 4, 2, [])
    assert list(harness.node.replica.fleet.vms) == ["new"]


def test_a_fleet_file_that_takes_a_vm_from_under_its_event_is_refused(
    harness: ApiHarness, forewarn: Forewarn
) -> None:
    """Unless the operator says so; and nothing of it is applied."""
    forewarn("vm", "freeze", "web-0")
    Path("fleet.toml").write_text('[[vm]]\nname = "new"\n', encoding="utf-8")

    refused = forewarn("fleet", "apply", "fleet.toml")
    assert (refused.code, "--cancel-events" in refused.err) == (1, True)
    assert "new" not in harness.node.replica.fleet.vms
    applied = forewarn("fleet", "apply", "fleet.toml", "--cancel-events")
    assert applied.out.endswith("; 1 event canceled\n")


def test_a_fleet_file_with_a_mistake_changes_nothing(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The line is named, and the exit code is that of wrong usage."""
    Path("fleet.toml").write_text('[[vm]]\nname = "new"\n[[vm]]\nnme = "x"\n', encoding="utf-8")

    ran = forewarn("fleet", "apply", "fleet.toml")

    assert ran.code == 2
    assert ran.err == "forewarn: fleet.toml, line 4: [[vm]] 2: there is no key 'nme'; did you mean 'name'?\n"
    assert "new" not in harness.node.replica.fleet.vms


def test_the_fleet_that_is_shown_can_be_applied(harness: ApiHarness, forewarn: Forewarn) -> None:
    """It is a fleet file, and says what is there."""
    before = dict(harness.node.replica.fleet.vms)
    Path("fleet.toml").write_text(forewarn("fleet", "show").out, encoding="utf-8")

    assert "nothing was changed" in forewarn("fleet", "apply", "fleet.toml").out
    assert harness.node.replica.fleet.vms == before
    assert [vm["name"] for vm in forewarn("fleet", "show", "--json").json["vms"]] == sorted(before)


def test_a_limit_is_four(tmp_path: Path, forewarn: Forewarn) -> None:
    """So that a script can wait and try again."""
    with open_harness(tmp_path, limit=1) as harness:
        harness.enrol("web", "web-0")
        assert forewarn("vm", "restart", "web-0").code == 0
        ran = forewarn("vm", "restart", "web-1")

    assert ran.code == 4
    assert "the limit is 1" in ran.err


def test_a_journal_is_verified(forewarn: Forewarn, tmp_path: Path) -> None:
    """Without a service; a directory without a journal is refused."""
    ran = forewarn("journal", "verify")

    assert ran.code == 2
    assert str(tmp_path) in ran.err


def test_unknown_names_are_one(harness: ApiHarness, forewarn: Forewarn) -> None:
    """With the nearest that is known."""
    ran = forewarn("vm", "restart", "web-00")

    assert ran.code == 1
    assert ran.err == "forewarn: there is no VM 'web-00'; did you mean 'web-0'?\n"
    assert not ran.out
    assert not harness.node.replica.fleet.events
