"""Documents recorded from Azure and its mocks, of every api-version, are understood."""

import itertools
from datetime import UTC, datetime

import pytest

from forewarn.client.changes import ChangeKind, Ending, changes
from forewarn.core.model import EventSource, EventStatus, EventType
from forewarn.http.codec import HttpResponse
from forewarn.wire.document import Document, ScheduledEvent
from tests.client.harness import SessionHarness

REBOOT = "Virtual machine is going to be restarted as requested by authorized user."
LIVE = "Virtual machine is being paused because of a memory-preserving Live Migration operation."

CAPTURES = {
    "empty, 2017 on": ('{"DocumentIncarnation":1,"Events":[]}', Document(1, ())),
    "never used": ('{"DocumentIncarnation":0,"Events":[]}', Document(0, ())),
    "Freeze, 2017-08-01": (
        (
            '{"DocumentIncarnation":279,"Events":[{"EventId":"xxx-1","EventStatus":"Scheduled","EventType":"Freeze",'
            '"ResourceType":"VirtualMachine","Resources":["xxxx"],"NotBefore":"Thu, 26 Sep 2019 15:15:21 GMT"}]}'
        ),
        Document(
            279,
            (
                ScheduledEvent(
                    id="xxx-1",
                    shown_id="xxx-1",
                    type=EventType.FREEZE,
                    status=EventStatus.SCHEDULED,
                    resources=("xxxx",),
                    not_before=datetime(2019, 9, 26, 15, 15, 21, tzinfo=UTC),
                ),
            ),
        ),
    ),
    "Preempt, 2019-08-01": (
        (
            '{"DocumentIncarnation":1,"Events":[{"EventId":"A123BC45-1234-5678-AB90-ABCDEF123456","EventStatus":"Scheduled",'
            '"EventType":"Preempt","ResourceType":"VirtualMachine","Resources":["myspotvm"],'
            '"NotBefore":"Tue, 16 Mar 2021 00:58:46 GMT","Description":"","EventSource":"Platform"}]}'
        ),
        Document(
            1,
            (
                ScheduledEvent(
                    id="a123bc45-1234-5678-ab90-abcdef123456",
                    type=EventType.PREEMPT,
                    status=EventStatus.SCHEDULED,
                    resources=("myspotvm",),
                    not_before=datetime(2021, 3, 16, 0, 58, 46, tzinfo=UTC),
                    source=EventSource.PLATFORM,
                ),
            ),
        ),
    ),
    "Reboot, 2020-07-01": (
        (
            '{"DocumentIncarnation":2,"Events":[{"EventId":"CA9C0DC4-E841-476D-94D5-9FC2FF983BCD","EventStatus":"Scheduled",'
            '"EventType":"Reboot","ResourceType":"VirtualMachine","Resources":["sct-db-node-0"],'
            f'"NotBefore":"Thu, 16 Mar 2023 14:01:28 GMT","Description":"{REBOOT}","EventSource":"User",'
            '"DurationInSeconds":-1}]}'
        ),
        Document(
            2,
            (
                ScheduledEvent(
                    id="ca9c0dc4-e841-476d-94d5-9fc2ff983bcd",
                    type=EventType.REBOOT,
                    status=EventStatus.SCHEDULED,
                    resources=("sct-db-node-0",),
                    not_before=datetime(2023, 3, 16, 14, 1, 28, tzinfo=UTC),
                    description=REBOOT,
                    source=EventSource.USER,
                ),
            ),
        ),
    ),
    "Freeze Started, 2020-07-01": (
        (
            '{"DocumentIncarnation":208,"Events":[{"EventId":"602D9444-D2CD-49C7-8624-8643E7171297","EventStatus":"Started",'
            '"EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["aks-nodepool1-21922338-vmss_39"],'
            '"NotBefore":"","Description":"Host server is undergoing maintenance.","EventSource":"Platform",'
            '"DurationInSeconds":6}]}'
        ),
        Document(
            208,
            (
                ScheduledEvent(
                    id="602d9444-d2cd-49c7-8624-8643e7171297",
                    type=EventType.FREEZE,
                    status=EventStatus.STARTED,
                    resources=("aks-nodepool1-21922338-vmss_39",),
                    description="Host server is undergoing maintenance.",
                    source=EventSource.PLATFORM,
                    duration=6,
                ),
            ),
        ),
    ),
    "the official mock, keys sorted and ISO times": (
        (
            '{"DocumentIncarnation": 2, "Events": [{"Description": "Virtual machine has encountered a failure.",'
            ' "DurationInSeconds": -1, "EventId": "602d9444-d2cd-49c7-8624-8643e7171297", "EventSource": "Platform",'
            ' "EventStatus": "Scheduled", "EventType": "Redeploy", "NotBefore": "2025-11-01T10:15:00.000000+00:00",'
            ' "ResourceType": "VirtualMachine", "Resources": ["vm0"]}]}\n'
        ),
        Document(
            2,
            (
                ScheduledEvent(
                    id="602d9444-d2cd-49c7-8624-8643e7171297",
                    shown_id="602d9444-d2cd-49c7-8624-8643e7171297",
                    type=EventType.REDEPLOY,
                    status=EventStatus.SCHEDULED,
                    resources=("vm0",),
                    not_before=datetime(2025, 11, 1, 10, 15, tzinfo=UTC),
                    description="Virtual machine has encountered a failure.",
                    source=EventSource.PLATFORM,
                ),
            ),
        ),
    ),
    "no NotBefore, words of another day, a byte order mark": (
        (
            '\ufeff{"DocumentIncarnation":"3","Events":[{"EventId":"A","EventStatus":"STARTED","EventType":"Pause",'
            '"Resources":["vm0"],"EventSource":"Fabric","Colour":"red"}]}'
        ),
        Document(
            3,
            (ScheduledEvent(id="a", type="Pause", status=EventStatus.STARTED, resources=("vm0",), source="Fabric"),),
        ),
    ),
}


@pytest.mark.parametrize("name", CAPTURES)
def test_a_recorded_document_is_understood(name: str) -> None:
    """Word for word."""
    body, expected = CAPTURES[name]
    harness = SessionHarness(HttpResponse(200, {}, body.encode()))

    assert harness.play(harness.session().document()) == expected


def _live_migration(incarnation: int, status: str, not_before: str) -> HttpResponse:
    return HttpResponse(
        200,
        {},
        (
            f'{{"DocumentIncarnation":{incarnation},"Events":[{{"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123",'
            f'"EventStatus":"{status}","EventType":"Freeze","ResourceType":"VirtualMachine",'
            f'"Resources":["WestNO_0","WestNO_1"],"NotBefore":"{not_before}","Description":"{LIVE}",'
            '"EventSource":"Platform","DurationInSeconds":5}]}'
        ).encode(),
    )


def test_a_recorded_live_migration_is_followed_through_its_life() -> None:
    """Announced, started, completed: 1, 2, 3, 4."""
    empty = '{{"DocumentIncarnation":{},"Events":[]}}'
    harness = SessionHarness(
        HttpResponse(200, {}, empty.format(1).encode()),
        _live_migration(2, "Scheduled", "Mon, 11 Apr 2022 22:26:58 GMT"),
        _live_migration(3, "Started", ""),
        HttpResponse(200, {}, empty.format(4).encode()),
    )
    session = harness.session()
    shown = [harness.play(session.document()) for _ in range(4)]
    result = [change for before, after in itertools.pairwise(shown) for change in changes(before, after)]

    assert [(each.kind, each.ending) for each in result] == [
        (ChangeKind.NEW, None),
        (ChangeKind.STARTED, None),
        (ChangeKind.GONE, Ending.COMPLETED),
    ]


def test_a_recorded_poller_that_missed_the_start_is_not_told_a_tale() -> None:
    """It saw incarnation 2 with a reboot, and then 4 without it."""
    harness = SessionHarness(_live_migration(2, "Scheduled", "Mon, 11 Apr 2022 22:26:58 GMT"))
    seen = harness.play(harness.session().document())

    assert [each.ending for each in changes(seen, Document(4, ()))] == [Ending.UNKNOWN]
