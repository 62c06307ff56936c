"""What came of an approval."""

from datetime import timedelta

import pytest

from forewarn.client.effects import Effect, wait_for_effects
from forewarn.client.errors import NotThere
from forewarn.http.codec import HttpResponse
from tests.client.harness import ID, REFUSED, SessionHarness, document, event, problem

NEXT_ID = "7d346bc9-e500-5f20-9857-fe708ae9c80f"
WAITS = document(1, event(ID))


def test_an_event_that_starts_is_waited_for() -> None:
    """Asking once a second, as Azure recommends."""
    harness = SessionHarness(WAITS, WAITS, document(2, event(ID, "Started")))

    assert harness.play(wait_for_effects(harness.session(), (ID.upper(),), timedelta(minutes=1))) == {
        ID: Effect.STARTED
    }
    assert harness.pauses == [1.0, 1.0]


def test_each_event_has_its_own_effect() -> None:
    """One may be over before the other starts."""
    harness = SessionHarness(document(1, event(ID), event(NEXT_ID)), document(2, event(NEXT_ID, "Started")))

    found = harness.play(wait_for_effects(harness.session(), (ID, NEXT_ID), timedelta(seconds=60)))
    assert found == {ID: Effect.GONE, NEXT_ID: Effect.STARTED}


def test_an_entry_that_cannot_be_read_is_not_gone() -> None:
    """It is there; what became of it is not known yet."""
    harness = SessionHarness(document(1, event(ID, Resources=None)), document(2, event(ID, "Started")))

    assert harness.play(wait_for_effects(harness.session(), (ID,), timedelta(seconds=60))) == {ID: Effect.STARTED}


@pytest.mark.parametrize(
    ("reply", "effect"),
    [(problem(400, "no such event"), Effect.WAITING), (HttpResponse(200, {}), Effect.UNCONFIRMED)],
)
def test_a_service_that_accepts_any_id_is_told_apart(reply: HttpResponse, effect: Effect) -> None:
    """At the limit it is asked to start an event that does not exist: a yes to that makes every yes worthless."""
    harness = SessionHarness(WAITS, WAITS, WAITS, reply, WAITS)

    assert harness.play(wait_for_effects(harness.session(), (ID,), timedelta(seconds=1.5))) == {ID: effect}
    assert harness.pauses == pytest.approx([1.0, 0.5])
    (probe,) = [each.body for each in harness.sent if each.method == "POST"]
    assert ID.encode() not in probe.lower()


def test_trouble_is_waited_out_within_the_limit() -> None:
    """Past it, it is raised."""
    harness = SessionHarness(REFUSED, document(2))
    assert harness.play(wait_for_effects(harness.session(), (ID,), timedelta(seconds=60))) == {ID: Effect.GONE}

    harness = SessionHarness(REFUSED)
    with pytest.raises(NotThere):
        harness.play(wait_for_effects(harness.session(), (ID,), timedelta(seconds=60)))
    assert harness.now <= 1_060
