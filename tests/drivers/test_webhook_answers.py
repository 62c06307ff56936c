"""What a webhook's answer means, to a message and to a question."""

from datetime import timedelta

import pytest

from forewarn.drivers.webhook_answers import Answer, Unclear, of_perform, of_question, outcome_of
from forewarn.node.driver import Done, Failed, NotBegun, Outcome, Underway, Unknowable
from forewarn.posting import Reply
from tests.drivers.impacts import NOW

VMS = ("web-0", "web-1")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer("done", {"web-0": "h2"}, "moved"), Done({"web-0": "h2"}, "moved")),
        (Answer("failed", {"web-0": "h2"}, "no room for web-1"), Failed("no room for web-1", {"web-0": "h2"})),
        (Answer("failed"), Failed("the receiver says that it failed")),
        (Answer(), Underway(NOW + timedelta(seconds=5))),
        (Answer("underway", check_after=0), Underway(NOW + timedelta(seconds=1))),
        (Answer("underway", detail="half-way"), Underway(NOW + timedelta(seconds=5), "half-way")),
        (Answer("not-begun"), NotBegun()),
        (Answer("unknown"), Unknowable("the receiver does not know")),
    ],
)
def test_each_word_stands_for_an_outcome(answer: Answer, outcome: Outcome) -> None:
    """Hosts are told also of what failed for some."""
    assert outcome_of(answer, VMS, NOW) == outcome


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_some_answers_are_worth_another_try(status: int) -> None:
    """For the time that the receiver asks for."""
    assert of_perform(Reply(status, body=b"later", wait=7), VMS, NOW) == Unclear(f"answer {status}: later", 7)


def test_what_was_taken_and_not_begun_has_failed() -> None:
    """A receiver that takes a message begins, or says why not."""
    assert isinstance(of_perform(Reply(200, body=b'{"outcome": "not-begun"}'), VMS, NOW), Failed)


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_question_that_is_not_answered_ends_nothing(status: int) -> None:
    """Whoever cannot tell has said nothing of the machines."""
    assert isinstance(of_question(Reply(status), VMS, NOW), Unclear)


def test_an_answer_that_is_not_utf_8_ends_nothing() -> None:
    """The receiver took the message; it is asked again what became of it."""
    assert isinstance(of_perform(Reply(200, body=b'{"detail": "\xff"}'), VMS, NOW), Unclear)


def test_words_are_kept_short_and_on_one_line() -> None:
    """What goes into the journal is fit for it."""
    told = outcome_of(Answer("failed", detail="a\n\tb\x1b[31m" + "x" * 1000), VMS, NOW)

    assert isinstance(told, Failed)
    assert told.reason.startswith("a b [31mxxx")
    assert len(told.reason) == 500
