"""What is checked of notifications."""

from datetime import timedelta

import msgspec
import pytest

from forewarn.simulator.actions.subscription_requests import RequestSubscription
from forewarn.simulator.environment.clock import EPOCH
from forewarn.simulator.exchanges import ClockChange, ControlExchange, Exchange, ReceivedNotification
from forewarn.simulator.plan import Plan, PlannedGroup
from forewarn.simulator.promises.checker import Promises

EVENT = "11111111-1111-4111-8111-111111111111"
GROUPS = (PlannedGroup("web", "scale-set"), PlannedGroup("db", "scale-set"))


def subscription(group: str) -> RequestSubscription:
    return RequestSubscription(at=1.0, name="s1", group=group, key="k1")


def message(id_: str, type_: str, revision: int, group: str = "web") -> ReceivedNotification:
    return ReceivedNotification("s1", id_, f"io.forewarn.event.{type_}", EVENT, group, revision, 5.0)


LIFE = (message("4-0", "scheduled", 4), message("6-1", "started", 6), message("9-0", "completed", 9))
BROKEN = {
    "nobody asked": (LIFE, (), "nobody asked"),
    "another group": (LIFE, (subscription("db"),), "does not name"),
    "out of order": ((LIFE[1], message("7-0", "scheduled", 7)), (subscription("all"),), "later state"),
    "one id for two": ((LIFE[0], message("4-0", "started", 4)), (subscription("all"),), "another message"),
}


def problems_of(story: tuple[Exchange, ...], *actions: RequestSubscription) -> list[str]:
    promises = Promises(Plan(1, 60.0, ("h1",), GROUPS, (), {}, actions, 60.0))
    for exchange in story:
        promises.see(exchange)
    return [problem for problem in promises.problems if "notification" in problem]


def test_messages_in_order_are_kept_promises_also_when_they_are_repeated() -> None:
    """A message may come twice, as after a crash."""
    assert problems_of((*LIFE, *LIFE), subscription("web")) == []


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_promise_is_reported(fault: str) -> None:
    """Each promise about notifications is checked."""
    story, actions, words = BROKEN[fault]
    assert any(words in problem for problem in problems_of(story, *actions))


def asked(method: str, path: str, at: float, status: int, body: object = None, answer: object = None) -> Exchange:
    sends, answers = msgspec.json.encode(body), msgspec.json.encode(answer)
    return ControlExchange("ann", method, path, sends, f"k{at}", at, at, status, answers)


def subscribed(at: float, *groups: str, status: int = 201) -> Exchange:
    return asked("POST", "/v1/subscriptions", at, status, {"name": "s1", "groups": groups}, {})


def record(started_at: float = 20.0) -> Exchange:
    """Return the record of an event that was announced at second 2, and ended at second 25."""
    steps = ((2.0, "Scheduled"), (started_at, "Started"), (25.0, "Completed"))
    answer = {
        "id": EVENT,
        "type": "Reboot",
        "status": "Completed",
        "resources": ["web-0"],
        "source": "User",
        "group": "web",
        "operation": "vm restart",
        "description": "",
        "duration": -1,
        "announced_at": EPOCH + timedelta(seconds=2),
        "steps": [{"at": EPOCH + timedelta(seconds=at), "what": what} for at, what in steps],
    }
    return asked("GET", f"/v1/events/{EVENT}", 90.0, 200, answer=answer)


def shown(at: float) -> Exchange:
    """Return the group with the event, Scheduled."""
    item = {"id": EVENT, "type": "Reboot", "status": "Scheduled", "resources": ["web-0"]}
    answer = {"name": "web", "incarnation": 2, "members": ["web-0"], "upcoming": [item]}
    return asked("GET", "/v1/groups/web", at, 200, answer=answer)


GONE = asked("GET", "/v1/events", 30.0, 200, answer={"items": []})
TESTED = asked("POST", "/v1/subscriptions/s1/test", 80.0, 200)
REMOVED = asked("DELETE", "/v1/subscriptions/s1", 30.0, 204)
TOUCHED = ClockChange(1.0, 5.0, 0.0)
FROM_THE_START, LATE = subscribed(0.5), subscribed(10.0)
TOLD: dict[str, tuple[Exchange, ...]] = {
    "everything": (FROM_THE_START, *LIFE, record(), TESTED),
    "what happened since": (LATE, *LIFE[1:], record(), TESTED),
    "nothing of other groups": (subscribed(0.5, "db"), record(), TESTED),
    "nothing to who left": (FROM_THE_START, record(), REMOVED, TESTED),
    "nothing to who was refused": (subscribed(0.5, status=409), record(), TESTED),
    "less where it is unclear which one it is": (
        FROM_THE_START,
        subscribed(40.0, "db", status=503),
        record(),
        TESTED,
    ),
    "less where no test has shown that the receiver is back": (FROM_THE_START, record()),
    "less where the clock was touched and the event was there before": (TOUCHED, LATE, GONE, record(), TESTED),
}
NOT_TOLD: dict[str, tuple[tuple[Exchange, ...], str]] = {
    "the start": ((FROM_THE_START, LIFE[0], LIFE[2], record(), TESTED), "started"),
    "the announcement": ((FROM_THE_START, *LIFE[1:], record(), TESTED), "scheduled"),
    "the end, with a clock that was touched": (
        (TOUCHED, LATE, shown(15.0), LIFE[1], GONE, record(), TESTED),
        "completed",
    ),
    "anything, for long": ((FROM_THE_START, record()), "scheduled"),
}


def not_told(story: tuple[Exchange, ...], now: float) -> list[str]:
    promises = Promises(Plan(1, 60.0, ("h1",), GROUPS, (), {}, (subscription("all"),), 60.0))
    for exchange in story:
        promises.see(exchange)
    promises.settle(now)
    return [problem for problem in promises.problems if "was not told" in problem]


@pytest.mark.parametrize("what", TOLD)
def test_a_subscription_is_told(what: str) -> None:
    """A subscription is told what happens to the events of its groups from its acknowledgement on."""
    assert not_told(TOLD[what], 100.0) == []


@pytest.mark.parametrize("what", NOT_TOLD)
def test_what_a_subscription_is_not_told_is_reported(what: str) -> None:
    """A message that never arrives breaks a promise, also where no other message shows that."""
    story, step = NOT_TOLD[what]
    problems = not_told(story, 400.0 if what == "anything, for long" else 100.0)
    assert any(f"was {step} and subscription s1 was not told" in problem for problem in problems)
