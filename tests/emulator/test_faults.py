"""What goes wrong on the way: each fault as a caller meets it, how often, when, and to whom."""

import http.client
import re
import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from forewarn.clocks import ManualClock
from forewarn.core.errors import BadInput
from forewarn.emulator import Emulator
from forewarn.emulator.arguments import check_number
from forewarn.emulator.faults import BEFORE, FAULTS, Fault, FaultContext, FaultKind, Faults, fault_kind
from tests.emulator.callers import approve, ask, ask_on, connected

GET = FaultContext("web-0", "GET", switches_on=False)
POST = FaultContext("web-0", "POST", switches_on=False)


def is_active(faults: Faults, context: FaultContext = GET, times: int = 1) -> list[bool]:
    return [bool(faults.active_for(context)) for _ in range(times)]


@pytest.mark.parametrize("status", [404, 410, 429, 500])
def test_a_status_comes_instead_of_an_answer(status: int) -> None:
    """Once, with the body Azure gives it; the connection stays usable, and the next request is answered."""
    with Emulator("web-0") as emulator, connected(emulator.url) as connection:
        emulator.fail_next(status)
        failed, well = ask_on(connection), ask_on(connection)

        assert failed.status == status
        assert "error" in failed.json
        assert ("retry-after" in failed.headers) == (status == 429)
        assert well.status == 200


def test_a_failed_approval_never_reached_the_service() -> None:
    """The fault comes before the service is asked, so the event is still Scheduled."""
    with Emulator("web-0") as emulator:
        event = emulator.vm("web-0").reboot()
        emulator.fail_next(500)

        assert approve(emulator.url, event.id).status == 500
        assert not event.approved_by
        assert approve(emulator.url, event.id).status == 200
        assert [sent.status for sent in emulator.requests] == [500, 200]


def test_a_delayed_request_is_answered_when_its_time_has_come() -> None:
    """By the emulator's clock, and with what the document says then."""
    with Emulator("web-0") as emulator, connected(emulator.url) as connection:
        emulator.add_fault("delay", seconds=5)
        connection.request("GET", "/metadata/scheduledevents?api-version=2020-07-01", headers={"Metadata": "true"})
        assert emulator.wait_for(lambda: len(emulator.requests) == 1)
        emulator.advance("4s")
        waiting = emulator.requests[0].status
        emulator.vm("web-0").reboot()
        emulator.advance("1s")

        assert waiting == 0
        assert b"Reboot" in connection.getresponse().read()


def test_a_stalled_request_is_never_answered() -> None:
    """The connection stays open; only the caller's own patience ends it."""
    with Emulator("web-0") as emulator, connected(emulator.url) as connection:
        emulator.add_fault("stall")
        connection.timeout = 0.05
        with pytest.raises(TimeoutError):
            ask_on(connection)
        emulator.advance("1h")

        assert emulator.requests[0].status == 0


def test_a_connection_is_reset() -> None:
    """The caller gets an error of its own, not an answer."""
    with Emulator("web-0") as emulator:
        emulator.add_fault("reset")

        with pytest.raises(ConnectionResetError):
            ask(emulator.url)


def test_half_a_body_comes() -> None:
    """The head promises more than arrives before the connection closes."""
    emulator = Emulator("web-0", faults=[Fault(FaultKind.HALF_BODY)])
    with emulator, pytest.raises(http.client.IncompleteRead) as seen:
        ask(emulator.url)

    assert seen.value.partial == b'{"DocumentIncarnat'


def test_an_empty_body_comes_with_200() -> None:
    """As clients have met it in the field."""
    with Emulator("web-0") as emulator:
        emulator.add_fault("empty-body")
        answer = ask(emulator.url)

        assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "0")


def test_the_content_type_is_wrong() -> None:
    """The body is the document all the same."""
    with Emulator("web-0") as emulator:
        emulator.add_fault("wrong-type")
        answer = ask(emulator.url)

        assert answer.headers["content-type"] == "text/html"
        assert answer.json["Events"] == []


@pytest.mark.parametrize(("seconds", "shown"), [(300, "12:05:00"), (-60, "11:59:00")])
def test_the_date_is_skewed(seconds: int, shown: str) -> None:
    """The header Date is ahead of the true time, or behind it."""
    with Emulator("web-0", now=datetime(2026, 1, 1, 12, tzinfo=UTC)) as emulator:
        emulator.add_fault("skewed-date", seconds=seconds)

        assert ask(emulator.url).headers["date"] == f"Thu, 01 Jan 2026 {shown} GMT"


def test_dates_are_iso_as_the_preview_printed_them() -> None:
    """NotBefore of a Scheduled event; that of a Started one stays empty."""
    with Emulator("web-0", now=datetime(2026, 1, 1, 12, tzinfo=UTC)) as emulator:
        emulator.add_fault("iso-dates")
        event = emulator.vm("web-0").reboot()
        scheduled = ask(emulator.url).json["Events"][0]["NotBefore"]
        event.approve()

        assert scheduled == "2026-01-01T12:15:00Z"
        assert ask(emulator.url).json["Events"][0]["NotBefore"] == ""


@pytest.mark.parametrize(("kind", "steps"), [("repeated-incarnation", {0}), ("skipped-incarnation", {2, 3, 4, 5})])
def test_incarnations_are_repeated_or_skipped(kind: str, steps: set[int]) -> None:
    """Each change of the document moves its number by none, or by more than one; asking again moves nothing."""
    with Emulator("web-0", faults=[Fault(FaultKind(kind))]) as emulator:
        numbers = [ask(emulator.url).json["DocumentIncarnation"]]
        for _ in range(8):
            emulator.vm("web-0").freeze().cancel()
            emulator.vm("web-0").freeze()
            numbers.append(ask(emulator.url).json["DocumentIncarnation"])
            assert ask(emulator.url).json["DocumentIncarnation"] == numbers[-1]
        changes = [after - before for before, after in pairwise(numbers)]

        assert all(3 * min(steps) <= change <= 3 * max(steps) for change in changes)


@pytest.mark.end_to_end
def test_the_incarnation_begins_anew_after_a_day_of_silence() -> None:
    """As on Azure, where agents that compared numbers by size went deaf."""
    with Emulator("web-0", faults=[Fault(FaultKind.INCARNATION_RESET)]) as emulator:
        emulator.vm("web-0").freeze().cancel()
        before = ask(emulator.url).json["DocumentIncarnation"]
        emulator.advance("24h2m")
        after = [ask(emulator.url).json["DocumentIncarnation"]]
        emulator.vm("web-0").freeze()
        after.append(ask(emulator.url).json["DocumentIncarnation"])

        assert (before, after) == (3, [1, 2])


@pytest.mark.end_to_end
def test_a_slow_first_call_is_slow_only_while_the_group_is_off() -> None:
    """It is the call that switches notices on which takes two minutes."""
    with Emulator("web-0", faults=[Fault(FaultKind.SLOW_FIRST_CALL)]) as emulator:
        assert ask(emulator.url).status == 200  # the group is on already
        emulator.advance("24h2m")
        answers: list[int] = []
        first = threading.Thread(target=lambda: answers.append(ask(emulator.url).status))
        first.start()
        assert emulator.wait_for(lambda: len(emulator.requests) == 2)
        emulator.advance("119s")
        assert not answers
        emulator.advance("1s")
        first.join()

        assert answers == [200]
        assert ask(emulator.url).status == 200


def test_the_same_seed_meets_the_same_requests() -> None:
    """Chance is repeatable, other seeds draw otherwise, and it is about as likely as it says."""

    def draw(seed: int) -> list[bool]:
        fault = Fault(FaultKind.INTERNAL_ERROR, probability=0.3)
        return is_active(Faults(ManualClock(), seed=seed, faults=[fault]), times=300)

    assert draw(1) == draw(1) != draw(2)
    assert 60 < sum(draw(1)) < 120


def test_a_fault_has_a_window() -> None:
    """From, including; until, excluding; counted from the beginning."""
    clock = ManualClock()
    window = Fault(FaultKind.GONE, since=timedelta(minutes=1), until=timedelta(minutes=2))
    faults = Faults(clock, faults=[window])
    seen = []
    for _ in range(5):
        seen += is_active(faults)
        clock.advance(timedelta(seconds=30))

    assert seen == [False, False, True, True, False]


def test_windows_and_delays_are_hurried() -> None:
    """Like everything else."""
    clock = ManualClock()
    faults = Faults(clock, hurry=60, faults=[Fault(FaultKind.GONE, since=timedelta(minutes=1))])
    before = is_active(faults)
    clock.advance(timedelta(seconds=1))

    assert (before, is_active(faults)) == ([False], [True])


def test_a_fault_applies_to_what_it_names() -> None:
    """One VM's requests, one method's, and so many of them."""
    clock = ManualClock()
    other = FaultContext("web-1", "GET", switches_on=False)

    assert is_active(Faults(clock, faults=[Fault(FaultKind.GONE, vm="web-1")]), GET) == [False]
    assert is_active(Faults(clock, faults=[Fault(FaultKind.GONE, vm="web-1")]), other) == [True]
    assert is_active(Faults(clock, faults=[Fault(FaultKind.GONE, method="POST")]), GET) == [False]
    assert is_active(Faults(clock, faults=[Fault(FaultKind.GONE, method="POST")]), POST) == [True]
    assert is_active(Faults(clock, faults=[Fault(FaultKind.GONE, times=2)]), times=3) == [True, True, False]


def test_faults_can_be_taken_away() -> None:
    """From then on everything is answered."""
    with Emulator("web-0") as emulator:
        emulator.add_fault("500")
        assert ask(emulator.url).status == 500
        emulator.clear_faults()

        assert ask(emulator.url).status == 200


def test_a_fault_that_does_not_exist_is_refused_with_the_nearest() -> None:
    """In one sentence."""
    with pytest.raises(BadInput, match="did you mean 'half-body'"):
        fault_kind("halfbody")


def test_every_fault_is_told_of() -> None:
    """Each kind has its sentence, and stands before or after the service."""
    assert set(FAULTS) == set(FaultKind)
    assert FaultKind.SLOW_FIRST_CALL in BEFORE
    assert FaultKind.HALF_BODY not in BEFORE


def test_the_seconds_of_a_fault_are_those_of_its_sentence() -> None:
    """Where none are given."""
    told = {kind: re.search(r"default (\d+)", said) for kind, said in FAULTS.items()}

    assert {kind: Fault(kind).amount for kind in FaultKind} == {
        kind: float(found[1]) if found else 0.0 for kind, found in told.items()
    }


@pytest.mark.parametrize("kind", [FaultKind.REPEATED_INCARNATION, FaultKind.SKIPPED_INCARNATION])
def test_incarnations_are_drawn_for_each_change_and_not_for_each_request(kind: FaultKind) -> None:
    """Else the same document would be shown with the true number and a wrong one by turns."""
    assert is_active(Faults(ManualClock(), faults=[Fault(kind, probability=0.0)]), times=3) == [True] * 3


def test_a_fault_that_is_improbable_is_rare() -> None:
    """As rare as is said."""
    with Emulator("web-0") as emulator:
        emulator.add_fault("500", probability=1e-9)

        assert [ask(emulator.url).status for _ in range(5)] == [200] * 5


def test_a_number_has_an_end() -> None:
    """Nothing can be divided by infinity in time."""
    with pytest.raises(BadInput, match="hurry is inf, expected a number above 0"):
        check_number("hurry", float("inf"), "60")
