"""Ids, types, statuses and sources have one spelling, which is the one VMs read; any case is taken."""

import re

import pytest

from tests.control.server.test_change_stream import listening
from tests.harness import ApiHarness

LOWER_GUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
OUR_WORDS = re.compile(
    r'"(?:type|status|source|event_type)": ?"[a-z]|"types": ?\["[a-z]|"what": ?"(?:scheduled|started|completed)"'
)


@pytest.fixture
def busy(harness: ApiHarness) -> ApiHarness:
    """Return a control plane with an event of each kind of end, a subscription, and their operations."""
    harness.enrol("web", "web-0")
    subscription = {"name": "s", "kind": "webhook", "target": "https://example.org", "types": ["PREEMPT"]}
    assert harness.ask("POST", "/v1/subscriptions", subscription).status == 201
    harness.ask("POST", "/v1/vms/web-0/operations", {"operation": "freeze"})
    first = harness.ask("GET", "/v1/events/last").json["id"]
    harness.show(first.lower(), "web-0")
    harness.ask("POST", "/v1/vms/web-0/operations", {"operation": "restart"})
    harness.ask("POST", f"/v1/events/{first}/approve")
    harness.ask("POST", "/v1/events/last/approve")
    harness.finish(first.lower())
    said = harness.ask("POST", "/v1/vms/db/operations", {"operation": "freeze"})
    harness.ask("POST", f"/v1/events/{said.json['announcements'][0]['event']['id']}/cancel")
    harness.ask("POST", "/v1/vms/db/operations", {"operation": "freeze"})
    return harness


@pytest.mark.parametrize(
    "path",
    [
        "/v1/events?finished=100",
        "/v1/events/last",
        "/v1/vms/db",
        "/v1/groups/db",
        "/v1/history",
        "/v1/history/export",
        "/v1/history/export?format=jsonl",
        "/v1/subscriptions",
        "/v1/subscriptions/s",
    ],
)
def test_what_is_read_has_one_spelling(busy: ApiHarness, path: str) -> None:
    """Upper-case ids, Azure's words."""
    said = busy.ask("GET", path)

    assert said.status == 200
    assert not LOWER_GUID.search(said.body.decode())
    assert not OUR_WORDS.search(said.body.decode().replace('""', '"'))


def test_changes_have_the_same_spelling(busy: ApiHarness) -> None:
    """From the first fact to the last."""
    with listening(busy, **{"Last-Event-ID": "0"}) as stream:
        for _ in range(busy.node.replica.revision):
            message = str(stream.next()).replace("'", '"')

            assert not LOWER_GUID.search(message)
            assert not OUR_WORDS.search(message)


def test_answers_and_refusals_have_the_same_spelling(busy: ApiHarness) -> None:
    """An operation's id, the events it names, and the sentence that names one."""
    done = busy.ask("POST", "/v1/vms/web-1/operations", {"operation": "restart"})
    refused = busy.ask("POST", "/v1/vms/web-1/operations", {"operation": "restart"})

    assert (done.status, refused.status) == (201, 409)
    assert done.json["announcements"][0]["event"]["id"] in refused.json["detail"]
    assert not LOWER_GUID.search(done.body.decode() + refused.body.decode())
    assert busy.ask("GET", f"/v1/operations/{done.json['operation']}").status == 200


def test_the_operation_of_a_vm_is_found_by_the_id_that_history_shows(busy: ApiHarness) -> None:
    """However the journal writes it."""
    line = busy.ask("GET", "/v1/history?caller=web-0").json["items"][0]

    assert busy.ask("GET", f"/v1/operations/{line['operation']}").status == 200


@pytest.mark.parametrize("shape", [str.lower, str.upper, str.swapcase])
def test_any_case_is_taken(busy: ApiHarness, shape: type[str]) -> None:
    """In paths, queries and bodies."""
    event = busy.ask("GET", "/v1/events/last").json["id"]
    operation = busy.ask("GET", "/v1/history").json["items"][0]["operation"]
    subscription = busy.ask("GET", "/v1/subscriptions/s").json["id"]

    assert busy.ask("GET", f"/v1/events/{shape(event)}").json["id"] == event
    assert busy.ask("GET", f"/v1/history?event={shape(event)}").json["items"]
    assert busy.ask("GET", f"/v1/operations/{shape(operation)}").json["operation"] == operation
    assert busy.ask("GET", f"/v1/subscriptions/{shape(subscription)}").json["name"] == "s"
    listed = busy.ask("GET", f"/v1/events?type={shape('Freeze')}&status={shape('Canceled')}&finished=100").json
    assert [(each["type"], each["status"]) for each in listed["items"]] == [("Freeze", "Canceled")]
    body = {"name": "t", "kind": "webhook", "target": "https://example.org", "types": [shape("Reboot")]}
    assert busy.ask("POST", "/v1/subscriptions", body).json["types"] == ["Reboot"]


def test_a_word_that_is_none_is_refused_with_those_that_are(harness: ApiHarness) -> None:
    """And with its place."""
    body = {"name": "t", "kind": "webhook", "target": "https://example.org", "types": ["Explode"]}

    for said, place in (
        (harness.ask("GET", "/v1/events?status=lost"), "query.status"),
        (harness.ask("POST", "/v1/subscriptions", body), "body.types"),
    ):
        assert (said.status, said.json["errors"][0]["place"]) == (400, place)
    assert "Scheduled, Started, Completed" in harness.ask("GET", "/v1/events?status=lost").json["detail"]
