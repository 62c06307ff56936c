"""Hosts that fail, spot VMs that are reclaimed, scale sets, postponement and subscriptions, from the command line."""

from datetime import UTC, datetime

import pytest

from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness


def test_a_host_that_will_fail_is_announced_days_ahead(harness: ApiHarness, forewarn: Forewarn) -> None:
    """A nearer prediction brings it forward."""
    harness.clock.advance_to(datetime.now(UTC))
    first = forewarn("host", "degrade", "h2", "--fails-within", "7d", "--json").json
    second = forewarn("host", "degrade", "h2", "--fails-within", "1d", "--json").json

    assert {each["type"] for each in first} == {"Redeploy"}
    assert {each["id"] for each in second} == {each["id"] for each in first}
    assert second[0]["not_before"] < first[0]["not_before"]


def test_a_host_that_failed_is_left_at_once(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Its VMs' events are born Started."""
    events = forewarn("host", "fail", "h2", "--json").json

    assert [each["status"] for each in events] == ["Started"] * 2
    assert len(harness.node.fleet.events) == 2


@pytest.mark.parametrize("within", ["soon", "0s"])
def test_a_prediction_without_a_time_is_wrong_usage(forewarn: Forewarn, within: str) -> None:
    """With examples of good ones."""
    ran = forewarn("host", "degrade", "h2", "--fails-within", within)

    assert (ran.code, "write 90s, 10m, 7d" in ran.err) == (2, True)


def test_reclaiming_says_why_just_these(harness: ApiHarness, forewarn: Forewarn) -> None:
    """For people and for programs."""
    assert "stands on h1" in forewarn("spot", "reclaim", "--host", "h1").out
    harness.ask("POST", "/v1/events/last/cancel")
    chosen = forewarn("spot", "reclaim", "--count", "1", "--json").json

    assert (chosen[0]["resources"], chosen[0]["reason"][:10]) == (["pool_0"], "group pool")
    assert forewarn("spot", "reclaim").code == 2
    assert forewarn("spot", "reclaim", "--count", "9").code == 1
    assert "no spot VM stands on h2" in forewarn("spot", "reclaim", "--host", "h2").out


def test_scaling_in_says_why_just_these(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Only scale sets can be."""
    harness.enrol("pool", "pool_0")

    assert "newest of the 1 VMs" in forewarn("group", "scale-in", "pool", "--count", "1").out
    assert forewarn("group", "scale-in", "web", "--count", "1").code == 1


def test_an_event_is_postponed_as_far_as_its_group_allows(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The reason stands in its story."""
    forewarn("group", "set", "web", "postpone_limit=15m")
    forewarn("vm", "freeze", "web-0")

    assert forewarn("event", "postpone", "last", "--by", "10m", "--reason", "backup").out.startswith(
        "Freeze of web-0 is"
    )
    assert "backup" in forewarn("event", "show", "last").out
    assert forewarn("event", "postpone", "last", "--by", "10m").code == 1
    assert len(harness.node.fleet.events) == 1


def test_subscriptions_are_added_listed_and_removed(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The secret is shown once."""
    made = forewarn("subscription", "add", "pager", "https://example.org/hook", "--group", "web", "--type", "reboot")
    listed = forewarn("subscription", "list").out

    assert "signed with the secret whsec_" in made.out
    assert "whsec_" not in listed
    assert listed.splitlines()[1].split()[:5] == ["pager", "webhook", "https://example.org/…", "web", "Reboot"]
    assert forewarn("subscription", "add", "ops", "nobody", "--kind", "mail").code == 1
    assert forewarn("subscription", "remove", "pager").out == "subscription pager removed\n"
    assert not harness.node.fleet.subscriptions


def test_a_command_whose_outcome_was_unknown_is_repeated_with_its_key(
    harness: ApiHarness, forewarn: Forewarn
) -> None:
    """It is carried out once; another command with that key is refused."""
    first = forewarn("--idempotency-key", "monday", "vm", "restart", "web-0", "--json")
    again = forewarn("--idempotency-key", "monday", "vm", "restart", "web-0", "--json")
    other = forewarn("--idempotency-key", "monday", "vm", "restart", "web-1")

    assert (first.code, again.out) == (0, first.out)
    assert len(harness.node.fleet.events) == 1
    assert (other.code, "used for another request" in other.err) == (1, True)


def test_a_vm_is_added_once_under_its_key(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Who was told to ask again with the key gets the first answer again; another VM of that name is refused."""
    add = ("--idempotency-key", "monday", "vm", "add", "web-7", "--group", "web")

    assert forewarn(*add).out == forewarn(*add).out == "web-7 was added to group web\n"
    assert "web-7" in harness.node.fleet.vms
    assert "there is a VM 'web-7' already" in forewarn(*add, "--spot").err
    assert "there is a VM 'web-7' already" in forewarn(*add[2:]).err
