"""Recordings: what an endpoint showed is kept word for word, and shown again."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from forewarn.clocks import ManualClock
from forewarn.core.errors import BadInput, Unavailable
from forewarn.emulator import recording
from forewarn.emulator.recording import (
    RecordedDocument,
    RecordedEndpoint,
    Recording,
    RecordingHeader,
    open_recording,
    record_documents,
)
from forewarn.emulator.replay import Replay
from forewarn.testing import ScheduledEvents

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ID = "CA9C0DC4-E841-476D-94D5-9FC2FF983BCD"


def body(incarnation: int, status: str = "", not_before: str = "") -> str:
    event = {
        "EventId": ID,
        "EventStatus": status,
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["web-0"],
        "NotBefore": not_before,
        "Description": "Virtual machine is going to be restarted as requested by authorized user.",
        "EventSource": "User",
        "DurationInSeconds": -1,
    }
    shown = {"DocumentIncarnation": incarnation, "Events": [event] if status else []}
    return json.dumps(shown, separators=(",", ":"))


STORY = Recording(
    RecordingHeader(vm="web-0", api_version="2020-07-01"),
    (
        RecordedDocument(NOON, body(27)),
        RecordedDocument(NOON + MINUTE, body(28, "Scheduled", "Sun, 01 Mar 2026 12:16:00 GMT")),
        RecordedDocument(NOON + 5 * MINUTE, body(29, "Started")),
        RecordedDocument(NOON + 9 * MINUTE, body(31)),
    ),
)


def play(
    story: Callable[[Replay, ManualClock], Awaitable[None]], hurry: float = 1.0, recorded: Recording = STORY
) -> None:
    async def run() -> None:
        clock = ManualClock(datetime(2026, 5, 5, tzinfo=UTC))
        replay = Replay(recorded, clock, hurry=hurry)
        await replay.start()
        try:
            await story(replay, clock)
        finally:
            await replay.stop()

    asyncio.run(run())


async def ask(replay: Replay, content: bytes | None = None, version: str = "2020-07-01") -> str:
    url = f"http://127.0.0.1:{replay.vm_ports.port_of('web-0')}/metadata/scheduledevents?api-version={version}"
    request = Request(url, data=content, headers={"Metadata": "true"})

    def get() -> str:
        with urlopen(request, timeout=60) as answer:  # noqa: S310
            return str(answer.read().decode())

    return await asyncio.to_thread(get)


def test_documents_come_again_as_they_were_with_their_times_moved() -> None:
    """Word for word, incarnations included; NotBefore is as far ahead as it was."""

    async def story(replay: Replay, clock: ManualClock) -> None:
        assert await ask(replay) == body(27)
        clock.advance(MINUTE)
        assert await ask(replay) == body(28, "Scheduled", "Tue, 05 May 2026 00:16:00 GMT")
        clock.advance(4 * MINUTE)
        assert await ask(replay) == body(29, "Started")
        assert not replay.is_over.is_set()
        clock.advance(4 * MINUTE)
        assert await ask(replay) == body(31)
        assert replay.is_over.is_set()

    play(story)


def test_a_hurried_recording_is_over_sooner() -> None:
    """Documents come faster, and NotBefore is nearer."""

    async def story(replay: Replay, clock: ManualClock) -> None:
        await ask(replay)
        clock.advance(MINUTE / 60)
        assert await ask(replay) == body(28, "Scheduled", "Tue, 05 May 2026 00:00:16 GMT")
        clock.advance(8 * MINUTE / 60)
        assert replay.is_over.is_set()

    play(story, hurry=60)


def test_it_begins_with_the_first_request() -> None:
    """However long nobody asks; times count from then on."""

    async def story(replay: Replay, clock: ManualClock) -> None:
        clock.advance(60 * MINUTE)
        assert not replay.is_over.is_set()
        assert await ask(replay) == body(27)
        clock.advance(MINUTE)
        assert await ask(replay) == body(28, "Scheduled", "Tue, 05 May 2026 01:16:00 GMT")

    play(story)


STRANGE = """{ "Events" : [
  {"NotBefore": "%s", "EventType":"Defragment", "EventId":"ab9c0dc4-e841-476d-94d5-9fc2ff983bcd",
   "Extra": {"NotBefore": "soon"}, "EventStatus":"Scheduled", "Resources":["web-0"], "ResourceType":"VirtualMachine"}
], "DocumentIncarnation": %d }"""


@pytest.mark.parametrize(
    ("recorded", "moved"),
    [
        ("2026-03-01T12:16:00Z", "2026-05-05T00:16:00Z"),
        ("2026-03-01T12:16:00", "2026-05-05T00:16:00"),
        ("2026-03-01T13:16:00.123+01:00", "2026-05-05T00:16:00.123+00:00"),
        ("Sun, 01 Mar 2026 12:16:00 GMT", "Tue, 05 May 2026 00:16:00 GMT"),
    ],
)
def test_a_document_is_word_for_word_whoever_wrote_it(recorded: str, moved: str) -> None:
    """Ids in their own case, keys in their own order, blanks, unknown words, and dates in their own spelling."""
    strange = Recording(
        RecordingHeader(vm="web-0", api_version="2020-07-01"),
        (RecordedDocument(NOON, STRANGE % (recorded, 5)), RecordedDocument(NOON + MINUTE, STRANGE % ("", 5))),
    )
    approval = json.dumps({"StartRequests": [{"EventId": "AB9C0DC4-e841-476d-94d5-9fc2ff983bcd"}]}).encode()

    async def story(replay: Replay, clock: ManualClock) -> None:
        assert await ask(replay) == STRANGE % (moved, 5)
        assert await ask(replay, approval) == ""
        clock.advance(MINUTE)
        assert await ask(replay) == STRANGE % ("", 5)

    play(story, recorded=strange)


def test_in_another_version_a_document_is_rendered() -> None:
    """With the names and keys of that version."""

    async def story(replay: Replay, clock: ManualClock) -> None:
        await ask(replay)
        clock.advance(MINUTE)
        shown = json.loads(await ask(replay, version="2017-03-01"))

        assert shown["Events"][0]["Resources"] == ["_web-0"]
        assert "EventSource" not in shown["Events"][0]

    play(story)


def test_who_waits_for_news_is_shown_the_recorded_words() -> None:
    """A question that is held back is answered like any other."""
    strange = Recording(
        RecordingHeader(vm="web-0", api_version="2020-07-01"),
        (RecordedDocument(NOON, body(27)), RecordedDocument(NOON + MINUTE, STRANGE % ("", 28))),
    )

    async def story(replay: Replay, clock: ManualClock) -> None:
        url = f"http://127.0.0.1:{replay.vm_ports.port_of('web-0')}/metadata/scheduledevents?api-version=2020-07-01"

        def get(**headers: str) -> tuple[str, str]:
            request = Request(url, headers={"Metadata": "true", **headers})
            with urlopen(request, timeout=60) as answer:  # noqa: S310
                return answer.headers["ETag"], answer.read().decode()

        tag, _ = await asyncio.to_thread(get)
        waiting = asyncio.create_task(asyncio.to_thread(get, **{"If-None-Match": tag, "Prefer": "wait=60"}))
        while len(replay.vm_ports.requests.sent) < 2:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        clock.advance(MINUTE)

        assert (await waiting)[1] == STRANGE % ("", 28)

    play(story, recorded=strange)


def test_approvals_are_answered_and_change_nothing() -> None:
    """200 for an event that is shown, 400 for one that is not."""
    approval = json.dumps({"StartRequests": [{"EventId": ID}]}).encode()

    async def story(replay: Replay, clock: ManualClock) -> None:
        with pytest.raises(HTTPError, match="400"):
            await ask(replay, approval)
        clock.advance(MINUTE)
        assert await ask(replay, approval) == ""
        assert '"Scheduled"' in await ask(replay)

    play(story)


def test_what_is_recorded_reads_back(scheduled_events: ScheduledEvents, tmp_path: Path) -> None:
    """Only documents that differ are kept, each as it came, and whose they are."""
    path = tmp_path / "events.jsonl"
    endpoint = RecordedEndpoint(scheduled_events.url, "2020-07-01")
    with open_recording(path, endpoint) as file:
        listening = record_documents(endpoint, file)
        first, again = next(listening), next(listening)
        scheduled_events.vms[0].freeze(seconds=7)
        second = next(listening)

    kept = recording.read(path)

    assert recording.is_recording(path)
    assert again is None
    assert kept.takes == (first, second)
    assert kept.vms == (scheduled_events.vms[0].name,)
    assert kept.takes[1].document.events[0].duration == 7


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", ":1:"),
        (b"{}\nx\n", ":2:"),
        (b'{"forewarn_recording":2}\n', "newer"),
        (b'{"forewarn_recording":1}\n', "no document"),
        (b'{"forewarn_recording":1}\n{"at":"2026-03-01T12:00:00Z","body":"x"}\n', ":2:"),
        (b'{"forewarn_recording":1}\n{"at":"2026-03-01T12:00:00","body":"{}"}\n', ":2:"),
    ],
)
def test_what_is_no_recording_is_refused_with_its_line(content: bytes, named: str, tmp_path: Path) -> None:
    """The place and what is wrong there."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(content)

    with pytest.raises(BadInput, match=named):
        recording.read(path)


def test_a_file_is_not_written_over(scheduled_events: ScheduledEvents, tmp_path: Path) -> None:
    """A recording begins in a new file."""
    path = tmp_path / "events.jsonl"
    path.write_text("precious")

    with pytest.raises(BadInput, match="exists already"):
        open_recording(path, RecordedEndpoint(scheduled_events.url, "2020-07-01"))
    assert path.read_text() == "precious"


def test_an_endpoint_that_refuses_is_quoted(scheduled_events: ScheduledEvents) -> None:
    """The status and the reason it gives."""
    with pytest.raises(Unavailable, match=r"answers 400: Bad request\. api-version is invalid"):
        RecordedEndpoint(scheduled_events.url, "latest").document()
