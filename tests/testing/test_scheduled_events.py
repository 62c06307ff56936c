"""The fixture and its context manager, used as an application's tests use them."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import unittest
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from forewarn.testing import ScheduledEvents

VERSION = "?api-version=2020-07-01"


def ask(url: str, body: bytes | None = None) -> bytes:
    request = Request(url + VERSION, data=body, headers={"Metadata": "true"})  # noqa: S310 - our own service
    with urlopen(request, timeout=60) as answer:  # noqa: S310
        content: bytes = answer.read()
        return content


def approve_everything(url: str) -> None:
    """The smallest application that takes events."""
    for event in json.loads(ask(url))["Events"]:
        ask(url, json.dumps({"StartRequests": [{"EventId": event["EventId"]}]}).encode())


def test_an_application_sees_an_event_and_approves_it(scheduled_events: ScheduledEvents) -> None:
    """The whole life of a reboot, in virtual time."""
    ask(scheduled_events.events_url)
    event = scheduled_events.vms[0].reboot()

    approve_everything(scheduled_events.events_url)

    assert scheduled_events.expect_approved(event, by=scheduled_events.vms[0].name) is event
    assert event.status == "started"
    scheduled_events.advance("11m")
    assert event.status == "completed"


@pytest.mark.scheduled_events("web-0", "web-1", now=datetime(2026, 3, 1, tzinfo=UTC))
def test_the_mark_says_which_fleet(scheduled_events: ScheduledEvents) -> None:
    """Several VMs, each with an address of its own, and any other argument of the emulator."""
    assert [vm.name for vm in scheduled_events.vms] == ["web-0", "web-1"]
    assert scheduled_events.now == datetime(2026, 3, 1, tzinfo=UTC)
    assert scheduled_events.vm("web-0").url != scheduled_events.vm("web-1").url


def test_nobody_approves_and_time_passes(scheduled_events: ScheduledEvents) -> None:
    """Fifteen minutes take no time."""
    event = scheduled_events.vms[0].freeze(seconds=9)
    scheduled_events.advance("14m59s")
    assert event.status == "scheduled"

    scheduled_events.advance("2s")

    assert event.status == "started"
    scheduled_events.expect_not_approved()


def test_an_expectation_that_fails_tells_what_happened(scheduled_events: ScheduledEvents) -> None:
    """The requests and events there were stand in the failure."""
    ask(scheduled_events.events_url)
    scheduled_events.vms[0].evict()

    with pytest.raises(AssertionError, match="no event was approved by anybody") as failure:
        scheduled_events.expect_approved(seconds=0)

    assert "GET /metadata/scheduledevents?api-version=2020-07-01 -> 200" in str(failure.value)
    assert "preempt of" in str(failure.value)


def test_an_approval_that_should_not_have_come_fails_the_test(scheduled_events: ScheduledEvents) -> None:
    """An application that approves too early is caught."""
    event = scheduled_events.vms[0].freeze()
    approve_everything(scheduled_events.events_url)

    with pytest.raises(AssertionError, match="nobody should have approved"):
        scheduled_events.expect_not_approved(event)


def test_an_application_in_another_thread_is_waited_for(scheduled_events: ScheduledEvents) -> None:
    """Expectations wait for the real clock, and only as long as they must."""
    event = scheduled_events.vms[0].freeze()
    application = threading.Thread(target=approve_everything, args=(scheduled_events.events_url,))
    application.start()

    scheduled_events.expect_approved(event)
    scheduled_events.expect_fetched(event)
    application.join()


def test_an_application_in_the_event_loop_of_the_test_goes_on(scheduled_events: ScheduledEvents) -> None:
    """The expectations for asyncio let it."""

    async def story() -> None:
        event = scheduled_events.vms[0].freeze()
        application = asyncio.create_task(asyncio.to_thread(approve_everything, scheduled_events.events_url))
        await scheduled_events.aexpect_fetched(event)
        await scheduled_events.aexpect_approved(event)
        await application

    asyncio.run(story())


def test_a_program_finds_the_address_in_its_environment(scheduled_events: ScheduledEvents) -> None:
    """What the test starts as a process needs no other hint."""
    program = (
        "import os, urllib.request as u;"
        "r = u.Request(os.environ['SCHEDULED_EVENTS_URL'] + '?api-version=2020-07-01', headers={'Metadata': 'true'});"
        "print(u.urlopen(r).read().decode())"
    )

    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)

    assert json.loads(out.stdout)["Events"] == []
    assert scheduled_events.requests[-1].path == "/metadata/scheduledevents"


def test_the_next_request_can_be_made_to_fail(scheduled_events: ScheduledEvents) -> None:
    """An application has to survive that."""
    scheduled_events.fail_next(status=500)

    with pytest.raises(OSError, match="500"):
        ask(scheduled_events.events_url)
    assert ask(scheduled_events.events_url)


class TestWithUnittest(unittest.TestCase):
    """The same without pytest."""

    def test_a_context_manager_runs_the_service(self) -> None:
        """As the fixture does."""
        with ScheduledEvents("web-0") as events:
            event = events.vm("web-0").evict()
            approve_everything(events.events_url)
            self.assertIs(events.expect_approved(event, by="web-0"), event)  # noqa: PT009 - unittest's own way


@pytest.mark.end_to_end
def test_a_failure_shows_the_line_of_the_test_and_none_of_ours(tmp_path: Path) -> None:
    """So does a mark that is wrong."""
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_nobody_approves(scheduled_events):\n"
        "    scheduled_events.expect_approved(seconds=0)\n"
        "@pytest.mark.scheduled_events(scenario='spot-evicton')\n"
        "def test_a_wrong_mark(scheduled_events): ...\n"
    )

    out = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    ).stdout

    assert "test_it.py:3: AssertionError" in out
    assert "there is no scenario 'spot-evicton'; did you mean 'spot-eviction'?" in out
    assert "scheduled_events.py:" not in out
    assert "plugin.py:" not in out


@pytest.mark.end_to_end
def test_the_plugin_is_found_by_pytest_and_imports_nothing_until_asked(tmp_path: "os.PathLike[str]") -> None:
    """A project that does not use the fixture pays nothing for it."""
    check = (
        "import sys, pytest; pytest.main(['--fixtures', '-q', '-p', 'no:cacheprovider']);"
        "print('emulator' if 'forewarn.emulator' in sys.modules else 'lazy')"
    )

    out = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, cwd=tmp_path, env=os.environ
    )

    assert "scheduled_events" in out.stdout
    assert out.stdout.rstrip().endswith("lazy")
