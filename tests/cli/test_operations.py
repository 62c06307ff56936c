"""Hosts that fail, spot VMs that are reclaimed, scale sets, postponement and subscriptions, from the command line."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from forewarn.control.transport import UnixTransport
from forewarn.core.errors import OutcomeUnknown
from forewarn.http.codec import HttpResponse
from tests.cli.conftest import Forewarn
from tests.harness import FLEET, ApiHarness


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
    events = forewarn("host", "fail", "h2", "--yes", "--json").json

    assert [each["status"] for each in events] == ["Started"] * 2
    assert len(harness.node.replica.fleet.events) == 2


@pytest.mark.parametrize("within", ["soon", "0s"])
def test_a_prediction_without_a_time_is_wrong_usage(forewarn: Forewarn, within: str) -> None:
    """With examples of good ones."""
    ran = forewarn("host", "degrade", "h2", "--fails-within", within)

    assert (ran.code, "write 90s, 10m, 7d" in ran.err) == (2, True)


def test_reclaiming_says_why_just_these(harness: ApiHarness, forewarn: Forewarn) -> None:
    """For people and for programs."""
    assert "stands on h1" in forewarn("spot", "reclaim", "--yes", "--host", "h1").out
    harness.ask("POST", "/v1/events/last/cancel")
    chosen = forewarn("spot", "reclaim", "--yes", "--count", "1", "--json").json

    assert (chosen[0]["resources"], chosen[0]["reason"][:10]) == (["pool_0"], "group pool")
    assert forewarn("spot", "reclaim").code == 2
    assert forewarn("spot", "reclaim", "--yes", "--count", "9").code == 1
    assert "no spot VM stands on h2" in forewarn("spot", "reclaim", "--yes", "--host", "h2").out


def test_scaling_in_says_why_just_these(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Only scale sets can be."""
    harness.enrol("pool", "pool_0")

    assert "newest of the 1 VMs" in forewarn("group", "scale-in", "pool", "--count", "1", "--yes").out
    assert forewarn("group", "scale-in", "web", "--count", "1", "--yes").code == 1


def test_an_event_is_postponed_as_far_as_its_group_allows(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The reason stands in its story."""
    forewarn("group", "set", "web", "postpone_limit=15m")
    forewarn("vm", "freeze", "web-0")

    assert forewarn("event", "postpone", "last", "--by", "10m", "--reason", "backup").out.startswith(
        "Freeze of web-0 is"
    )
    assert "backup" in forewarn("event", "show", "last").out
    assert forewarn("event", "postpone", "last", "--by", "10m").code == 1
    assert len(harness.node.replica.fleet.events) == 1


def test_subscriptions_are_added_listed_and_removed(harness: ApiHarness, forewarn: Forewarn) -> None:
    """The secret is shown once."""
    made = forewarn("subscription", "add", "pager", "https://example.org/hook", "--group", "web", "--type", "reboot")
    listed = forewarn("subscription", "list").out

    assert "signed with the secret whsec_" in made.out
    assert "whsec_" not in listed
    assert listed.splitlines()[1].split()[:5] == ["pager", "webhook", "https://example.org/…", "web", "Reboot"]
    assert forewarn("subscription", "add", "ops", "nobody", "--kind", "mail").code == 1
    assert forewarn("subscription", "remove", "pager", "--yes").out == "subscription pager removed\n"
    assert not harness.node.replica.fleet.subscriptions


def test_a_command_whose_outcome_was_unknown_is_repeated_with_its_key(
    harness: ApiHarness, forewarn: Forewarn
) -> None:
    """It is carried out once; another command with that key is refused."""
    first = forewarn("--idempotency-key", "monday", "vm", "restart", "web-0", "--json")
    again = forewarn("--idempotency-key", "monday", "vm", "restart", "web-0", "--json")
    other = forewarn("--idempotency-key", "monday", "vm", "restart", "web-1")

    assert (first.code, again.out) == (0, first.out)
    assert len(harness.node.replica.fleet.events) == 1
    assert (other.code, "used for another request" in other.err) == (1, True)


def test_a_vm_is_added_once_under_its_key(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Who was told to ask again with the key gets the first answer again; another VM of that name is refused."""
    add = ("--idempotency-key", "monday", "vm", "add", "web-7", "--group", "web")

    assert forewarn(*add).out == forewarn(*add).out == "web-7 was added to group web\n"
    assert "web-7" in harness.node.replica.fleet.vms
    assert "there is a VM 'web-7' already" in forewarn(*add, "--spot").err
    assert "there is a VM 'web-7' already" in forewarn(*add[2:]).err


@pytest.fixture
def lost(forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Give a command that is carried out while its answer is lost, and return the key that it names."""

    def give(*command: str) -> str:
        request = UnixTransport.request

        def request_and_lose(transport: UnixTransport, *given: Any) -> HttpResponse:
            response = request(transport, *given)
            if response.status == 201:
                raise OutcomeUnknown("it is not known")
            return response

        with monkeypatch.context() as patched:
            patched.setattr(UnixTransport, "request", request_and_lose)
            patched.setattr("forewarn.control.client.sleep", lambda _: None)
            ran = forewarn(*command)
        assert ran.code == 3
        return ran.err.partition("--idempotency-key ")[2].split()[0]

    return give


@pytest.mark.parametrize(
    "command",
    [
        ("host", "degrade", "h2", "--fails-within", "7d"),
        ("host", "reboot", "h2", "--not-before", "+20m"),
        ("host", "drain", "h2", "--leave-stuck", "--not-before", "+20m"),
        ("vm", "restart", "web-0", "--not-before", "+20m"),
        ("vm", "restart", "web-0", "--not-before", "23:59"),
    ],
)
def test_a_relative_time_is_the_same_when_a_command_is_repeated_with_its_key(
    harness: ApiHarness, forewarn: Forewarn, lost: Callable[..., str], command: tuple[str, ...]
) -> None:
    """It counts from when the key was drawn: the command is recognised, and nothing is announced again."""
    harness.clock.advance_to(datetime.now(UTC))
    key = lost(*command)
    revision, events = harness.node.replica.revision, dict(harness.node.replica.fleet.events)
    again = forewarn("--idempotency-key", key, *command, "--json")

    assert (again.code, again.err) == (0, "")
    assert (harness.node.replica.revision, harness.node.replica.fleet.events) == (revision, events)


@pytest.mark.parametrize("flags", [(), ("--exact",)])
def test_a_fleet_file_is_applied_once_under_its_key(
    harness: ApiHarness, forewarn: Forewarn, lost: Callable[..., str], flags: tuple[str, ...]
) -> None:
    """Also after another file was applied; another file under that key is refused."""
    Path("one.toml").write_text(FLEET + '[[vm]]\nname = "new"\n', encoding="utf-8")
    Path("two.toml").write_text(FLEET, encoding="utf-8")
    key = lost("fleet", "apply", "one.toml", *flags)
    assert "new" in harness.node.replica.fleet.vms
    again = forewarn("--idempotency-key", key, "fleet", "apply", "one.toml", *flags)
    assert (again.code, again.err) == (0, "")
    forewarn("fleet", "apply", "two.toml")
    assert forewarn("--idempotency-key", key, "fleet", "apply", "one.toml", *flags, "--json").json["vms"] == 1

    assert "new" not in harness.node.replica.fleet.vms
    assert "was used for another request" in forewarn("--idempotency-key", key, "fleet", "apply", "two.toml").err


def test_a_key_of_ones_own_that_was_used_is_refused_with_the_operation_that_stands(
    harness: ApiHarness, forewarn: Forewarn
) -> None:
    """The same words are another time now: whoever would draw a new key for them would announce it twice."""
    harness.clock.advance_to(datetime.now(UTC))
    command = ("--idempotency-key", "monday", "vm", "restart", "web-0", "--not-before", "+20m")
    assert forewarn(*command).code == 0
    again = forewarn(*command)
    operation = again.err.partition("GET /v1/operations/")[2].split(",")[0]
    result = harness.ask("GET", f"/v1/operations/{operation}").json

    assert (again.code, len(harness.node.replica.fleet.events)) == (1, 1)
    assert [each["event"]["resources"] for each in result["announcements"]] == [["web-0"]]
