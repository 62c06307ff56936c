"""The emulator in a test's hand: VMs by their ports, virtual time, what callers sent."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forewarn.client.client import Client
from forewarn.config.settings import NoticeSettings
from forewarn.core.errors import BadInput, Refused, Unknown
from forewarn.core.model import EventStatus, EventType
from forewarn.emulator import Emulator
from tests.emulator.callers import approve, ask, connected

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_each_vm_asks_at_a_port_of_its_own() -> None:
    """Whoever calls a VM's port is taken for that VM; the emulator's own URL is the first one's."""
    with Emulator("web-0", "web-1") as emulator:
        names = []
        for vm in emulator.vms:
            with connected(vm.url) as connection:
                target = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
                connection.request("GET", target, headers={"Metadata": "true"})
                names.append(connection.getresponse().read())

        assert names == [b"web-0", b"web-1"]
        assert emulator.url == emulator.vm("web-0").url


def test_it_may_listen_on_ipv6() -> None:
    """Its address is one that clients can read."""
    with Emulator(host="::1") as emulator, Client(emulator.url) as client:
        assert client.document().events == ()


def test_it_may_be_called_by_any_name() -> None:
    """In containers and through tunnels it has names that the service would refuse."""
    with Emulator() as emulator, connected(emulator.url) as connection:
        target = "/metadata/scheduledevents?api-version=2020-07-01"
        connection.request("GET", target, headers={"Metadata": "true", "Host": "emulator.example.org"})
        assert connection.getresponse().status == 200


def test_the_least_notice_can_be_another() -> None:
    """For those who want to see what less than Azure's means."""
    with Emulator("web-0", now=NOON, notice=NoticeSettings(reboot=timedelta(seconds=20))) as emulator:
        assert emulator.vm("web-0").reboot().not_before == NOON + timedelta(seconds=20)


def test_an_event_goes_its_way_when_the_clock_is_moved() -> None:
    """Scheduled until NotBefore, Started for ten minutes, then gone; the document follows."""
    with Emulator("web-0", now=NOON) as emulator:
        event = emulator.vm("web-0").reboot()
        seen = [ask(emulator.url).json]
        emulator.advance("14m59s")
        before = event.status
        emulator.advance("1s")
        seen.append(ask(emulator.url).json)
        emulator.advance("10m")
        seen.append(ask(emulator.url).json)

        assert before is EventStatus.SCHEDULED
        assert [[each["EventStatus"] for each in document["Events"]] for document in seen] == [
            ["Scheduled"],
            ["Started"],
            [],
        ]
        assert [document["DocumentIncarnation"] for document in seen] == [2, 3, 4]
        assert seen[0]["Events"][0]["EventId"] == event.shown_id
        assert seen[0]["Events"][0]["NotBefore"] == "Thu, 01 Jan 2026 12:15:00 GMT"
        assert event.status is EventStatus.COMPLETED
        assert emulator.now == NOON + timedelta(minutes=25)


def test_an_approval_over_http_starts_the_event_at_once() -> None:
    """The answer to the POST comes after the start, and the emulator knows who it was."""
    with Emulator("web-0", "web-1") as emulator:
        event = emulator.vm("web-0").freeze(seconds=7)

        assert approve(emulator.vm("web-1").url, event.shown_id).status == 200
        assert event.status is EventStatus.STARTED
        assert event.approved_by == ("web-1",)
        assert emulator.document()["Events"][0]["DurationInSeconds"] == 7  # type: ignore[index]


def test_what_callers_sent_is_kept_word_for_word() -> None:
    """Method, target, headers and body of each request, the VM it came for, and what it was answered."""
    with Emulator("web-0", "web-1") as emulator:
        event = emulator.vm("web-0").reboot()
        ask(emulator.vm("web-1").url, "2019-08-01")
        approve(emulator.vm("web-0").url, event.shown_id)
        got, posted = emulator.requests

        assert (got.vm, got.method, got.api_version, got.status) == ("web-1", "GET", "2019-08-01", 200)
        assert got.path == "/metadata/scheduledevents"
        assert got.headers["metadata"] == "true"
        assert (posted.vm, posted.method, posted.approves) == ("web-0", "POST", (event.id,))


def test_who_was_shown_an_event_is_known_at_once() -> None:
    """No time has to pass before a fetch is told."""
    with Emulator("web-0", "web-1") as emulator:
        event = emulator.vm("web-0").reboot()
        ask(emulator.vm("web-1").url)

        assert event.fetched_by == ("web-1",)


@pytest.mark.parametrize(
    ("verb", "type_", "minutes"),
    [
        ("reboot", EventType.REBOOT, 15),
        ("redeploy", EventType.REDEPLOY, 10),
        ("freeze", EventType.FREEZE, 15),
        ("migrate", EventType.FREEZE, 15),
        ("evict", EventType.PREEMPT, 0.5),
        ("delete", EventType.TERMINATE, 5),
    ],
)
def test_every_type_of_event_can_be_made_to_happen(verb: str, type_: EventType, minutes: float) -> None:
    """With the notice that Azure gives it."""
    with Emulator("web-0", now=NOON) as emulator:
        event = getattr(emulator.vm("web-0"), verb)()

        assert event.type is type_
        assert event.not_before == NOON + timedelta(minutes=minutes)


def test_a_host_can_fail_and_be_maintained() -> None:
    """Its events are born Started, or announced, one for each group and update domain."""
    with Emulator("web-0", "web-1") as emulator:
        (announced,) = emulator.host("host-1").degrade(notice="7d")
        (failed,) = emulator.host("host-0").fail()

        assert announced.resources == ("web-1",)
        assert announced.not_before >= emulator.now + timedelta(days=7)
        assert failed.status is EventStatus.STARTED


def test_the_freeze_of_a_host_lasts_as_long_as_is_announced() -> None:
    """Its VMs are told how long."""
    with Emulator("web-0") as emulator:
        emulator.host("host-0").freeze(7)

        assert [event["DurationInSeconds"] for event in ask(emulator.url).json["Events"]] == [7]


def test_a_host_can_be_drained() -> None:
    """Each of its running VMs moves to a host that was planned for it; the emptied host receives none."""
    with Emulator("web-0", "web-1", now=NOON) as emulator:
        emulator.host("host-0").drain()
        emulator.advance("1h")

        assert [event.resources for event in emulator.host("host-1").freeze()] == [("web-0",), ("web-1",)]
        with pytest.raises(Refused, match="no other host is up, not cordoned and not in a wave of a rollout"):
            emulator.host("host-1").drain()


def test_an_event_can_be_canceled_and_approved_by_hand() -> None:
    """As the platform takes one back, and an operator lets one start."""
    with Emulator("web-0", "web-1") as emulator:
        canceled = emulator.vm("web-0").freeze()
        canceled.cancel()
        approved = emulator.vm("web-1").freeze()
        approved.approve()

        assert canceled.status is EventStatus.CANCELED
        assert approved.status is EventStatus.STARTED
        with pytest.raises(Refused):
            approved.cancel()


def test_a_long_poll_is_answered_when_the_clock_is_moved() -> None:
    """A caller that waits for a change has its answer when ``advance`` has brought the change about."""
    with Emulator("web-0") as emulator, connected(emulator.url) as connection:
        emulator.vm("web-0").reboot()
        emulator.advance("12m")
        tag = ask(emulator.url).headers["etag"]
        target = "/metadata/scheduledevents?api-version=2020-07-01"
        connection.request("GET", target, headers={"Metadata": "true", "If-None-Match": tag, "Prefer": "wait=300"})
        assert emulator.wait_for(lambda: len(emulator.requests) == 2)
        emulator.advance("2m59s")
        waiting = emulator.requests[-1].status
        emulator.advance("1s")

        assert waiting == 0
        assert b'"Started"' in connection.getresponse().read()


def test_answers_are_dated_and_long_polls_end_by_the_clock_that_is_moved() -> None:
    """The header Date goes with it, and a caller waits as long as it would by that clock."""
    with Emulator("web-0", now=NOON) as emulator, connected(emulator.url) as connection:
        tag = ask(emulator.url).headers["etag"]
        target = "/metadata/scheduledevents?api-version=2020-07-01"
        connection.request("GET", target, headers={"Metadata": "true", "If-None-Match": tag, "Prefer": "wait=60"})
        assert emulator.wait_for(lambda: len(emulator.requests) == 2)
        emulator.advance("2m")
        answer = connection.getresponse()

        assert (answer.status, answer.getheader("Date")) == (304, "Thu, 01 Jan 2026 12:02:00 GMT")


@pytest.mark.end_to_end
def test_a_connection_is_not_closed_because_the_clock_was_moved() -> None:
    """A client that keeps its connection open for hours of virtual time can go on using it."""
    with Emulator("web-0") as emulator, connected(emulator.url) as connection:
        for _ in range(3):
            connection.request("GET", "/metadata/versions", headers={"Metadata": "true"})
            assert connection.getresponse().read()
            emulator.advance("4h")


def test_any_number_of_requests_may_come_while_time_stands_still() -> None:
    """The rate limit goes by the clock, so it is off where the clock stands."""
    with Emulator("web-0") as emulator:
        assert {ask(emulator.url).status for _ in range(40)} == {200}


@pytest.mark.end_to_end
def test_a_group_is_switched_off_after_a_day_of_silence() -> None:
    """A restart then runs at once."""
    with Emulator("web-0") as emulator:
        emulator.advance("24h2m")

        assert emulator.vm("web-0").reboot().status is EventStatus.STARTED


def test_a_test_can_wait_for_what_its_client_does() -> None:
    """``wait_for`` wakes with every request and gives up when its time is over."""
    with Emulator("web-0") as emulator:
        event = emulator.vm("web-0").reboot()
        client = threading.Thread(target=approve, args=(emulator.url, event.id))
        client.start()

        assert emulator.wait_for(lambda: event.approved_by == ("web-0",))
        assert not emulator.wait_for(lambda: event.status is EventStatus.FAILED, seconds=0.01)
        client.join()


def test_two_emulators_run_side_by_side() -> None:
    """Each has ports and a clock of its own."""
    with Emulator("a") as one, Emulator("b") as other:
        one.advance("1h")
        other.vm("b").reboot()

        assert one.url != other.url
        assert one.now > other.now
        assert not one.events


def test_an_emulator_leaves_nothing_behind() -> None:
    """Its thread ends, its port is free, and it can be started again."""
    emulator = Emulator("web-0")
    for _ in range(2):
        with emulator:
            assert ask(emulator.url).status == 200
        assert not any(thread.name.startswith("forewarn-emulator") for thread in threading.enumerate())
    with pytest.raises(BadInput, match="not running"):
        emulator.advance("1m")


def test_a_failed_start_leaves_no_thread() -> None:
    """A port that is taken is told in one sentence that names the flag."""
    with Emulator("web-0") as emulator:
        port = int(emulator.url.rpartition(":")[2])
        with pytest.raises(Exception, match=r"another program listens there.*--port"):
            Emulator("web-1", port=port).start()

        assert sum(thread.name == "forewarn-emulator" for thread in threading.enumerate()) == 1


def test_what_is_not_there_is_refused_with_the_nearest_name() -> None:
    """VMs and hosts by their names."""
    with Emulator("web-0") as emulator:
        with pytest.raises(Unknown, match="did you mean 'web-0'"):
            emulator.vm("web-9")
        with pytest.raises(Unknown, match="did you mean 'host-0'"):
            emulator.host("hst-0")


def test_a_fleet_file_can_be_emulated(tmp_path: Path) -> None:
    """Its groups hold apart what each VM is shown."""
    file = tmp_path / "fleet.toml"
    file.write_text('[[vm]]\nname = "one"\n[[vm]]\nname = "other"\naddress = "10.0.0.4"\n', encoding="utf-8")
    with Emulator(fleet=file) as emulator:
        emulator.vm("one").reboot()

        assert len(ask(emulator.vm("one").url).json["Events"]) == 1
        assert ask(emulator.vm("other").url).json["Events"] == []


def test_ports_must_suffice() -> None:
    """A port so high that not all VMs find one above it is refused."""
    with pytest.raises(BadInput, match="2 VMs need as many ports"):
        Emulator("web-0", "web-1", port=65_535).start()


def test_the_system_clock_goes_by_itself_and_can_jump() -> None:
    """What a jump passes happens at its own time, in order."""
    with Emulator("web-0", clock="system") as emulator:
        event = emulator.vm("web-0").reboot()
        emulator.advance("26m")
        life = event.life

        assert event.status is EventStatus.COMPLETED
        assert life.started_at is not None
        assert life.ended_at is not None
        assert life.ended_at - life.started_at < timedelta(minutes=10, seconds=30)


def test_everything_can_be_hurried() -> None:
    """Notice and impact take a sixtieth; the clock is not scaled."""
    with Emulator("web-0", hurry=60, now=NOON) as emulator:
        event = emulator.vm("web-0").reboot()
        emulator.advance("15s")
        started = event.status
        emulator.advance("10s")

        assert (started, event.status) == (EventStatus.STARTED, EventStatus.COMPLETED)
