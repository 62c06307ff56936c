"""What is checked of notifications."""

import pytest

from forewarn.simulator.actions.subscription_requests import RequestSubscription
from forewarn.simulator.exchanges import Exchange, ReceivedNotification
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
