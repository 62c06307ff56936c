"""What still fits before an event begins."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from forewarn.agent.decision.plan import SPARE, HandlerTerms, deadline, fitting, time_left
from tests.agent.harness import START

NAMES = ("a", "b", "c", "d", "e")
STAGES = (("a",), ("b", "c"), ("d",), ("e",))
seconds = st.integers(0, 120).map(lambda number: timedelta(seconds=number))
terms_of_all = st.fixed_dictionaries(
    {name: st.builds(HandlerTerms, takes=seconds, importance=st.integers(0, 3)) for name in NAMES}
)


def length(terms: dict[str, HandlerTerms], chosen: frozenset[str]) -> timedelta:
    total = timedelta(0)
    for stage in STAGES:
        total += max((terms[name].takes for name in stage if name in chosen), default=timedelta(0))
    return total


@given(terms=terms_of_all, left=seconds)
def test_what_is_chosen_fits_and_what_is_not_would_not(terms: dict[str, HandlerTerms], left: timedelta) -> None:
    """Nobody is left out who could still be added to those at least as important."""
    chosen = fitting(STAGES, terms, left)

    assert length(terms, chosen) <= left
    for name in set(NAMES) - chosen:
        better = frozenset(each for each in chosen if terms[each].importance >= terms[name].importance)
        assert not left or length(terms, better | {name}) > left or length(terms, chosen | {name}) > left


@given(terms=terms_of_all, left=seconds.filter(bool))
def test_the_most_important_that_fits_alone_is_always_chosen(terms: dict[str, HandlerTerms], left: timedelta) -> None:
    """The first in order of importance finds its place before anybody else."""
    able = [name for name in NAMES if terms[name].takes <= left]
    if able:
        first = min(able, key=lambda name: (-terms[name].importance, NAMES.index(name)))

        assert first in fitting(STAGES, terms, left)


def test_without_time_nobody_fits() -> None:
    """Not even who does not say how long it takes."""
    assert fitting(STAGES, dict.fromkeys(NAMES, HandlerTerms()), timedelta(0)) == frozenset()


def test_who_does_not_say_how_long_it_takes_always_fits() -> None:
    """It is tried as long as any time is left."""
    assert fitting(STAGES, dict.fromkeys(NAMES, HandlerTerms()), timedelta(seconds=1)) == set(NAMES)


@given(terms=terms_of_all, left=seconds.filter(bool))
def test_a_deadline_is_never_past_not_before(terms: dict[str, HandlerTerms], left: timedelta) -> None:
    """Each that was chosen gets at least what it takes, at most its timeout, and ends before the event begins."""
    not_before = START + left + SPARE
    chosen = fitting(STAGES, terms, time_left(not_before, START))
    for name in chosen & {"a"}:
        at = deadline(name, STAGES[1:], terms, chosen, not_before, START)

        assert START + min(terms[name].takes, terms[name].timeout) <= at <= not_before - SPARE


def test_without_not_before_the_timeout_is_the_deadline() -> None:
    """An event that has started has no time to be ready by."""
    assert deadline("a", (), {"a": HandlerTerms()}, frozenset("a"), None, START) == START + timedelta(seconds=60)


def test_some_time_is_kept_free_for_the_approval() -> None:
    """What is left ends a little before NotBefore; without NotBefore it has no end."""
    assert time_left(START + timedelta(seconds=10), START) == timedelta(seconds=10) - SPARE
    assert time_left(None, START) > timedelta(days=365)
