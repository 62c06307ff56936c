"""Rows of ``docs/reference/azure.md``: approvals."""

import json

import pytest

from tests.conformance.harness import ServiceHarness


def status(harness: ServiceHarness, event: str, vm: str = "web-0") -> str:
    """Return the status in which a VM sees an event."""
    (found,) = (each["EventStatus"] for each in harness.events(vm) if each["EventId"] == event)
    return str(found)


def test_approval_answers_200(harness: ServiceHarness) -> None:
    """There is nothing to read in the answer."""
    reply = harness.approve(harness.operate("restart", "web-0"))

    assert (reply.status, reply.body, reply.header("Content-Length")) == (200, b"", "0")


def test_approval_starts_the_event(harness: ServiceHarness) -> None:
    """When the answer is there, the event has started."""
    event = harness.operate("restart", "web-0")
    harness.approve(event)

    assert status(harness, event) == "Started"


def test_approval_by_a_neighbour(harness: ServiceHarness) -> None:
    """One word of any VM of the group is enough for all."""
    event = harness.operate("restart", "web-0")
    harness.approve(event, vm="web-2")

    assert status(harness, event) == "Started"


def test_approval_by_all(harness: ServiceHarness) -> None:
    """Where all are asked, each speaks for itself, and a deallocated one is not asked."""
    harness.operate_host("reboot", "h2")
    event = harness.events("pair-0")[0]["EventId"]

    assert harness.approve(event, vm="pair-9").status == 200
    assert harness.approve(event, vm="pair-0").status == 200
    recorded = harness.assembly.node.replica.fleet.events[event.lower()]
    assert (recorded.approvals, recorded.neighbours) == (("pair-0",), ("pair-9",))
    assert status(harness, event, "pair-0") == "Scheduled"
    harness.approve(event, vm="pair-1")
    assert status(harness, event, "pair-0") == "Started"


def test_approval_by_a_quorum(harness: ServiceHarness) -> None:
    """Two of three are enough, whichever they are; one is not, however often it says so."""
    event = harness.operate("restart", "trio-0")

    harness.approve(event, vm="trio-1")
    harness.approve(event, vm="trio-1")
    assert status(harness, event, "trio-0") == "Scheduled"
    harness.approve(event, vm="trio-2")
    assert status(harness, event, "trio-0") == "Started"


def postpone(harness: ServiceHarness, event: str, seconds: int, vm: str) -> int:
    """Ask for more time; return the status of the answer."""
    wish = {"EventId": event, "Seconds": seconds, "Reason": "a backup runs"}
    return harness.post(json.dumps({"PostponeRequests": [wish]}).encode(), vm).status


def test_postponement(harness: ServiceHarness) -> None:
    """NotBefore moves by as much as was asked for, up to the group's limit in all."""
    event = harness.operate("restart", "trio-0")

    assert postpone(harness, event, 1200, "trio-1") == 200
    assert harness.events("trio-0")[0]["NotBefore"] == "Mon, 05 Jan 2026 12:35:00 GMT"
    assert postpone(harness, event, 601, "trio-1") == 400
    assert postpone(harness, event, 600, "trio-1") == 200
    assert harness.events("trio-0")[0]["NotBefore"] == "Mon, 05 Jan 2026 12:45:00 GMT"
    assert postpone(harness, harness.operate("restart", "web-0"), 1, "web-0") == 400
    assert postpone(harness, harness.operate("evict", "trio-2"), 1, "trio-2") == 400


def test_approval_again(harness: ServiceHarness) -> None:
    """Whoever comes second is told that all is well."""
    event = harness.operate("restart", "web-0")
    harness.approve(event)
    before = harness.document()

    assert [harness.approve(event).status, harness.approve(event, vm="web-1").status] == [200, 200]
    assert harness.document() == before


def test_approval_of_several(harness: ServiceHarness) -> None:
    """All of them start."""
    events = harness.operate("restart", "web-0"), harness.operate("redeploy", "web-1")
    harness.approve(*events)

    assert [status(harness, event) for event in events] == ["Started", "Started"]


def test_approval_of_none(harness: ServiceHarness) -> None:
    """To approve nothing is no mistake."""
    assert harness.approve().status == 200


def test_approval_whole_or_not(harness: ServiceHarness) -> None:
    """One wrong id, and nothing is approved."""
    event = harness.operate("restart", "web-0")
    foreign = harness.operate("restart", "solo")
    finished = harness.operate("redeploy", "web-1")
    harness.cancel(finished)

    for wrong in ("11111111-2222-3333-4444-555555555555", foreign, finished, "no id at all"):
        assert harness.approve(event, wrong).status == 400
    assert status(harness, event) == "Scheduled"
    assert status(harness, foreign, "solo") == "Scheduled"


def test_approval_id_in_any_case(harness: ServiceHarness) -> None:
    """The id may come back in lower case."""
    event = harness.operate("restart", "web-0")
    harness.approve(event.lower())

    assert status(harness, event) == "Started"


def test_approval_in_any_version(harness: ServiceHarness) -> None:
    """Ids do not depend on the version, and neither does what may be approved."""
    event = harness.operate("evict", "workers_1")

    assert harness.approve(event, vm="workers_0", version="2017-03-01").status == 200
    assert status(harness, event, "workers_0") == "Started"


@pytest.mark.parametrize("content_type", ["", "application/x-www-form-urlencoded", "application/json", "nonsense"])
def test_approval_content_type(harness: ServiceHarness, content_type: str) -> None:
    """Clients send what their library sends."""
    event = harness.operate("restart", "web-0")

    assert harness.approve(event, Content_Type=content_type).status == 200
    assert status(harness, event) == "Started"


@pytest.mark.parametrize("incarnation", ["5", 5, -1, None])
def test_approval_old_keys(harness: ServiceHarness, incarnation: object) -> None:
    """What old samples send beside the ids means nothing."""
    event = harness.operate("restart", "web-0")
    request = {"EventId": event, "Comment": "x"}
    body = {"DocumentIncarnation": incarnation, "StartRequests": [request], "Other": {}}

    assert harness.post(json.dumps(body).encode()).status == 200
    assert status(harness, event) == "Started"


def test_approval_without_header(harness: ServiceHarness) -> None:
    """Only clients of the first version may forget the header, and only to approve."""
    event = harness.operate("restart", "web-0")

    assert harness.approve(event, version="2017-08-01", Metadata="").status == 400
    assert harness.get("/metadata/scheduledevents?api-version=2017-03-01", Metadata="").status == 400
    assert status(harness, event) == "Scheduled"
    assert harness.approve(event, version="2017-03-01", Metadata="").status == 200
    assert status(harness, event) == "Started"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"StartRequests":null}',
        b'{"StartRequests":{}}',
        b'{"StartRequests":[{}]}',
        b'{"StartRequests":[{"EventId":7}]}',
        b'{"startrequests":[]}',
        b"EventId=7",
    ],
)
def test_approval_unreadable(harness: ServiceHarness, body: bytes) -> None:
    """What cannot be read is refused, and the refusal says what is wrong."""
    reply = harness.post(body)

    assert reply.status == 400
    assert reply.error.startswith("Bad request. the approval cannot be read: ")
