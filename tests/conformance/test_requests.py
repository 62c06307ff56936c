"""Rows of ``docs/reference/azure.md``: requests and api-versions."""

import json

import pytest

from forewarn.wire.versions import API_VERSIONS, INSTANCE, SCHEDULED_EVENTS
from tests.conformance.harness import EVENTS, NEWEST, ServiceHarness

FIRST_KEYS = ["EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore"]


def shown_by(harness: ServiceHarness, version: str, vm: str) -> dict[str, object]:
    """Return the only event that the version shows."""
    (event,) = harness.events(vm, version)
    return event


@pytest.mark.parametrize(
    "path", ["/metadata/scheduledEvents", "/Metadata/ScheduledEvents/", "/METADATA/SCHEDULEDEVENTS"]
)
def test_path_any_case(harness: ServiceHarness, path: str) -> None:
    """Upper and lower case, and a slash at the end, make no difference."""
    assert harness.get(f"{path}?api-version={NEWEST}").body == harness.get().body


@pytest.mark.parametrize(("name", "value"), [("metadata", "true"), ("METADATA", "TRUE"), ("Metadata", "True")])
def test_header_any_case(harness: ServiceHarness, name: str, value: str) -> None:
    """The header counts however it is spelled."""
    assert harness.ask("GET", f"{EVENTS}?api-version={NEWEST}", {name: value}).status == 200


def test_parameter_any_case(harness: ServiceHarness) -> None:
    """The parameter's name counts in any case, and what is not known does no harm."""
    assert harness.get(f"{EVENTS}?API-Version={NEWEST}&colour=blue").status == 200


def test_preview_path_is_gone(harness: ServiceHarness) -> None:
    """The path of the preview leads nowhere."""
    assert harness.get(f"/metadata/latest/scheduledevents?api-version={NEWEST}").status == 404
    assert harness.get("/metadata/latest/scheduledevents").status == 404


def test_latest_is_no_version(harness: ServiceHarness) -> None:
    """There is no version called latest."""
    assert harness.get(f"{EVENTS}?api-version=latest").status == 400


def test_head_is_get_without_body(harness: ServiceHarness) -> None:
    """HEAD has the headers of GET, its length too, and no body."""
    get, head = harness.get(), harness.get(method="HEAD")

    assert (head.status, head.body) == (200, b"")
    assert head.header("Content-Length") == str(len(get.body))
    assert head.header("ETag") == get.header("ETag")


def test_old_http_is_answered(harness: ServiceHarness) -> None:
    """HTTP/1.0 gets its document and a closed connection, or an open one if it asks for that."""
    request = f"GET {EVENTS}?api-version={NEWEST} HTTP/1.0\r\nMetadata: true\r\n".encode()

    assert b"Connection: close" in harness.send(request + b"\r\n")
    assert b"Connection: keep-alive" in harness.send(request + b"Connection: keep-alive\r\n\r\n")


def test_answer_headers(harness: ServiceHarness) -> None:
    """The headers that Azure sends come in the order that Azure sends them."""
    names = [name for name, _ in harness.get().headers]

    assert [name for name in names if name != "ETag"] == ["Content-Type", "Server", "Date", "Content-Length"]
    assert harness.get().header("Content-Type") == "application/json; charset=utf-8"
    assert harness.get().header("Server") == "Forewarn"


def test_version_2017_03_01(harness: ServiceHarness) -> None:
    """The first version has six keys, and an underscore before the names of VMs but not of roles."""
    harness.operate("restart", "web-0")
    harness.operate("restart", "FrontEnd_IN_0")
    harness.operate("evict", "workers_1")

    assert list(shown_by(harness, "2017-03-01", "web-0")) == FIRST_KEYS
    assert shown_by(harness, "2017-03-01", "web-0")["Resources"] == ["_web-0"]
    assert shown_by(harness, "2017-03-01", "FrontEnd_IN_0")["Resources"] == ["FrontEnd_IN_0"]
    assert harness.events("workers_0", "2017-03-01") == []
    assert harness.post(b'{"StartRequests":[]}', version="2017-03-01", Metadata="").status == 200


def test_version_2017_08_01(harness: ServiceHarness) -> None:
    """Names stand as they are, and the header is needed."""
    harness.operate("restart", "web-0")

    assert list(shown_by(harness, "2017-08-01", "web-0")) == FIRST_KEYS
    assert shown_by(harness, "2017-08-01", "web-0")["Resources"] == ["web-0"]
    assert harness.post(b'{"StartRequests":[]}', version="2017-08-01", Metadata="").status == 400


def test_version_2017_11_01(harness: ServiceHarness) -> None:
    """Preempt is shown from here on."""
    harness.operate("evict", "workers_1")

    assert harness.events("workers_0", "2017-08-01") == []
    assert shown_by(harness, "2017-11-01", "workers_0")["EventType"] == "Preempt"


def test_version_2019_01_01(harness: ServiceHarness) -> None:
    """Terminate is shown from here on."""
    harness.operate("delete", "workers_0")

    assert harness.events("workers_1", "2017-11-01") == []
    assert shown_by(harness, "2019-01-01", "workers_1")["EventType"] == "Terminate"
    assert list(shown_by(harness, "2019-01-01", "workers_1")) == FIRST_KEYS


def test_version_2019_04_01(harness: ServiceHarness) -> None:
    """Description is shown from here on."""
    harness.operate("restart", "web-0")

    assert list(shown_by(harness, "2019-04-01", "web-0")) == [*FIRST_KEYS, "Description"]


def test_version_2019_08_01(harness: ServiceHarness) -> None:
    """EventSource is shown from here on."""
    harness.operate("restart", "web-0")

    assert list(shown_by(harness, "2019-08-01", "web-0")) == [*FIRST_KEYS, "Description", "EventSource"]


def test_version_2020_07_01(harness: ServiceHarness) -> None:
    """DurationInSeconds is shown from here on."""
    harness.operate("restart", "web-0")

    assert list(shown_by(harness, "2020-07-01", "web-0")) == [
        *FIRST_KEYS, "Description", "EventSource", "DurationInSeconds",
    ]  # fmt: skip


def test_hidden_events_count(harness: ServiceHarness) -> None:
    """The incarnation is the same in every version, whatever that version shows."""
    harness.operate("delete", "workers_0")

    assert {harness.document("workers_1", version.name)["DocumentIncarnation"] for version in API_VERSIONS} == {2}


def test_versions_apart(harness: ServiceHarness) -> None:
    """Each route takes its own versions only."""
    assert harness.get(f"{EVENTS}?api-version=2025-04-07").status == 400
    assert harness.get("/metadata/instance?api-version=2025-04-07").status == 200
    assert harness.get("/metadata/instance?api-version=2020-07-01").status == 400


def test_versions_listed(harness: ServiceHarness) -> None:
    """All versions of both routes are listed, without asking for one."""
    reply = harness.get("/metadata/versions")
    listed = json.loads(reply.body)["apiVersions"]

    assert listed == sorted({*SCHEDULED_EVENTS.names, *INSTANCE.names})
    assert reply.body.startswith(b'{"apiVersions":["2017-03-01","2017-04-02",')
