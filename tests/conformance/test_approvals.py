"""Rows of ``docs/reference/azure.md``: approvals."""

import json

import pytest

from tests.conformance.cloud import Cloud


def status(cloud: Cloud, event: str, vm: str = "web-0") -> str:
    """Return the status in which a VM sees an event."""
    (found,) = (each["EventStatus"] for each in cloud.events(vm) if each["EventId"] == event)
    return str(found)


def test_approval_answers_200(cloud: Cloud) -> None:
    """There is nothing to read in the answer."""
    reply = cloud.approve(cloud.operate("restart", "web-0"))

    assert (reply.status, reply.body, reply.header("Content-Length")) == (200, b"", "0")


def test_approval_starts_the_event(cloud: Cloud) -> None:
    """When the answer is there, the event has started."""
    event = cloud.operate("restart", "web-0")
    cloud.approve(event)

    assert status(cloud, event) == "Started"


def test_approval_by_a_neighbour(cloud: Cloud) -> None:
    """One word of any VM of the group is enough for all."""
    event = cloud.operate("restart", "web-0")
    cloud.approve(event, vm="web-2")

    assert status(cloud, event) == "Started"


def test_approval_by_all(cloud: Cloud) -> None:
    """Where all are asked, each speaks for itself, and a deallocated one is not asked."""
    cloud.operate_host("reboot", "h2")
    event = cloud.events("pair-0")[0]["EventId"]

    assert cloud.approve(event, vm="pair-9").status == 200
    assert cloud.approve(event, vm="pair-0").status == 200
    recorded = cloud.assembly.node.fleet.events[event.lower()]
    assert (recorded.approvals, recorded.neighbours) == (("pair-0",), ("pair-9",))
    assert status(cloud, event, "pair-0") == "Scheduled"
    cloud.approve(event, vm="pair-1")
    assert status(cloud, event, "pair-0") == "Started"


def test_approval_by_a_quorum(cloud: Cloud) -> None:
    """Two of three are enough, whichever they are; one is not, however often it says so."""
    event = cloud.operate("restart", "trio-0")

    cloud.approve(event, vm="trio-1")
    cloud.approve(event, vm="trio-1")
    assert status(cloud, event, "trio-0") == "Scheduled"
    cloud.approve(event, vm="trio-2")
    assert status(cloud, event, "trio-0") == "Started"


def postpone(cloud: Cloud, event: str, seconds: int, vm: str) -> int:
    """Ask for more time; return the status of the answer."""
    wish = {"EventId": event, "Seconds": seconds, "Reason": "a backup runs"}
    return cloud.post(json.dumps({"PostponeRequests": [wish]}).encode(), vm).status


def test_postponement(cloud: Cloud) -> None:
    """NotBefore moves by as much as was asked for, up to the group's limit in all."""
    event = cloud.operate("restart", "trio-0")

    assert postpone(cloud, event, 1200, "trio-1") == 200
    assert cloud.events("trio-0")[0]["NotBefore"] == "Mon, 05 Jan 2026 12:35:00 GMT"
    assert postpone(cloud, event, 601, "trio-1") == 400
    assert postpone(cloud, event, 600, "trio-1") == 200
    assert cloud.events("trio-0")[0]["NotBefore"] == "Mon, 05 Jan 2026 12:45:00 GMT"
    assert postpone(cloud, cloud.operate("restart", "web-0"), 1, "web-0") == 400
    assert postpone(cloud, cloud.operate("evict", "trio-2"), 1, "trio-2") == 400


def test_approval_again(cloud: Cloud) -> None:
    """Whoever comes second is told that all is well."""
    event = cloud.operate("restart", "web-0")
    cloud.approve(event)
    before = cloud.document()

    assert [cloud.approve(event).status, cloud.approve(event, vm="web-1").status] == [200, 200]
    assert cloud.document() == before


def test_approval_of_several(cloud: Cloud) -> None:
    """All of them start."""
    events = cloud.operate("restart", "web-0"), cloud.operate("redeploy", "web-1")
    cloud.approve(*events)

    assert [status(cloud, event) for event in events] == ["Started", "Started"]


def test_approval_of_none(cloud: Cloud) -> None:
    """To approve nothing is no mistake."""
    assert cloud.approve().status == 200


def test_approval_whole_or_not(cloud: Cloud) -> None:
    """One wrong id, and nothing is approved."""
    event = cloud.operate("restart", "web-0")
    foreign = cloud.operate("restart", "solo")
    finished = cloud.operate("redeploy", "web-1")
    cloud.cancel(finished)

    for wrong in ("11111111-2222-3333-4444-555555555555", foreign, finished, "no id at all"):
        assert cloud.approve(event, wrong).status == 400
    assert status(cloud, event) == "Scheduled"
    assert status(cloud, foreign, "solo") == "Scheduled"


def test_approval_id_in_any_case(cloud: Cloud) -> None:
    """The id may come back in lower case."""
    event = cloud.operate("restart", "web-0")
    cloud.approve(event.lower())

    assert status(cloud, event) == "Started"


def test_approval_in_any_version(cloud: Cloud) -> None:
    """Ids do not depend on the version, and neither does what may be approved."""
    event = cloud.operate("evict", "workers_1")

    assert cloud.approve(event, vm="workers_0", version="2017-03-01").status == 200
    assert status(cloud, event, "workers_0") == "Started"


@pytest.mark.parametrize("content_type", ["", "application/x-www-form-urlencoded", "application/json", "nonsense"])
def test_approval_content_type(cloud: Cloud, content_type: str) -> None:
    """Clients send what their library sends."""
    event = cloud.operate("restart", "web-0")

    assert cloud.approve(event, Content_Type=content_type).status == 200
    assert status(cloud, event) == "Started"


@pytest.mark.parametrize("incarnation", ["5", 5, -1, None])
def test_approval_old_keys(cloud: Cloud, incarnation: object) -> None:
    """What old samples send beside the ids means nothing."""
    event = cloud.operate("restart", "web-0")
    request = {"EventId": event, "Comment": "x"}
    body = {"DocumentIncarnation": incarnation, "StartRequests": [request], "Other": {}}

    assert cloud.post(json.dumps(body).encode()).status == 200
    assert status(cloud, event) == "Started"


def test_approval_without_header(cloud: Cloud) -> None:
    """Only clients of the first version may forget the header, and only to approve."""
    event = cloud.operate("restart", "web-0")

    assert cloud.approve(event, version="2017-08-01", Metadata="").status == 400
    assert cloud.get("/metadata/scheduledevents?api-version=2017-03-01", Metadata="").status == 400
    assert status(cloud, event) == "Scheduled"
    assert cloud.approve(event, version="2017-03-01", Metadata="").status == 200
    assert status(cloud, event) == "Started"


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
def test_approval_unreadable(cloud: Cloud, body: bytes) -> None:
    """What cannot be read is refused, and the refusal says what is wrong."""
    reply = cloud.post(body)

    assert reply.status == 400
    assert reply.error.startswith("Bad request. the approval cannot be read: ")
