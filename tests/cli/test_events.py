"""``forewarn events`` in a VM."""

import json
import os
import signal
import subprocess
import sys

import pytest

from forewarn.testing.scheduled_events import ScheduledEvents
from tests.cli.conftest import Forewarn


@pytest.fixture(autouse=True)
def _service(scheduled_events: ScheduledEvents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDULED_EVENTS_URL", scheduled_events.events_url)


def test_no_events_are_said_to_be_none(forewarn: Forewarn, scheduled_events: ScheduledEvents) -> None:
    """In words, and as an empty array."""
    name = scheduled_events.vms[0].name

    assert forewarn("events").out == f"no events are coming to {name} or its neighbours\n"
    assert forewarn("events", "--json").json == []


def test_what_is_coming_is_shown(forewarn: Forewarn, scheduled_events: ScheduledEvents) -> None:
    """As a table and as JSON, with what it means for this VM."""
    event = scheduled_events.vms[0].reboot()
    shown = forewarn("events")

    assert shown.code == 0
    assert f"{event.shown_id}  Reboot  Scheduled  in 1" in shown.out
    assert "    this VM: restarts; VMs: " in shown.out
    result = forewarn("events", "--json").json
    assert [(each["id"], each["type"], each["concerns_me"]) for each in result] == [(event.shown_id, "Reboot", True)]


def test_an_older_version_can_be_asked(forewarn: Forewarn, scheduled_events: ScheduledEvents) -> None:
    """What it does not tell is left out."""
    scheduled_events.vms[0].reboot()

    assert "by an unknown source\n" in forewarn("events", "--api-version", "2017-03-01").out
    assert forewarn("events", "--api-version", "2031-01-01").code == 1


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("http://127.0.0.1:1", 3, "cannot be reached (connection refused)"),
        ("https://127.0.0.1", 2, "is not a valid service address"),
    ],
)
def test_a_service_that_is_not_there_is_said_at_once(forewarn: Forewarn, url: str, code: int, said: str) -> None:
    """In one sentence, with the exit code that the others have."""
    ended = forewarn("events", "--url", url)

    assert ended.code == code
    assert said in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.end_to_end
def test_changes_are_printed_as_they_happen(scheduled_events: ScheduledEvents) -> None:
    """A line each, as text or as JSON, until Ctrl-C, which is no failure."""
    command = [sys.executable, "-m", "forewarn", "events", "--watch"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as plain,
        subprocess.Popen([*command, "--json"], env=environment, stdout=pipe, stderr=pipe, text=True) as lines,
    ):
        assert plain.stdout is not None
        assert lines.stdout is not None
        event = scheduled_events.vms[0].freeze()
        said, result = [plain.stdout.readline()], [json.loads(lines.stdout.readline())]
        event.cancel()
        said.append(plain.stdout.readline())
        result.append(json.loads(lines.stdout.readline()))
        for process in (plain, lines):
            process.send_signal(signal.SIGINT)

    assert (plain.returncode, lines.returncode) == (0, 0)
    what = f"Freeze of {scheduled_events.vms[0].name}"
    assert f"{event.shown_id}  new      {what}, in 1" in said[0]
    assert "; this VM: freezes for 5 s; by the platform, for 5 s: Host server is undergoing" in said[0]
    assert said[1].endswith(f"gone     {what}: canceled\n")
    assert [(each["change"], each["ending"], each["event"]["id"]) for each in result] == [
        ("new", None, event.shown_id),
        ("gone", "canceled", event.shown_id),
    ]


def test_the_endpoint_may_be_named_before_the_command(
    forewarn: Forewarn, scheduled_events: ScheduledEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--url is the one name of it; after the command it goes first."""
    monkeypatch.setenv("SCHEDULED_EVENTS_URL", "http://127.0.0.1:1")

    assert forewarn("--url", scheduled_events.events_url, "events").code == 0
    assert forewarn("--url", "http://127.0.0.1:1", "events", "--url", scheduled_events.events_url).code == 0
