"""Rows of ``docs/reference/azure.md``: the document, and asking for it again."""

import asyncio
import json
import re
import threading

import pytest

from forewarn.wire.versions import API_VERSIONS
from tests.conformance.harness import EVENTS, NEWEST, Reply, ServiceHarness

KEYS = [
    "EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore", "Description", "EventSource",
    "DurationInSeconds",
]  # fmt: skip


def test_one_line_of_json(harness: ServiceHarness) -> None:
    """There are no blanks between the parts."""
    harness.operate("restart", "web-0")
    body = harness.get().body

    assert body == json.dumps(json.loads(body), separators=(",", ":")).encode()


def test_key_order(harness: ServiceHarness) -> None:
    """Keys stand in the order in which Azure writes them."""
    harness.operate("restart", "web-0")

    assert list(harness.document()) == ["DocumentIncarnation", "Events"]
    assert list(harness.events()[0]) == KEYS


def test_incarnation_is_a_number(harness: ServiceHarness) -> None:
    """It is an integer, not a text."""
    assert harness.get().body == b'{"DocumentIncarnation":1,"Events":[]}'


def test_incarnation_begins_at_one(harness: ServiceHarness) -> None:
    """Without an event ever, it is 1; the first event makes it 2."""
    assert harness.document() == {"DocumentIncarnation": 1, "Events": []}
    harness.operate("restart", "web-0")
    assert harness.document()["DocumentIncarnation"] == 2


def test_incarnation_rises_by_one(harness: ServiceHarness) -> None:
    """Announced, started and ended are one step each; an approval that does not start it is none."""
    (event,) = harness.operate_host("reboot", "h2")[:1]
    assert harness.document("pair-0")["DocumentIncarnation"] == 2
    harness.approve(event, vm="pair-0")
    assert harness.document("pair-0")["DocumentIncarnation"] == 2
    harness.approve(event, vm="pair-1")
    assert harness.document("pair-0")["DocumentIncarnation"] == 3
    harness.let_it_end()
    assert harness.document("pair-0") == {"DocumentIncarnation": 4, "Events": []}


def test_incarnation_never_falls(harness: ServiceHarness) -> None:
    """A group that was switched off for a day goes on where it stood."""
    harness.cancel(harness.operate("restart", "web-0"))
    harness.pass_time(until="switched-off", hours=25)

    assert harness.document() == {"DocumentIncarnation": 3, "Events": []}


def test_id_in_upper_case(harness: ServiceHarness) -> None:
    """It is a GUID in capitals, with hyphens and without braces."""
    harness.operate("restart", "web-0")

    assert re.fullmatch(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", harness.events()[0]["EventId"])


def test_id_for_life(harness: ServiceHarness) -> None:
    """A client can follow an event by its id."""
    event = harness.operate("restart", "web-0")
    before = harness.events()[0]
    harness.approve(event)
    after = harness.events()[0]

    assert before["EventId"] == after["EventId"] == event
    assert (before["EventStatus"], after["EventStatus"]) == ("Scheduled", "Started")


def test_resource_type(harness: ServiceHarness) -> None:
    """There is one type of resource."""
    harness.operate("restart", "web-0")

    assert harness.events()[0]["ResourceType"] == "VirtualMachine"


def test_resources_by_name(harness: ServiceHarness) -> None:
    """Clients elect the first, so the order never changes, whatever happens to the VMs."""
    harness.operate_host("reboot", "h2")
    before = harness.events("pair-0")[0]["Resources"]
    harness.deallocate("pair-0")

    assert before == harness.events("pair-1")[0]["Resources"] == ["pair-0", "pair-1"]


def test_events_by_announcement(harness: ServiceHarness) -> None:
    """What was announced first stands first, even if it is due later."""
    later = harness.operate("restart", "web-0")
    sooner = harness.operate("redeploy", "web-1")

    assert [event["EventId"] for event in harness.events()] == [later, sooner]


@pytest.mark.parametrize("version", [version.name for version in API_VERSIONS])
def test_not_before_in_rfc_1123(harness: ServiceHarness, version: str) -> None:
    """Every version writes the time in the same way."""
    harness.operate("restart", "web-0")

    assert harness.events(version=version)[0]["NotBefore"] == "Mon, 05 Jan 2026 12:15:00 GMT"


def test_not_before_is_empty_once_started(harness: ServiceHarness) -> None:
    """The key stays, the time is gone."""
    harness.approve(harness.operate("restart", "web-0"))

    assert harness.events()[0]["NotBefore"] == ""


def test_statuses(harness: ServiceHarness) -> None:
    """Scheduled, Started, gone."""
    event = harness.operate("restart", "web-0")
    assert harness.events()[0]["EventStatus"] == "Scheduled"
    harness.approve(event)
    assert harness.events()[0]["EventStatus"] == "Started"
    harness.let_it_end()
    assert harness.events() == []


def test_duration(harness: ServiceHarness) -> None:
    """A freeze says how long; a restart cannot know."""
    harness.operate("restart", "web-0")
    harness.operate("freeze", "web-1")
    harness.operate("freeze", "web-2", duration=9)

    assert [event["DurationInSeconds"] for event in harness.events()] == [-1, 5, 9]


def test_etag(harness: ServiceHarness) -> None:
    """It names the group and the incarnation, in quotes."""
    assert harness.get().header("ETag") == '"web-1"'
    harness.operate("restart", "web-0")
    assert harness.get().header("ETag") == '"web-2"'


def test_not_modified(harness: ServiceHarness) -> None:
    """Whoever has the document is told so, until it changes."""
    tag = harness.get().header("ETag")
    same = harness.get(If_None_Match=tag)
    harness.operate("restart", "web-0")

    assert (same.status, same.body, same.header("ETag")) == (304, b"", tag)
    assert harness.get(If_None_Match=tag).status == 200


@pytest.mark.parametrize("spelled", ['"web-1"', "web-1", 'W/"web-1"', '"other", "web-1"', "other,web-1", "*"])
def test_tags_in_any_spelling(harness: ServiceHarness, spelled: str) -> None:
    """Quotes, weakness and lists make no difference."""
    assert harness.get(If_None_Match=spelled).status == 304


@pytest.mark.parametrize("tag", ['"pair-1"', "1", "0", '"web-11"', "web"])
def test_tag_of_another_group(harness: ServiceHarness, tag: str) -> None:
    """No tag but the document's own matches it."""
    assert harness.get(If_None_Match=tag).status == 200


def wait_in_thread(harness: ServiceHarness, replies: list[Reply]) -> threading.Thread:
    """Begin to wait for a change, and return once the service knows of it."""
    tag = harness.get().header("ETag")
    waiting = harness.assembly.metadata.long_polls
    asking = threading.Thread(
        target=lambda: replies.append(harness.get(If_None_Match=tag, Prefer="wait=120")), daemon=True
    )
    asking.start()

    async def until_it_waits() -> None:
        while not len(waiting):  # noqa: ASYNC110 - the service tells nobody, and it is there in a moment
            await asyncio.sleep(0)

    harness.within(until_it_waits)
    return asking


def test_wait_for_a_change(harness: ServiceHarness) -> None:
    """The answer comes with the change, and not before."""
    replies: list[Reply] = []
    asking = wait_in_thread(harness, replies)
    assert replies == []
    harness.operate("restart", "web-1")
    asking.join(20)

    assert (replies[0].status, replies[0].header("Preference-Applied")) == (200, "wait")
    assert replies[0].json["DocumentIncarnation"] == 2


def test_wait_in_vain(harness: ServiceHarness) -> None:
    """When the time is over, nothing has changed."""
    replies: list[Reply] = []
    asking = wait_in_thread(harness, replies)
    harness.pass_time(seconds=122)
    asking.join(20)

    assert (replies[0].status, replies[0].body) == (304, b"")
    assert replies[0].header("Preference-Applied") == "wait"


def test_wait_without_tag(harness: ServiceHarness) -> None:
    """Whoever has nothing yet gets it at once."""
    assert harness.get(f"{EVENTS}?api-version={NEWEST}", Prefer="wait=120").status == 200
