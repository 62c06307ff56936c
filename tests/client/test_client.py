"""The client as programs use it, against the real service."""

import logging
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

import forewarn
from forewarn import ChangeKind, Client, Closed, Ending, NotPostponed, UnknownEvent
from forewarn.client.steps import Pause
from forewarn.core.errors import BadInput
from forewarn.emulator import Emulator
from forewarn.emulator.faults import FaultKind
from forewarn.testing.scheduled_events import ScheduledEvents
from forewarn.wire.versions import SCHEDULED_EVENTS
from tests.client.hostile_server import CannedResponse, HostileServer, whole


class HurriedClient(Client):
    """A client that pauses for a hundred-thousandth of the time."""

    def _pause(self, pause: Pause) -> object:
        return super()._pause(replace(pause, seconds=pause.seconds / 100_000))


@pytest.fixture
def client(scheduled_events: ScheduledEvents) -> Iterator[Client]:
    with HurriedClient(scheduled_events.url) as client:
        yield client


def test_a_document_is_read(scheduled_events: ScheduledEvents, client: Client) -> None:
    """Of a VM that is named, by a service that is."""
    event = scheduled_events.vms[0].reboot()
    document = client.document()

    assert [each.id for each in document.events] == [event.id]
    assert client.own_name() == scheduled_events.vms[0].name
    assert (client.url, client.api_version) == (scheduled_events.events_url, "2020-07-01")
    assert (client.found_by, client.trouble) == ("given", "")


@pytest.mark.parametrize("version", SCHEDULED_EVENTS.names)
def test_every_version_names_the_vm_alike(scheduled_events: ScheduledEvents, version: str) -> None:
    """Also the first, whose names begin with an underscore."""
    scheduled_events.vms[0].reboot()
    with Client(scheduled_events.url, api_version=version) as client:
        assert client.document().events[0].resources == (client.own_name(),)


def test_an_approval_starts_the_event(scheduled_events: ScheduledEvents, client: Client) -> None:
    """Given as an event or by its id in any case; once it is gone the error names it."""
    event = scheduled_events.vms[0].reboot()
    client.approve(client.document().events[0])
    client.approve(event.id.upper())

    assert event.status == "started"
    scheduled_events.advance("15m")
    with pytest.raises(UnknownEvent, match=event.shown_id):
        client.approve(event.id)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda client: client.approve(()), r"not as \(\); write approve\(\*events\) for several"),
        (lambda client: client.approve(None), "an event is given as such or by its id, not as None"),
        (lambda client: client.wait_for_start("x", within=5), "within is 5, expected a timedelta such as"),
        (lambda _: Client(patience=5), "patience is 5, expected a timedelta such as"),  # type: ignore[arg-type]
    ],
)
def test_misuse_is_told_in_words(client: Client, call: Callable[[Client], object], said: str) -> None:
    """With what was given, and how it is written."""
    with pytest.raises(BadInput, match=said):
        call(client)


def test_changes_are_followed_from_announcement_to_end(scheduled_events: ScheduledEvents, client: Client) -> None:
    """By long poll: each is seen as it happens."""
    changes = client.watch()
    seen = []
    first = scheduled_events.vms[0].reboot()
    seen.append(next(changes))
    client.approve(first.id)
    seen.append(next(changes))
    scheduled_events.advance("15m")
    seen.append(next(changes))
    second = scheduled_events.vms[0].freeze()
    seen.append(next(changes))
    second.cancel()
    seen.append(next(changes))
    changes.close()

    assert [(each.event.id, each.kind, each.ending) for each in seen] == [
        (first.id, ChangeKind.NEW, None),
        (first.id, ChangeKind.STARTED, None),
        (first.id, ChangeKind.GONE, Ending.COMPLETED),
        (second.id, ChangeKind.NEW, None),
        (second.id, ChangeKind.GONE, Ending.CANCELED),
    ]
    assert sum(request.method == "GET" for request in scheduled_events.requests) <= 8


FLEET = """
[[host]]
name = "rack-1"

[[group]]
name = "web"
kind = "availability-set"
postpone_limit = "1h"

[[vm]]
name = "web-0"
group = "web"
host = "rack-1"
update_domain = 0
fault_domain = 0
"""


def test_more_time_is_given_where_the_group_allows_it(tmp_path: Path) -> None:
    """And refused with the service's reason where not."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    with Emulator(fleet=fleet) as emulator, Client(emulator.url) as client:
        emulator.vm("web-0").reboot()
        before = client.document().events[0]
        client.postpone(before, timedelta(minutes=10), "backup")
        after = client.document().events[0]

        assert before.not_before is not None
        assert after.not_before == before.not_before + timedelta(minutes=10)
        with pytest.raises(NotPostponed, match="can be postponed by 1 to 3000 s more"):
            client.postpone(before, timedelta(hours=2))


def test_who_waits_in_another_thread_ends_with_the_client() -> None:
    """And what is asked afterwards says why it is not answered."""
    with HostileServer(whole(), CannedResponse(then="hang")) as server, HurriedClient(server.url) as client:
        documents = client.documents()
        next(documents)
        ended: list[object] = []
        waiting = threading.Thread(target=lambda: ended.extend(documents), daemon=True)
        waiting.start()
        server.wait_for_requests(2)
        client.close()
        waiting.join(60)

        assert not waiting.is_alive()
        assert ended == []
        with pytest.raises(Closed, match="The client is closed"):
            client.document()


def test_threads_share_a_client(scheduled_events: ScheduledEvents, client: Client) -> None:
    """One follows the document, another approves meanwhile."""
    event = scheduled_events.vms[0].reboot()
    changes = client.watch()
    next(changes)
    approving = threading.Thread(target=client.approve, args=(event.id,))
    approving.start()

    assert next(changes).kind is ChangeKind.STARTED
    approving.join()


SLOW = {FaultKind.DELAY, FaultKind.STALL, FaultKind.SLOW_FIRST_CALL}


@pytest.mark.parametrize("kind", sorted(set(FaultKind) - SLOW))
def test_every_fault_that_the_emulator_knows_is_stood(kind: FaultKind, scheduled_events: ScheduledEvents) -> None:
    """Asked, named, approved and followed all the same."""
    with HurriedClient(scheduled_events.url) as client:
        for times in (1, 3):
            event = scheduled_events.vms[0].reboot()
            scheduled_events.add_fault(kind, times=times)
            document = client.document()
            scheduled_events.add_fault(kind, times=times)
            client.approve(*document.events)

            assert event.status == "started"
            scheduled_events.advance("15m")
            assert client.own_name() == scheduled_events.vms[0].name


HOSTILE = {
    "garbage": CannedResponse(b"\x00garbage\r\n\r\n"),
    "half a body": CannedResponse(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"Doc'),
    "a redirect": whole(b"", "Location: http://127.0.0.1:1/", status="301 Moved Permanently"),
    "a page": whole(b"<!doctype html><title>Sign in</title>", "Content-Type: text/html"),
    "nothing": CannedResponse(),
    "silence": CannedResponse(then="hang"),
    "endless heads": CannedResponse(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000),
    "a wrong length": CannedResponse(
        b'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{"DocumentIncarnation":1}', then="close"
    ),
    "bad chunks": CannedResponse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"),
    "an empty body": whole(b""),
    "a list": whole(b"[]"),
    "no number": whole(b'{"DocumentIncarnation":"x","Events":[]}'),
    "deep nesting": whole(b"[" * 200_000),
    "too much": whole(b" " * 1_200_000),
    "an error": whole(b"{}", status="500 Oops"),
    "a teapot": whole(b"short and stout", status="418 I'm a teapot"),
    "a reset": CannedResponse(then="reset"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_service_is_survived_and_logged_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Over real sockets, twenty times in a row; then its next document is seen."""
    caplog.set_level(logging.INFO, "forewarn.client")
    news = whole(b'\xef\xbb\xbf{"DocumentIncarnation":2,"Events":[]}')
    with HostileServer(whole(), *[HOSTILE[name]] * 20, news) as server, HurriedClient(server.url) as client:
        if name == "silence":  # elsewhere a busy machine would make a second trouble of a late answer
            client.session.later_limit = 0.05
        documents = client.documents()

        assert [next(documents).incarnation, next(documents).incarnation] == [1, 2]
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
        assert len(caplog.records[0].getMessage()) < 400
        documents.close()


def test_a_service_that_is_hostile_from_the_start_is_an_error_in_one_sentence() -> None:
    """Of a family that callers can tell apart."""
    for name, error in (
        ("a page", forewarn.NotAService),
        ("nothing", forewarn.NoAnswer),
        ("an error", forewarn.NotReady),
    ):
        with HostileServer(HOSTILE[name]) as server, Client(server.url, patience=timedelta(0)) as client:
            with pytest.raises(error) as raised:
                client.document()
            assert str(raised.value).startswith(f"{server.url}/metadata/scheduledevents ")
