"""Which rule an event falls under."""

from datetime import timedelta

import pytest

from forewarn.agent.decision.rules import MOST_EVENTS, Concern, EventRule, choose_rule, concerns, limit_events
from forewarn.core.model import EventSource, EventType
from forewarn.wire.document import Document, ScheduledEvent
from tests.agent.harness import ME, event

TEN = timedelta(seconds=10)


def fits(rule: EventRule, of: ScheduledEvent) -> bool:
    return choose_rule([rule], of, ME) is rule


def test_the_first_that_fits_counts() -> None:
    """Rules are read from above."""
    freezes = EventRule(name="freezes", types=(EventType.FREEZE,))
    rest = EventRule(name="rest")

    assert choose_rule([freezes, rest], event(type="Freeze"), ME) is freezes
    assert choose_rule([freezes, rest], event(type="Reboot"), ME) is rest
    assert choose_rule([freezes], event(type="Reboot"), ME) is None


@pytest.mark.parametrize(
    ("rule", "fitting", "other"),
    [
        (EventRule(name="", types=(EventType.FREEZE,)), event(type="freeze"), event(type="Reboot")),
        (EventRule(name="", types=(EventType.FREEZE,)), event(type="FREEZE"), event(type="Wombat")),
        (EventRule(name="", source=EventSource.USER), event(source="User"), event(source="Platform")),
        (EventRule(name="", source=EventSource.USER), event(source="user"), event(source=None)),
        (EventRule(name="", duration_at_most=TEN), event(duration=10), event(duration=11)),
        (EventRule(name="", duration_at_most=TEN), event(duration=0), event(duration=-1)),
        (EventRule(name="", duration_at_least=TEN), event(duration=10), event(duration=9)),
        (EventRule(name="", duration_at_least=TEN), event(duration=30), event(duration=-1)),
        (EventRule(name="", duration_at_least=TEN), event(duration=10**18), event(duration=-(10**18))),
        (
            EventRule(name="", description="*migration*"),
            event(description="A Live Migration."),
            event(description=""),
        ),
        (EventRule(name="", resources=("WEB-*",)), event(), event(resources=("db-0", ME[:3]))),
        (EventRule(name="", concerns=Concern.ME), event(resources=("x", "WEB-0")), event(resources=("web-1",))),
        (EventRule(name="", concerns=Concern.OTHERS), event(resources=("web-1",)), event()),
    ],
)
def test_what_a_rule_asks_for(rule: EventRule, fitting: ScheduledEvent, other: ScheduledEvent) -> None:
    """Each condition lets the one event pass and not the other; case never matters."""
    assert fits(rule, fitting)
    assert not fits(rule, other)


def test_a_rule_for_any_fits_both() -> None:
    """It does not ask whom the event happens to."""
    assert fits(EventRule(name="", concerns=Concern.ANY), event())
    assert fits(EventRule(name="", concerns=Concern.ANY), event(resources=("web-1",)))


def test_a_vm_knows_its_scale_set_name() -> None:
    """A host name stands for the name that events use."""
    assert concerns(event(resources=("vmss_18",)), "vmss00000i")


NEIGHBOURS = tuple(event(f"n{number}", resources=("db-0",)) for number in range(10))
MINE = event("mine")


def ids(document: Document) -> list[str]:
    return [each.id for each in document.events]


def test_a_document_within_the_limit_is_left_as_it_is() -> None:
    """Two thousand events are followed, whoever they concern."""
    whole = Document(1, tuple(event(f"e{number}") for number in range(MOST_EVENTS)))

    assert limit_events(whole, ME, ()) is whole


def test_events_of_this_vm_come_first_then_those_that_are_known() -> None:
    """An event for which something was done must not seem gone because others came before it."""
    document = Document(1, (*NEIGHBOURS, MINE))

    assert ids(limit_events(document, ME, {"n7", "n9"}, most=3)) == ["n7", "n9", "mine"]
    assert ids(limit_events(document, ME, (), most=3)) == ["n0", "n1", "mine"]


def test_the_limit_also_holds_for_events_of_this_vm() -> None:
    """Those that are known stay."""
    document = Document(1, tuple(event(f"e{number}") for number in range(10)))

    assert ids(limit_events(document, ME, {"e8"}, most=2)) == ["e0", "e8"]
