"""How events are told in the VM they come to."""

import threading
from datetime import UTC, datetime, timedelta
from typing import cast

import click
import msgspec
import pytest

from forewarn.cli import vm_commands
from forewarn.cli.times import countdown
from forewarn.cli.vm_commands import describe_impact, details, event_as_json, first_document, rows, time_until
from forewarn.client.client import Client
from forewarn.core.model import EventSource, EventStatus, EventType
from forewarn.wire.document import Document, ScheduledEvent

NOW = datetime(2026, 11, 16, 13, 0, tzinfo=UTC)
REBOOT = ScheduledEvent(
    id="e9d4fee9-4dc4-525b-89c3-dbf925a521bc",
    type=EventType.REBOOT,
    status=EventStatus.SCHEDULED,
    resources=("web-0", "web-1"),
    not_before=NOW + timedelta(minutes=14, seconds=3),
    description="Host server is undergoing maintenance.",
    source=EventSource.PLATFORM,
)
FREEZE = msgspec.structs.replace(
    REBOOT,
    id="7d346bc9",
    shown_id="7D346BC9",
    type=EventType.FREEZE,
    status=EventStatus.STARTED,
    not_before=None,
    duration=5,
)


class SlowClient:
    """Has a document once somebody was told that it is waited for, or never was."""

    def __init__(self) -> None:
        self.announced = threading.Event()

    def document(self) -> Document:
        self.announced.wait(10)
        return Document(1, ())


def test_a_service_that_takes_long_is_said_to_be_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would know otherwise whether anything happens; it is no part of the output."""
    client = SlowClient()
    said: list[tuple[str, bool]] = []

    def echo(text: str, *, err: bool) -> None:
        said.append((text, err))
        client.announced.set()

    monkeypatch.setattr(vm_commands, "is_watched", lambda _: True)
    monkeypatch.setattr("click.echo", echo)

    assert first_document(cast("Client", client), slow=0.0) == Document(1, ())
    assert said == [("waiting for the service; its first answer may take two minutes", True)]


def test_a_script_is_not_told_that_the_service_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it finds on stderr is trouble."""
    client = SlowClient()
    client.announced.set()
    monkeypatch.setattr("threading.Timer", None)

    assert first_document(cast("Client", client)) == Document(1, ())


@pytest.mark.parametrize(
    ("seconds", "result"),
    [
        (0, "in 0 s"),
        (9, "in 9 s"),
        (843, "in 14 min 3 s"),
        (900, "in 15 min 0 s"),
        (7_500, "in 2 h 5 min"),
        (7 * 86_400, "in 7 days 0 h"),
        (-12, "12 s ago"),
        (-61, "1 min 1 s ago"),
    ],
)
def test_a_countdown_has_two_units(seconds: int, result: str) -> None:
    """Enough to see it move, and no more."""
    assert countdown(NOW + timedelta(seconds=seconds), NOW) == result


@pytest.mark.parametrize(
    ("event", "name", "said"),
    [
        (REBOOT, "WEB-0", "restarts"),
        (REBOOT, "web-2", "not concerned"),
        (REBOOT, "", "not known"),
        (FREEZE, "web-0", "freezes for 5 s"),
        (msgspec.structs.replace(REBOOT, resources=("VMSS_18",)), "vmss00000i", "restarts"),
        (msgspec.structs.replace(FREEZE, duration=-1), "web-0", "freezes"),
        (msgspec.structs.replace(REBOOT, type="Repaint"), "web-0", "is concerned"),
    ],
)
def test_it_is_said_what_becomes_of_this_vm(event: ScheduledEvent, name: str, said: str) -> None:
    """Also of a type that nobody here knows."""
    assert describe_impact(event, name) == said


def test_what_has_started_may_happen_at_any_moment() -> None:
    """There is nothing to count down to."""
    assert (time_until(REBOOT, NOW), time_until(FREEZE, NOW)) == ("in 14 min 3 s", "at any moment")


def test_events_are_a_table_with_lines_of_details_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns stand under each other; what concerns this VM stands out at a terminal."""
    result = [click.unstyle(line) for line in rows((REBOOT, FREEZE), "web-0", NOW)]

    assert result == [
        f"{'EVENT':36}  TYPE    STATUS     NOT BEFORE",
        f"{REBOOT.id.upper()}  Reboot  Scheduled  in 14 min 3 s",
        "    this VM: restarts; VMs: web-0, web-1",
        "    by the platform: Host server is undergoing maintenance.",
        f"{FREEZE.id.upper():36}  Freeze  Started    at any moment",
        "    this VM: freezes for 5 s; VMs: web-0, web-1",
        "    by the platform, for 5 s: Host server is undergoing maintenance.",
    ]
    monkeypatch.delenv("NO_COLOR", raising=False)
    mine, other = list(rows((REBOOT,), "web-0", NOW))[1], list(rows((REBOOT,), "db-0", NOW))[1]
    assert click.unstyle(mine) != mine
    assert click.unstyle(other) == other
    monkeypatch.setenv("NO_COLOR", "1")
    assert list(rows((REBOOT,), "web-0", NOW))[1] == click.unstyle(mine)


def test_many_vms_stand_below_each_other_where_the_window_is_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a terminal; elsewhere a row is a line."""
    many = msgspec.structs.replace(REBOOT, resources=tuple(f"web-{number}" for number in range(9)))
    assert list(rows((many,), "web-0", NOW))[2].endswith("web-0, " + ", ".join(many.resources[1:]))

    monkeypatch.setattr("forewarn.cli.output._is_at_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    lines = click.unstyle("\n".join(rows((many,), "web-0", NOW))).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2] == "    this VM: restarts; VMs: web-0, web-1, web-2, web-3, web-4, web-5, web-6,"
    assert lines[3] == "             web-7, web-8"


def test_a_services_words_do_not_speak_to_the_terminal() -> None:
    """Whoever they come from: they could clear the screen, or look like a line of ours."""
    hostile = msgspec.structs.replace(
        REBOOT, id="a\x1b[2J", type="\x1b]0;x\x07", status="\n", resources=("web-0\nweb-9",), description="a\rb"
    )
    result = "".join(click.unstyle(line) for line in rows((hostile,), "web-2", NOW))

    assert result.isprintable()
    assert "web-0?web-9" in result


def test_what_an_old_version_does_not_tell_is_left_out() -> None:
    """Neither source nor description nor duration."""
    old = msgspec.structs.replace(REBOOT, source=None, description="")

    assert details(old) == "by an unknown source"
    assert details(msgspec.structs.replace(old, duration=0)) == "by an unknown source, without interruption"


def test_json_has_azures_words_and_whether_it_concerns_me() -> None:
    """Which is null when this VM's name is not known."""
    assert event_as_json(REBOOT, "web-1") == {
        "id": "E9D4FEE9-4DC4-525B-89C3-DBF925A521BC",
        "type": "Reboot",
        "status": "Scheduled",
        "not_before": REBOOT.not_before,
        "resources": ("web-0", "web-1"),
        "source": "Platform",
        "duration": -1,
        "description": "Host server is undergoing maintenance.",
        "concerns_me": True,
    }
    assert event_as_json(REBOOT, "")["concerns_me"] is None
