"""Whether what was expected has come about: in time, too late, too early, or never."""

from datetime import UTC, datetime, timedelta

import pytest

from forewarn.core.model import Event, EventSource, EventStatus, EventType, Operation
from forewarn.emulator.event_log import EventLife
from forewarn.emulator.expectations import ExpectationState, claim_of, judge, judge_requests
from forewarn.emulator.requests import SentRequest
from forewarn.emulator.scenario import Expectation
from forewarn.emulator.scenario_tables import Claim

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def life(status: EventStatus = EventStatus.SCHEDULED, **known: object) -> EventLife:
    event = Event(
        id="0" * 32,
        type=EventType.REBOOT,
        source=EventSource.USER,
        group="web",
        resources=("web-0",),
        status=status,
        not_before=NOON + 15 * MINUTE,
        announced_at=NOON,
        operation=Operation.VM_RESTART,
    )
    return EventLife(event, **known)  # type: ignore[arg-type]


APPROVED = life(approved={"web-1": NOON + 2 * MINUTE, "web-0": NOON + 3 * MINUTE})
OVER = life(status=EventStatus.COMPLETED, started_at=NOON + MINUTE, ended_at=NOON + 5 * MINUTE)


@pytest.mark.parametrize(
    ("expected", "happened", "after", "outcome"),
    [
        ({"that": Claim.APPROVED, "within": 2 * MINUTE}, APPROVED, 9, ExpectationState.MET),
        ({"that": Claim.APPROVED, "within": MINUTE}, APPROVED, 9, ExpectationState.MISSED),
        ({"that": Claim.APPROVED, "by": "web-0", "within": 2 * MINUTE}, APPROVED, 9, ExpectationState.MISSED),
        ({"that": Claim.APPROVED, "by": "web-0", "within": 3 * MINUTE}, APPROVED, 9, ExpectationState.MET),
        ({"that": Claim.APPROVED, "by": "web-2"}, APPROVED, 9, ExpectationState.OPEN),
        ({"that": Claim.APPROVED, "after": 3 * MINUTE}, APPROVED, 9, ExpectationState.MISSED),
        ({"that": Claim.APPROVED, "after": 2 * MINUTE}, APPROVED, 9, ExpectationState.MET),
        ({"that": Claim.APPROVED, "never": True}, APPROVED, 9, ExpectationState.MISSED),
        ({"that": Claim.APPROVED}, life(), 9, ExpectationState.OPEN),
        ({"that": Claim.APPROVED, "within": MINUTE}, life(), 1, ExpectationState.OPEN),
        ({"that": Claim.APPROVED, "within": MINUTE}, life(), 2, ExpectationState.MISSED),
        ({"that": Claim.APPROVED}, OVER, 9, ExpectationState.MISSED),
        ({"that": Claim.APPROVED, "never": True}, OVER, 9, ExpectationState.MET),
        ({"that": Claim.APPROVED, "never": True}, life(), 9, ExpectationState.OPEN),
        ({"that": Claim.FETCHED}, life(fetched={"web-0": NOON}), 9, ExpectationState.MET),
        ({"that": Claim.STARTED, "within": MINUTE}, OVER, 9, ExpectationState.MET),
        ({"that": Claim.GONE, "within": 5 * MINUTE}, OVER, 9, ExpectationState.MET),
        ({"that": Claim.COMPLETED}, OVER, 9, ExpectationState.MET),
        ({"that": Claim.CANCELED}, OVER, 9, ExpectationState.MISSED),
        ({"that": Claim.FAILED}, OVER, 9, ExpectationState.MISSED),
    ],
)
def test_an_expectation_is_judged(
    expected: dict[str, object], happened: EventLife, after: int, outcome: ExpectationState
) -> None:
    """By what became of the event, and when, counted from its announcement."""
    expectation = Expectation(event="restart", **expected)  # type: ignore[arg-type]

    assert judge(expectation, [happened], NOON + after * MINUTE, hurry=1).outcome is outcome


def test_times_are_counted_as_the_scenario_does() -> None:
    """What took two seconds when it was hurried sixtyfold took two minutes."""
    expectation = Expectation(that=Claim.APPROVED, event="restart", within=2 * MINUTE)
    hurried = life(approved={"web-0": NOON + timedelta(seconds=2)})
    verdict = judge(expectation, [hurried], NOON + MINUTE, hurry=60)

    assert (verdict.outcome, verdict.detail) == (ExpectationState.MET, "it was approved after 2m")


def test_all_events_of_a_step_must_meet_it() -> None:
    """One that misses it is told of before one that is open, and that before one that is met."""
    expectation = Expectation(that=Claim.APPROVED, event="restart")

    assert judge(expectation, [APPROVED, life()], NOON, hurry=1).outcome is ExpectationState.OPEN
    assert judge(expectation, [APPROVED, life(), OVER], NOON, hurry=1).outcome is ExpectationState.MISSED
    assert judge(expectation, None, NOON, hurry=1).outcome is ExpectationState.OPEN
    assert judge(expectation, [], NOON, hurry=1).outcome is ExpectationState.MISSED


def test_asking_is_judged_by_requests() -> None:
    """Of the VM that is named; one that came before the beginning came when it began."""
    sent = [
        SentRequest(at=NOON - MINUTE, vm="web-0", method="GET", target="/", headers={}),
        SentRequest(at=NOON + 3 * MINUTE, vm="web-1", method="GET", target="/", headers={}),
    ]

    def outcome(by: str) -> ExpectationState:
        expectation = Expectation(that=Claim.ASKED, by=by, within=2 * MINUTE)
        return judge_requests(expectation, sent, NOON, NOON + 5 * MINUTE, hurry=1).outcome

    assert [outcome(by) for by in ("", "web-0", "web-1", "web-2")] == [
        ExpectationState.MET,
        ExpectationState.MET,
        ExpectationState.MISSED,
        ExpectationState.MISSED,
    ]


def test_a_claim_is_said_in_words() -> None:
    """For reports and the screen."""
    expectation = Expectation(
        that=Claim.APPROVED, event="restart", by="web-0", within=2 * MINUTE, after=timedelta(seconds=10)
    )

    assert claim_of(expectation) == "restart approved by web-0 within 2m not before 10s"
    assert claim_of(Expectation(that=Claim.APPROVED, event="restart", never=True)) == "restart never approved"
