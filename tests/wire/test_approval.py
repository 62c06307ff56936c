"""Approvals: what VMs POST."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.core.commands import Postponement
from forewarn.wire.approval import Approval, encode, parse
from forewarn.wire.bodies import BadBody

ID = "f020ba2e-3bc0-4c40-a10b-86575a9eabd5"
OTHER = "ca9c0dc4-e841-476d-94d5-9fc2ff983bcd"


def test_the_documented_body_is_read() -> None:
    """As the documentation prints it."""
    assert parse(b'{"StartRequests": [{"EventId": "f020ba2e-3bc0-4c40-a10b-86575a9eabd5"}]}').events == (ID,)


def test_an_id_is_read_in_any_case() -> None:
    """The document shows it in upper case, other channels in lower."""
    body = b'{"StartRequests":[{"EventId":"%b"}]}'
    assert parse(body % ID.upper().encode()) == parse(body % ID.encode()) == Approval((ID,))


@pytest.mark.parametrize("incarnation", [b'"5"', b"5", b"null", b"[]", b"-1"])
def test_the_incarnation_means_nothing(incarnation: bytes) -> None:
    """Old clients send it, as text or as a number, stale or not."""
    body = b'{"DocumentIncarnation":%b,"StartRequests":[{"EventId":"%b"}]}' % (incarnation, ID.encode())
    assert parse(body).events == (ID,)


def test_unknown_fields_and_a_byte_order_mark_are_passed_over() -> None:
    """At every level."""
    body = b'\xef\xbb\xbf{"Why":{},"StartRequests":[{"EventId":"%b","Why":[1]}]}' % ID.encode()
    assert parse(body).events == (ID,)


def test_ids_keep_their_order_and_count_once() -> None:
    """The same event twice in one list, in whatever case, is one approval."""
    assert parse(encode([OTHER, ID, OTHER.upper(), ID])).events == (OTHER, ID)


def test_a_wish_for_more_time_is_read_with_or_without_approvals() -> None:
    """Beyond Azure, in the same body."""
    wish = Postponement(OTHER, 300, "a backup is running")

    assert parse(encode([ID], [wish])) == Approval((ID,), (wish,))
    body = b'{"PostponeRequests":[{"EventId":"%b","Seconds":60}]}' % ID.upper().encode()
    assert parse(body) == Approval((), (Postponement(ID, 60),))


@pytest.mark.parametrize("body", [b'[{"EventId":"x"}]', b'[{"EventId":"x","Seconds":"5"}]', b"{}", b"null"])
def test_a_wish_that_cannot_be_read_is_refused(body: bytes) -> None:
    """How much time is asked for is a whole number of seconds."""
    with pytest.raises(BadBody, match="PostponeRequests"):
        parse(b'{"StartRequests":[],"PostponeRequests":%b}' % body)


def test_an_empty_list_approves_nothing() -> None:
    """It is no error."""
    assert parse(b'{"StartRequests":[]}') == Approval()


def test_an_id_that_is_no_guid_is_handed_on() -> None:
    """It names no event, but that is not for the codec to know."""
    assert parse(b'{"StartRequests":[{"EventId":"{X}"},{"EventId":""}]}').events == ("{x}", "")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "truncated"),
        (b"EventId=1", "malformed"),
        (b"[]", "object"),
        (b"null", "object"),
        (b"{}", "StartRequests"),
        (b'{"startRequests":[]}', "StartRequests"),
        (b'{"StartRequests":null}', "StartRequests"),
        (b'{"StartRequests":{}}', "StartRequests"),
        (b'{"StartRequests":["x"]}', "StartRequests"),
        (b'{"StartRequests":[{}]}', "EventId"),
        (b'{"StartRequests":[{"eventId":"x"}]}', "EventId"),
        (b'{"StartRequests":[{"EventId":5}]}', "EventId"),
        (b'{"StartRequests":[{"EventId":"x"},{"EventId":null}]}', "EventId"),
        (b'{"StartRequests":[]}}', "trailing"),
        ('{"StartRequests":[]}'.encode("utf-16"), "malformed"),
        (b'{"StartRequests":[],"x":' + b"[" * 60_000, "nested too deeply"),
    ],
)
def test_what_is_no_approval_is_refused_with_what_is_wrong(body: bytes, named: str) -> None:
    """Malformed JSON, no StartRequests, no EventId, other types or other spellings of the keys."""
    with pytest.raises(BadBody, match="the approval cannot be read") as refusal:
        parse(body)
    assert named in str(refusal.value)


@given(st.lists(st.uuids().map(str), unique=True))
def test_what_is_encoded_reads_back(ids: list[str]) -> None:
    """Both ends speak alike, and ids are written as they are given."""
    assert parse(encode(ids)) == Approval(tuple(ids))
    assert msgspec.json.decode(encode(ids)) == {"StartRequests": [{"EventId": each} for each in ids]}


@given(st.binary() | st.binary().map(lambda tail: b'{"StartRequests":[{"EventId":' + tail))
def test_no_body_raises_anything_but_a_bad_body(body: bytes) -> None:
    """Whatever a VM sends."""
    with suppress(BadBody):
        assert isinstance(parse(body), Approval)
