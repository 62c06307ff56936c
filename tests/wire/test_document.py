"""Documents: the bytes VMs are shown, and what clients make of them."""

from contextlib import suppress
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.core.errors import BadInput
from forewarn.core.model import Event, EventSource, EventStatus, EventType, GroupKind
from forewarn.wire.bodies import BadBody
from forewarn.wire.document import Document, ScheduledEvent, keep_unreadable, parse, render, shown_fields
from forewarn.wire.versions import API_VERSIONS, BY_NAME, NEWEST, ApiVersion
from tests.wire.samples import EVERY_TYPE, event, golden

versions = pytest.mark.parametrize("version", API_VERSIONS, ids=lambda version: version.name)
VM_KINDS = [kind for kind in GroupKind if kind is not GroupKind.CLOUD_SERVICE]

texts = st.text(st.characters(exclude_categories=["Cs"]))
events = st.builds(
    event,
    id=st.uuids().map(str),
    type=st.sampled_from(EventType),
    source=st.sampled_from(EventSource),
    status=st.sampled_from([EventStatus.SCHEDULED, EventStatus.STARTED]),
    resources=st.lists(texts.filter(bool), min_size=1).map(tuple),
    not_before=st.datetimes(timezones=st.just(UTC)),
    description=texts,
    duration=st.integers(-1, 86_400),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
)
keys = st.sampled_from([*msgspec.json.decode(golden("2020-07-01"))["Events"][0], "Other"])


@versions
def test_every_version_renders_to_its_golden_bytes(version: ApiVersion) -> None:
    """Fields, types, names, order of keys and escapes, byte for byte."""
    for kind in VM_KINDS:
        assert render(EVERY_TYPE, 42, version, kind) == golden(version.name)


def test_names_of_cloud_service_roles_have_no_underscore() -> None:
    """Not even in the one version that has it."""
    rendered = render(EVERY_TYPE, 42, BY_NAME["2017-03-01"], GroupKind.CLOUD_SERVICE)
    assert rendered == golden("2017-03-01-cloud-service")


@versions
@pytest.mark.parametrize(("incarnation", "name"), [(1, "recorded-empty"), (0, "recorded-empty-at-zero")])
def test_the_empty_document_is_as_recorded(version: ApiVersion, incarnation: int, name: str) -> None:
    """In every version the same."""
    assert render((), incarnation, version, GroupKind.STANDALONE) == golden(name)
    assert parse(golden(name)) == Document(incarnation, ())


def test_the_preempt_is_as_recorded() -> None:
    """A spot VM's document of 2019-08-01, byte for byte, written and read."""
    recorded = golden("recorded-preempt-2019-08-01")
    not_before = datetime(2021, 3, 16, 0, 58, 46, tzinfo=UTC)
    eviction = event(
        id="a123bc45-1234-5678-ab90-abcdef123456",
        type=EventType.PREEMPT,
        resources=("myspotvm",),
        not_before=not_before,
    )

    assert render((eviction,), 1, BY_NAME["2019-08-01"], GroupKind.STANDALONE) == recorded
    assert parse(recorded) == Document(
        1,
        (
            ScheduledEvent(
                id=eviction.id,
                type=EventType.PREEMPT,
                status=EventStatus.SCHEDULED,
                resources=("myspotvm",),
                not_before=not_before,
                source=EventSource.PLATFORM,
            ),
        ),
    )


@pytest.mark.parametrize("name", ["2017-08-01", "2017-11-01", "2019-01-01"])
def test_the_freeze_is_as_recorded(name: str) -> None:
    """A document from before there were descriptions; its id and name were masked by who recorded it."""
    recorded = golden("recorded-freeze-2017-08-01")
    not_before = datetime(2019, 9, 26, 15, 15, 21, tzinfo=UTC)
    freeze = event(id="xxx-...", resources=("xxxx",), not_before=not_before)
    rendered = render((freeze,), 279, BY_NAME[name], GroupKind.STANDALONE)

    assert rendered.replace(freeze.id.upper().encode(), freeze.id.encode()) == recorded
    assert parse(recorded).incarnation == 279
    assert parse(recorded).events[0].not_before == not_before


@pytest.mark.parametrize(
    ("version", "given", "recorded"),
    [
        (
            "2019-08-01",
            {"description": "Host server is undergoing maintenance.", "status": EventStatus.STARTED},
            {
                "EventStatus": "Started",
                "EventType": "Freeze",
                "NotBefore": "",
                "Description": "Host server is undergoing maintenance.",
                "EventSource": "Platform",
            },
        ),
        (
            "2019-08-01",
            {
                "type": EventType.REBOOT,
                "source": EventSource.USER,
                "not_before": datetime(2021, 3, 30, 13, 39, 24, tzinfo=UTC),
                "description": "Virtual machine is going to be restarted as requested by authorized user.",
            },
            {
                "EventStatus": "Scheduled",
                "EventType": "Reboot",
                "NotBefore": "Tue, 30 Mar 2021 13:39:24 GMT",
                "Description": "Virtual machine is going to be restarted as requested by authorized user.",
                "EventSource": "User",
            },
        ),
        (
            "2020-07-01",
            {
                "id": "ca9c0dc4-e841-476d-94d5-9fc2ff983bcd",
                "type": EventType.REBOOT,
                "source": EventSource.USER,
                "not_before": datetime(2023, 3, 16, 14, 1, 28, tzinfo=UTC),
                "description": "Virtual machine is going to be restarted as requested by authorized user.",
            },
            {
                "EventId": "CA9C0DC4-E841-476D-94D5-9FC2FF983BCD",
                "EventStatus": "Scheduled",
                "EventType": "Reboot",
                "NotBefore": "Thu, 16 Mar 2023 14:01:28 GMT",
                "Description": "Virtual machine is going to be restarted as requested by authorized user.",
                "EventSource": "User",
                "DurationInSeconds": -1,
            },
        ),
        (
            "2020-07-01",
            {
                "type": EventType.REDEPLOY,
                "source": EventSource.USER,
                "description": "Virtual machine is going to be redeployed as requested by authorized user.",
            },
            {
                "EventType": "Redeploy",
                "Description": "Virtual machine is going to be redeployed as requested by authorized user.",
                "EventSource": "User",
                "DurationInSeconds": -1,
            },
        ),
        (
            "2020-07-01",
            {
                "status": EventStatus.STARTED,
                "description": "Host server is undergoing maintenance.",
                "duration": 30,
            },
            {
                "EventStatus": "Started",
                "EventType": "Freeze",
                "NotBefore": "",
                "Description": "Host server is undergoing maintenance.",
                "EventSource": "Platform",
                "DurationInSeconds": 30,
            },
        ),
        (
            "2020-07-01",
            {"type": EventType.PREEMPT},
            {"EventType": "Preempt", "Description": "", "EventSource": "Platform", "DurationInSeconds": -1},
        ),
        (
            "2019-08-01",
            {"id": "c37355db-2c23-4195-90ca-1a712a85650c", "type": EventType.TERMINATE},
            {
                "EventId": "C37355DB-2C23-4195-90CA-1A712A85650C",
                "EventStatus": "Scheduled",
                "EventType": "Terminate",
                "ResourceType": "VirtualMachine",
            },
        ),
    ],
    ids=["freeze-started", "reboot", "reboot-2020", "redeploy", "freeze-started-2020", "preempt", "terminate"],
)
def test_what_is_known_of_partial_recordings_is_as_recorded(
    version: str, given: dict[str, object], recorded: dict[str, object]
) -> None:
    """Field by field, where nobody kept the whole document."""
    rendered = render((event(**given),), 208, BY_NAME[version], GroupKind.SCALE_SET)
    shown = msgspec.json.decode(rendered)["Events"][0]

    assert {key: shown[key] for key in recorded} == recorded


def test_a_live_migration_is_shown_as_documented() -> None:
    """Two VMs of one event: Scheduled, then Started with the same id and an empty NotBefore, then gone."""
    scheduled = event(
        resources=("WestNO_0", "WestNO_1"),
        description="Virtual machine is being paused because of a memory-preserving Live Migration operation.",
        duration=5,
    )
    started = msgspec.structs.replace(scheduled, status=EventStatus.STARTED)
    steps = [(), (scheduled,), (started,), ()]
    documents = [
        parse(render(step, number, NEWEST, GroupKind.AVAILABILITY_SET)) for number, step in enumerate(steps, start=1)
    ]

    assert [document.incarnation for document in documents] == [1, 2, 3, 4]
    assert [len(document.events) for document in documents] == [0, 1, 1, 0]
    before, after = documents[1].events[0], documents[2].events[0]
    assert before.resources == ("WestNO_0", "WestNO_1")
    assert before.not_before == scheduled.not_before
    assert after == msgspec.structs.replace(before, status=EventStatus.STARTED, not_before=None)


@versions
@given(st.lists(events), st.integers(0, 2**62))
def test_what_is_rendered_parses_to_what_the_version_shows(
    version: ApiVersion, given: list[Event], incarnation: int
) -> None:
    """Every version is read back completely, and nothing it does not show is made up."""
    document = parse(render(given, incarnation, version, GroupKind.SCALE_SET))

    assert document == Document(
        incarnation,
        tuple(
            ScheduledEvent(
                id=each.id,
                type=each.type,
                status=each.status,
                resources=tuple(("_" if version.name == "2017-03-01" else "") + name for name in each.resources),
                not_before=None if each.status is EventStatus.STARTED else each.not_before.replace(microsecond=0),
                description=each.description if version.name >= "2019-04-01" else "",
                source=each.source if version.name >= "2019-08-01" else None,
                duration=each.duration if version.name >= "2020-07-01" else -1,
            )
            for each in given
            if each.type in version.types
        ),
    )


def fields(**given: object) -> bytes:
    """Write an event as some other service would."""
    usual = {"EventId": "A-1", "EventStatus": "Scheduled", "EventType": "Freeze", "Resources": ["web-0"]}
    return msgspec.json.encode(usual | given)


def wire(**given: object) -> bytes:
    """Write a document with one event, as some other service would."""
    return b'{"DocumentIncarnation":1,"Events":[%b]}' % fields(**given)


def test_a_bare_event_is_read_with_what_it_has() -> None:
    """Old versions and example files leave fields out."""
    assert parse(wire()).events == (
        ScheduledEvent(id="a-1", type=EventType.FREEZE, status=EventStatus.SCHEDULED, resources=("web-0",)),
    )


def test_null_is_read_like_a_missing_field() -> None:
    """Serialisers that write every field write null for what they do not have."""
    names = ["ResourceType", "NotBefore", "Description", "EventSource", "DurationInSeconds"]
    assert parse(wire(**dict.fromkeys(names))) == parse(wire())


def test_unknown_fields_are_passed_over() -> None:
    """In the document and in its events."""
    more = wire(Weather={"deep": [1, 2]}).replace(b'"Events"', b'"Etag":null,"Events"')
    assert parse(more) == parse(wire())


@pytest.mark.parametrize("written", [b"7", b'"7"'])
def test_the_incarnation_is_read_as_number_or_text(written: bytes) -> None:
    """Old samples type it as text."""
    assert parse(b'{"DocumentIncarnation":%b,"Events":[]}' % written).incarnation == 7


def test_an_iso_time_and_a_byte_order_mark_are_read() -> None:
    """As mocks and Windows files have them."""
    document = parse(b"\xef\xbb\xbf" + wire(NotBefore="2026-03-05T07:08:09Z"))
    assert document.events[0].not_before == datetime(2026, 3, 5, 7, 8, 9, tzinfo=UTC)


def test_unknown_words_are_kept() -> None:
    """A new type does not hide the events beside it."""
    (shown,) = parse(wire(EventType="Hibernate", EventStatus="Postponed", EventSource="Weather")).events
    assert (shown.type, shown.status, shown.source) == ("Hibernate", "Postponed", "Weather")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "truncated"),
        (b"<html>", "malformed"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "DocumentIncarnation"),
        (b'{"DocumentIncarnation":1}', "Events"),
        (b'{"DocumentIncarnation":"new","Events":[]}', "DocumentIncarnation is not a number: 'new'"),
        (b'{"DocumentIncarnation":"\xff","Events":[]}', "DocumentIncarnation is not a number"),
        (b'{"DocumentIncarnation":1,"x":' + b"[" * 60_000, "nested too deeply"),
    ],
)
def test_garbage_is_refused_with_what_is_wrong(body: bytes, named: str) -> None:
    """One sentence that names the place."""
    with pytest.raises(BadBody) as refusal:
        parse(body)
    assert named in str(refusal.value)
    assert isinstance(refusal.value, BadInput)


@pytest.mark.parametrize(
    ("bad", "id", "named"),
    [
        (b"{}", "", "EventId"),
        (b"7", "", "Expected `object`, got `int`"),
        (b'{"EventId":null}', "", "EventId"),
        (b'{"EventId":["A-1"]}', "", "EventId"),
        (fields(EventId=""), "", "EventId is empty"),
        (fields(Resources=None), "a-1", "Resources"),
        (fields(Resources="web-0"), "a-1", "Resources"),
        (fields(NotBefore="TBD"), "a-1", "NotBefore is not a valid time: 'TBD'"),
        (fields(DurationInSeconds=9.5), "a-1", "DurationInSeconds"),
        (fields(DurationInSeconds="9"), "a-1", "DurationInSeconds"),
        (fields(Description="\xff").replace("\xff".encode(), b"\xff"), "a-1", "utf-8"),
        (fields(Description="#").replace(b"#", b"\\ud800"), "a-1", ""),
        (fields(EventId="#").replace(b"#", b"\\ud800"), "?", "surrogate"),
        (fields(EventId="A#").replace(b"#", b"\xff"), "a\ufffd", "utf-8"),
        (fields(DurationInSeconds=77).replace(b"77", b"NaN"), "a-1", "malformed"),
        (fields(Description="#", NotBefore="TBD").replace(b"#", b"\x01"), "a-1", ""),
    ],
)
def test_an_event_that_cannot_be_read_hides_no_other(bad: bytes, id: str, named: str) -> None:
    """The readable events before and after it are kept; it is named with the reason."""
    good = [fields(EventId=name) for name in ("B", "C")]
    document = parse(b'{"DocumentIncarnation":1,"Events":[%b,%b,%b]}' % (good[0], bad, good[1]))
    assert [event.id for event in document.events] == ["b", "c"]
    (unreadable,) = document.unreadable
    assert unreadable.id == id
    assert named in unreadable.reason


def test_an_event_that_can_no_longer_be_read_stays_as_it_was() -> None:
    """It is still in the document; one that is in neither document is not added."""
    before = parse(wire(Description="as it was"))
    after = parse(wire(NotBefore="TBD"))
    assert keep_unreadable(before, after).events == before.events
    assert keep_unreadable(before, after).unreadable == after.unreadable
    assert keep_unreadable(None, after) == after
    assert keep_unreadable(before, parse(b'{"DocumentIncarnation":2,"Events":[]}')).events == ()


@given(
    st.binary()
    | json_values.map(msgspec.json.encode)
    | st.fixed_dictionaries(
        {"DocumentIncarnation": json_values, "Events": st.lists(st.dictionaries(keys, json_values))}
    ).map(msgspec.json.encode)
    | st.dictionaries(keys, json_values).map(lambda fields: wire(**fields))
)
def test_no_body_raises_anything_but_a_bad_body(body: bytes) -> None:
    """Whatever a proxy or a mock answers."""
    with suppress(BadBody):
        assert isinstance(parse(body), Document)


@versions
def test_the_fields_that_a_version_shows_are_those_it_renders(version: ApiVersion) -> None:
    """In their order."""
    (first, *_) = msgspec.json.decode(golden(version.name))["Events"]

    assert shown_fields(version) == tuple(first)


def test_only_what_can_no_longer_be_read_is_kept() -> None:
    """The events that can be read are those of the later document; one that ended is not kept."""
    both = b'{"DocumentIncarnation":%d,"Events":[%b,%b]}'
    before = parse(both % (1, fields(EventId="A"), fields(EventId="B")))
    after = parse(both % (2, fields(EventId="A", NotBefore="TBD"), fields(EventId="C")))
    ended = parse(b'{"DocumentIncarnation":3,"Events":[]}')

    assert [event.id for event in keep_unreadable(before, after).events] == ["c", "a"]
    assert keep_unreadable(before, ended) is ended


def test_an_id_is_also_kept_as_it_was_shown() -> None:
    """Approvals send it back so."""
    (event,) = parse(wire(EventId="A-1b")).events

    assert (event.id, event.shown_id) == ("a-1b", "A-1b")


@pytest.mark.parametrize("bad", [b"\xff", b'"' + b"[" * 3, b'{"EventId":' + b"[" * 100_000 + b"]" * 100_000 + b"}"])
def test_an_event_without_a_readable_id_is_unreadable_all_the_same(bad: bytes) -> None:
    """Whatever stands in its place."""
    with suppress(BadBody):
        document = parse(b'{"DocumentIncarnation":1,"Events":[%b]}' % bad)
        assert [event.id for event in document.unreadable] == [""]


def test_events_that_cannot_be_read_for_several_reasons_hide_no_other() -> None:
    """One has a number that is none, another a byte that is no text."""
    bad = fields(DurationInSeconds=77).replace(b"77", b"NaN"), fields(Description="#").replace(b"#", b"\xff")

    document = parse(b'{"DocumentIncarnation":1,"Events":[%b,%b,%b]}' % (*bad, fields(EventId="B")))

    assert "b" in [event.id for event in document.events]
    assert len(document.unreadable) + len(document.events) == 3


def test_the_id_of_an_event_is_kept_as_it_was_shown() -> None:
    """It is compared in one case, and sent back as it came."""
    (event,) = parse(wire(EventId="A-1b")).events

    assert (event.id, event.shown_id) == ("a-1b", "A-1b")
