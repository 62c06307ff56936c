"""What is checked of notifications."""

import msgspec
import pytest

from forewarn.simulator.exchanges import ControlExchange, Exchange, ReceivedNotification
from forewarn.simulator.plan import Plan, PlannedGroup
from forewarn.simulator.promises.checker import Promises

EVENT = "11111111-1111-4111-8111-111111111111"
PLAN = Plan(1, 60.0, ("h1",), (PlannedGroup("web", "scale-set"), PlannedGroup("db", "scale-set")), (), {}, (), 60.0)


def subscription(*groups: str) -> ControlExchange:
    body = msgspec.json.encode({"name": "s1", "kind": "webhook", "target": "https://a.example", "groups": groups})
    return ControlExchange("ann", "POST", "/v1/subscriptions", body, "k1", 1.0, 1.1, 201, b"{}")


def message(id_: str, type_: str, revision: int, group: str = "web") -> ReceivedNotification:
    return ReceivedNotification("s1", id_, f"io.forewarn.event.{type_}", EVENT, group, revision, 5.0)


LIFE = (message("4-0", "scheduled", 4), message("6-1", "started", 6), message("9-0", "completed", 9))
BROKEN = {
    "nobody asked": (LIFE, "nobody asked"),
    "another group": ((subscription("db"), *LIFE), "does not name"),
    "out of order": ((subscription(), LIFE[1], message("7-0", "scheduled", 7)), "later state"),
    "one id for two": ((subscription(), LIFE[0], message("4-0", "started", 4)), "another message"),
}


def problems_of(story: tuple[Exchange, ...]) -> list[str]:
    promises = Promises(PLAN)
    for exchange in story:
        promises.see(exchange)
    return [problem for problem in promises.problems if "notification" in problem]


def test_messages_in_order_are_kept_promises_also_when_they_are_repeated() -> None:
    """A message may come twice, as after a crash."""
    assert problems_of((subscription("web"), *LIFE, *LIFE)) == []


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_promise_is_reported(fault: str) -> None:
    """Each promise about notifications is checked."""
    story, words = BROKEN[fault]
    assert any(words in problem for problem in problems_of(story))
