"""The fixture and its context manager, used as an application's tests use them."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import unittest
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from forewarn.core.errors import BadInput, Unknown
from forewarn.testing import ScheduledEvents, plugin

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


@pytest.mark.end_to_end
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


def test_an_expectation_in_a_coroutine_names_the_one_to_await(scheduled_events: ScheduledEvents) -> None:
    """At once, and only where it would have to wait: the application could not go on meanwhile."""

    async def story() -> None:
        event = scheduled_events.vms[0].freeze()
        with pytest.raises(BadInput, match=r"await ….aexpect_approved\("):
            scheduled_events.expect_approved(event)
        with pytest.raises(BadInput, match=r"await ….aexpect_fetched\("):
            scheduled_events.expect_fetched(event)
        event.approve()
        assert scheduled_events.expect_approved(event) is event

    asyncio.run(story())


def test_an_expectation_that_is_not_awaited_fails() -> None:
    """It would pass in silence; one that runs as a task is awaited."""
    events = ScheduledEvents().start()

    async def story() -> None:
        events.vms[0].freeze().approve()
        await asyncio.create_task(events.aexpect_approved())
        await asyncio.gather(events.aexpect_approved(), events.aexpect_approved())
        events.aexpect_approved()  # type: ignore[unused-coroutine]

    asyncio.run(story())
    with pytest.raises(AssertionError, match=r"aexpect_approved was never awaited"):
        events.stop()
    events.stop()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda events: events.expect_approved(by="web-O"), r"there is no VM 'web-O'; did you mean 'web-0'\?"),
        (lambda events: events.expect_not_approved(by="web-O"), "did you mean 'web-0'"),
        (lambda events: events.expect_approved("reboot"), "an event is what vm.reboot.. and the like return"),
        (lambda events: events.expect_approved(seconds="soon"), "seconds is 'soon', expected a duration such as"),
        (lambda events: events.vm("web0"), "did you mean 'web-0'"),
        (lambda events: events.add_fault("500", vm="web0"), "did you mean 'web-0'"),
        (lambda events: events.advance("15 minuts"), "is '15 minuts', expected a duration such as \"15m\""),
        (lambda events: events.advance(-1), "is -1, expected a duration"),
        (lambda events: events.advance(timedelta(seconds=-1)), "none of them negative"),
        (lambda events: events.advance(None), "is None, expected a duration"),
        (lambda events: events.vms[0].reboot(notice="x"), "notice is 'x', expected a duration"),
        (lambda events: events.vms[0].freeze("5"), "seconds is '5', expected a whole number such as 5"),
        (lambda events: events.document("web0"), "did you mean 'web-0'"),
        (lambda events: events.document("web-0", "2020-07-02"), "no api-version '2020-07-02'; did you mean"),
    ],
)
def test_misuse_is_told_in_words(
    scheduled_events: ScheduledEvents, call: Callable[[ScheduledEvents], object], said: str
) -> None:
    """With what was given, and how it is written."""
    with pytest.raises((BadInput, Unknown), match=said):
        call(scheduled_events)


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((["web-0", "web-1"],), {}, "not ['web-0', 'web-1']; give the names one by one: 'web-0', 'web-1'"),
        ((7,), {}, "a VM name must be a text, not 7"),
        ((), {"fleat": "x"}, "there is no argument 'fleat'; did you mean 'fleet'?"),
        ((), {"number": 5}, "there is no argument 'number'; known are fleet, scenario, clock"),
        ((), {"clock": "manul"}, "clock is 'manul', expected 'manual' or 'system'; did you mean 'manual'?"),
        ((), {"hurry": "60x"}, "hurry is '60x', expected a number above 0 such as 60"),
        ((), {"hurry": 0}, "hurry is 0, expected a number above 0"),
        ((), {"patience": "30s"}, "patience is '30s', expected a number above 0 such as 30.0"),
        ((), {"seed": "x"}, "seed is 'x', expected a whole number"),
        ((), {"fleet": "nowhere.toml"}, "nowhere.toml"),
        ((), {"fleet": 5}, "fleet is 5, expected a fleet file"),
        ((), {"scenario": 5}, "scenario is 5, expected a name or a file"),
        ((), {"notice": "5m"}, "notice is '5m', expected Notice(reboot="),
        ((), {"faults": ["429"]}, "a fault is '429', expected a Fault; use add_fault"),
        ((), {"faults": "429"}, "a fault is '429', expected a Fault"),
        ((), {"now": "2026-01-01"}, "now is '2026-01-01', expected a time in UTC"),
        ((), {"now": datetime(2026, 1, 1)}, "expected a time in UTC"),  # noqa: DTZ001 - that is the mistake
        ((), {"host": 5}, "host is 5, expected an address"),
        (("web-0", "web-0"), {}, "VM names must be unique"),
    ],
)
def test_a_wrong_mark_is_told_in_words(args: tuple[object, ...], kwargs: dict[str, object], said: str) -> None:
    """Before anything starts."""
    mark = pytest.mark.scheduled_events(*args, **kwargs).mark
    with pytest.raises(BadInput, match=re.escape(said)):
        plugin._made_by(mark)


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
