"""Operations on several VMs and hosts, dry runs, questions, and lists that are watched."""

import io
import sys
from threading import Thread

import pytest

from forewarn.cli import confirmation, watching
from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness


def test_an_operation_takes_globs_and_options(harness: ApiHarness, forewarn: Forewarn) -> None:
    """It prints the result of each VM; JSON is an array."""
    result = forewarn("vm", "freeze", "web-*", "--json")

    assert [each["vm"] for each in result.json] == ["web-0", "web-1"]
    assert [each["events"][0]["type"] for each in result.json] == ["Freeze", "Freeze"]
    assert len(harness.node.replica.fleet.events) == 2
    shown = forewarn("vm", "restart", "--group", "web", "--no-spot").out.splitlines()
    assert [line.split()[0] for line in shown] == ["VM", "web-0", "web-1"]
    assert "Reboot Started" in shown[1]


def test_a_refusal_of_some_is_one(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Each refused VM is named with the reason; the others are done."""
    harness.enrol("web", "web-0")
    forewarn("vm", "restart", "web-0")
    result = forewarn("vm", "restart", "web-0", "web-1", "--json")

    assert result.code == 1
    assert result.err == "1 refused, 1 done\n"
    assert "unfinished restart already" in result.json[0]["refused"]
    assert result.json[1]["refused"] is None
    assert len(harness.node.replica.fleet.events) == 2


@pytest.mark.usefixtures("harness")
def test_nothing_given_selects_nothing(forewarn: Forewarn) -> None:
    """--all is needed for all; what matches nothing is refused."""
    assert forewarn("vm", "restart").code == 2
    assert forewarn("host", "freeze").code == 2
    assert forewarn("vm", "restart", "x-*").code == 1
    assert "no VM matches" in forewarn("vm", "restart", "x-*").err
    assert len(forewarn("vm", "freeze", "--all", "--json").json) == 4


def test_plain_operations_take_several_vms(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Deallocate, start, move, set and remove."""
    fleet = harness.node.replica
    assert forewarn("vm", "deallocate", "web-*").code == 0
    assert forewarn("vm", "list", "--state", "deallocated", "--json").json[1]["name"] == "web-1"
    assert "done" in forewarn("vm", "start", "--group", "web").out
    assert forewarn("vm", "set", "web-*", "--label", "tier=front").code == 0
    assert forewarn("vm", "move", "--selector", "tier=front", "h2").code == 0
    assert {vm.standing_on for vm in fleet.fleet.vms.values() if vm.labels} == {"h2"}
    assert forewarn("vm", "remove", "web-*", "--yes").code == 0
    assert "web-0" not in fleet.fleet.vms


def test_hosts_are_added_labelled_maintained_and_removed(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Several at a time."""
    assert forewarn("host", "add", "r1-a", "r1-b", "--label", "rack=r1").out == "added: r1-a, r1-b\n"
    assert forewarn("host", "add", "r1-a").code == 1
    assert forewarn("host", "set", "r1-*", "--label", "version=2").code == 0
    assert harness.node.replica.fleet.hosts["r1-b"].labels == {"rack": "r1", "version": "2"}
    result = forewarn("host", "enter-maintenance", "--label", "rack=r1")
    assert [line.split() for line in result.out.splitlines()[1:]] == [["r1-a", "done"], ["r1-b", "done"]]
    assert forewarn("host", "show", "r1-a", "--json").json["state"] == "in-maintenance"
    assert forewarn("host", "uncordon", "r1-a").code == 1
    assert forewarn("host", "exit-maintenance", "r1-a").out == "r1-a is up, cordoned\n"
    assert forewarn("host", "remove", "r1-*", "--yes").code == 0
    refused = forewarn("host", "remove", "h1", "--yes")
    assert (refused.code, "stands on it" in refused.err) == (1, True)


def test_groups_are_added_and_removed(harness: ApiHarness, forewarn: Forewarn) -> None:
    """With their terms; one that has VMs stays."""
    assert forewarn("group", "add", "db-set", "--kind", "scale-set", "terminate_notice=PT10M").code == 0
    assert harness.node.replica.fleet.groups["db-set"].terms.terminate_notice == 600
    assert "already" in forewarn("group", "add", "db-set", "--kind", "scale-set").err
    assert forewarn("group", "remove", "db-set", "--yes").out == "group db-set was removed\n"
    assert forewarn("group", "remove", "web", "--yes").code == 1


def test_a_dry_run_says_what_would_be_announced_and_does_nothing(harness: ApiHarness, forewarn: Forewarn) -> None:
    """To which VMs, when, and what waits; with any command that changes the fleet."""
    forewarn("host", "freeze", "h1")
    revision = harness.node.replica.revision
    result = forewarn("host", "freeze", "h2", "--dry-run")

    assert result.code == 0
    assert "web-1 will freeze at" in result.out
    assert "its turn comes after" in result.out
    assert result.out.endswith("dry run: nothing was changed\n")
    for arguments in (
        ["vm", "restart", "--all"],
        ["vm", "delete", "db"],
        ["vm", "deallocate", "web-0"],
        ["vm", "add", "new"],
        ["vm", "set", "web-0", "--zone", "3"],
        ["vm", "move", "db", "h1"],
        ["host", "fail", "h1"],
        ["host", "cordon", "h1"],
        ["host", "add", "h9"],
        ["group", "scale-in", "pool", "--count", "1"],
        ["spot", "reclaim", "--host", "h1"],
        ["event", "cancel", "--all", "--host", "h1"],
        ["event", "approve", "last"],
    ):
        result = forewarn(*arguments, "--dry-run")
        assert (result.code, result.out.splitlines()[-1:]) == (0, ["dry run: nothing was changed"]), (
            arguments,
            result,
        )
        assert forewarn(*arguments, "--dry-run", "--json").json["dry_run"] is True
    assert harness.node.replica.revision == revision
    refused = forewarn("vm", "evict", "--all", "--dry-run")
    assert refused.code == 1
    assert "would be refused: " in refused.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["vm", "delete", "db"],
        ["vm", "evict", "pool_*"],
        ["vm", "remove", "--all"],
        ["host", "remove", "h1"],
        ["host", "fail", "h1"],
        ["group", "remove", "web"],
        ["group", "scale-in", "pool", "--count", "1"],
        ["spot", "reclaim", "--host", "h1"],
        ["token", "revoke", "t"],
        ["subscription", "remove", "s"],
    ],
)
def test_without_a_terminal_there_is_no_question_but_an_error(
    harness: ApiHarness, forewarn: Forewarn, arguments: list[str]
) -> None:
    """It says what to give instead, and nothing is done."""
    revision = harness.node.replica.revision
    result = forewarn(*arguments)

    assert result.code == 2
    assert "this cannot be undone, and there is no terminal to ask; give --yes" in result.err
    assert harness.node.replica.revision == revision


class Terminal(io.StringIO):
    """A terminal at which somebody has typed."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "is_done"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_at_a_terminal_the_question_names_what_is_meant(
    harness: ApiHarness, forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch, answer: str, *, is_done: bool
) -> None:
    """Then exactly these are operated on."""
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(confirmation, "is_watched", lambda _: True)
    result = forewarn("vm", "remove", "web-*")

    assert "remove 2 VMs (web-0, web-1)? This cannot be undone." in result.err
    assert ("web-0" not in harness.node.replica.fleet.vms) is is_done
    assert (result.code == 0) is is_done


def test_a_question_names_few_and_counts_the_rest() -> None:
    """So that it fits a screen."""
    names = [f"web-{number}" for number in range(12)]

    assert confirmation.describe_names(names[:1], "VMs") == "web-0"
    assert confirmation.describe_names(names, "VMs").endswith("web-9 and 2 more)")


def test_events_are_canceled_together(harness: ApiHarness, forewarn: Forewarn) -> None:
    """All of a host, or some by id."""
    forewarn("host", "freeze", "h1")
    forewarn("host", "freeze", "h2")
    result = forewarn("event", "cancel", "--all", "--host", "h1", "--json")

    assert [event["status"] for event in result.json] == ["Canceled", "Canceled"]
    left = [event.id for event in harness.node.replica.fleet.events.values()]
    assert forewarn("event", "cancel", *left).code == 0
    assert not harness.node.replica.fleet.events
    for wrong in ([], ["last", "--all"], ["--host", "h1"]):
        assert forewarn("event", "cancel", *wrong).code == 2


def test_a_list_is_printed_again_after_a_change(
    harness: ApiHarness, forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event is shown until it has ended; what it became is the last thing that is printed."""
    monkeypatch.setattr(watching, "SETTLE", 0.01)
    forewarn("vm", "freeze", "web-0")
    changing = Thread(target=harness.ask, args=("POST", "/v1/events/last/cancel"))
    monkeypatch.setattr(watching, "Thread", lambda **given: _Together(Thread(**given), changing))
    result = forewarn("event", "show", "last", "--watch")

    assert result.code == 0
    assert result.out.index("Scheduled") < result.out.rindex("Canceled")


class _Together:
    """A thread that is started together with another one."""

    def __init__(self, first: Thread, second: Thread) -> None:
        self._threads = first, second

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


def test_a_token_is_rotated_with_an_overlap(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Both secrets are valid for so long, then the new one alone."""
    first = harness.token("ada")
    result = forewarn("token", "rotate", "ada", "--overlap", "1h", "--json").json

    assert result["previous_until"]
    assert harness.ask("GET", "/v1/me", token=first).status == 200
    assert harness.ask("GET", "/v1/me", token=result["token"]).status == 200
    assert "valid until" in forewarn("token", "rotate", "ada", "--overlap", "1h").err
    assert harness.ask("GET", "/v1/me", token=first).status == 401
