"""Rows of ``docs/reference/azure.md``: the document, and asking for it again."""

import asyncio
import json
import re
import threading

import pytest

from forewarn.wire.versions import API_VERSIONS
from tests.conformance.cloud import EVENTS, NEWEST, Cloud, Reply

KEYS = [
    "EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore", "Description", "EventSource",
    "DurationInSeconds",
]  # fmt: skip


def test_one_line_of_json(cloud: Cloud) -> None:
    """There are no blanks between the parts."""
    cloud.operate("restart", "web-0")
    body = cloud.get().body

    assert body == json.dumps(json.loads(body), separators=(",", ":")).encode()


def test_key_order(cloud: Cloud) -> None:
    """Keys stand in the order in which Azure writes them."""
    cloud.operate("restart", "web-0")

    assert list(cloud.document()) == ["DocumentIncarnation", "Events"]
    assert list(cloud.events()[0]) == KEYS


def test_incarnation_is_a_number(cloud: Cloud) -> None:
    """It is an integer, not a text."""
    assert cloud.get().body == b'{"DocumentIncarnation":1,"Events":[]}'


def test_incarnation_begins_at_one(cloud: Cloud) -> None:
    """Without an event ever, it is 1; the first event makes it 2."""
    assert cloud.document() == {"DocumentIncarnation": 1, "Events": []}
    cloud.operate("restart", "web-0")
    assert cloud.document()["DocumentIncarnation"] == 2


def test_incarnation_rises_by_one(cloud: Cloud) -> None:
    """Announced, started and ended are one step each; an approval that does not start it is none."""
    (event,) = cloud.operate_host("reboot", "h2")[:1]
    assert cloud.document("pair-0")["DocumentIncarnation"] == 2
    cloud.approve(event, vm="pair-0")
    assert cloud.document("pair-0")["DocumentIncarnation"] == 2
    cloud.approve(event, vm="pair-1")
    assert cloud.document("pair-0")["DocumentIncarnation"] == 3
    cloud.let_it_end()
    assert cloud.document("pair-0") == {"DocumentIncarnation": 4, "Events": []}


def test_incarnation_never_falls(cloud: Cloud) -> None:
    """A group that was switched off for a day goes on where it stood."""
    cloud.cancel(cloud.operate("restart", "web-0"))
    cloud.pass_time(until="switched-off", hours=25)

    assert cloud.document() == {"DocumentIncarnation": 3, "Events": []}


def test_id_in_upper_case(cloud: Cloud) -> None:
    """It is a GUID in capitals, with hyphens and without braces."""
    cloud.operate("restart", "web-0")

    assert re.fullmatch(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", cloud.events()[0]["EventId"])


def test_id_for_life(cloud: Cloud) -> None:
    """A client can follow an event by its id."""
    event = cloud.operate("restart", "web-0")
    before = cloud.events()[0]
    cloud.approve(event)
    after = cloud.events()[0]

    assert before["EventId"] == after["EventId"] == event
    assert (before["EventStatus"], after["EventStatus"]) == ("Scheduled", "Started")


def test_resource_type(cloud: Cloud) -> None:
    """There is one type of resource."""
    cloud.operate("restart", "web-0")

    assert cloud.events()[0]["ResourceType"] == "VirtualMachine"


def test_resources_by_name(cloud: Cloud) -> None:
    """Clients elect the first, so the order never changes, whatever happens to the VMs."""
    cloud.operate_host("reboot", "h2")
    before = cloud.events("pair-0")[0]["Resources"]
    cloud.deallocate("pair-0")

    assert before == cloud.events("pair-1")[0]["Resources"] == ["pair-0", "pair-1"]


def test_events_by_announcement(cloud: Cloud) -> None:
    """What was announced first stands first, even if it is due later."""
    later = cloud.operate("restart", "web-0")
    sooner = cloud.operate("redeploy", "web-1")

    assert [event["EventId"] for event in cloud.events()] == [later, sooner]


@pytest.mark.parametrize("version", [version.name for version in API_VERSIONS])
def test_not_before_in_rfc_1123(cloud: Cloud, version: str) -> None:
    """Every version writes the time in the same way."""
    cloud.operate("restart", "web-0")

    assert cloud.events(version=version)[0]["NotBefore"] == "Mon, 05 Jan 2026 12:15:00 GMT"


def test_not_before_is_empty_once_started(cloud: Cloud) -> None:
    """The key stays, the time is gone."""
    cloud.approve(cloud.operate("restart", "web-0"))

    assert cloud.events()[0]["NotBefore"] == ""


def test_statuses(cloud: Cloud) -> None:
    """Scheduled, Started, gone."""
    event = cloud.operate("restart", "web-0")
    assert cloud.events()[0]["EventStatus"] == "Scheduled"
    cloud.approve(event)
    assert cloud.events()[0]["EventStatus"] == "Started"
    cloud.let_it_end()
    assert cloud.events() == []


def test_duration(cloud: Cloud) -> None:
    """A freeze says how long; a restart cannot know."""
    cloud.operate("restart", "web-0")
    cloud.operate("freeze", "web-1")
    cloud.operate("freeze", "web-2", duration=9)

    assert [event["DurationInSeconds"] for event in cloud.events()] == [-1, 5, 9]


def test_etag(cloud: Cloud) -> None:
    """It names the group and the incarnation, in quotes."""
    assert cloud.get().header("ETag") == '"web-1"'
    cloud.operate("restart", "web-0")
    assert cloud.get().header("ETag") == '"web-2"'


def test_not_modified(cloud: Cloud) -> None:
    """Whoever has the document is told so, until it changes."""
    tag = cloud.get().header("ETag")
    same = cloud.get(If_None_Match=tag)
    cloud.operate("restart", "web-0")

    assert (same.status, same.body, same.header("ETag")) == (304, b"", tag)
    assert cloud.get(If_None_Match=tag).status == 200


@pytest.mark.parametrize("spelled", ['"web-1"', "web-1", 'W/"web-1"', '"other", "web-1"', "other,web-1", "*"])
def test_tags_in_any_spelling(cloud: Cloud, spelled: str) -> None:
    """Quotes, weakness and lists make no difference."""
    assert cloud.get(If_None_Match=spelled).status == 304


@pytest.mark.parametrize("tag", ['"pair-1"', "1", "0", '"web-11"', "web"])
def test_tag_of_another_group(cloud: Cloud, tag: str) -> None:
    """No tag but the document's own matches it."""
    assert cloud.get(If_None_Match=tag).status == 200


def wait_in_thread(cloud: Cloud, replies: list[Reply]) -> threading.Thread:
    """Begin to wait for a change, and return once the service knows of it."""
    tag = cloud.get().header("ETag")
    waiting = cloud.assembly.metadata.waiting
    asking = threading.Thread(
        target=lambda: replies.append(cloud.get(If_None_Match=tag, Prefer="wait=120")), daemon=True
    )
    asking.start()

    async def until_it_waits() -> None:
        while not len(waiting):  # noqa: ASYNC110 - the service tells nobody, and it is there in a moment
            await asyncio.sleep(0)

    cloud.within(until_it_waits)
    return asking


def test_wait_for_a_change(cloud: Cloud) -> None:
    """The answer comes with the change, and not before."""
    replies: list[Reply] = []
    asking = wait_in_thread(cloud, replies)
    assert replies == []
    cloud.operate("restart", "web-1")
    asking.join(20)

    assert (replies[0].status, replies[0].header("Preference-Applied")) == (200, "wait")
    assert replies[0].json["DocumentIncarnation"] == 2


def test_wait_in_vain(cloud: Cloud) -> None:
    """When the time is over, nothing has changed."""
    replies: list[Reply] = []
    asking = wait_in_thread(cloud, replies)
    cloud.pass_time(seconds=122)
    asking.join(20)

    assert (replies[0].status, replies[0].body) == (304, b"")
    assert replies[0].header("Preference-Applied") == "wait"


def test_wait_without_tag(cloud: Cloud) -> None:
    """Whoever has nothing yet gets it at once."""
    assert cloud.get(f"{EVENTS}?api-version={NEWEST}", Prefer="wait=120").status == 200
