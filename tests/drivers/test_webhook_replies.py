"""What a webhook's answer means, to a message and to a question."""

from datetime import timedelta

import pytest

from forewarn.drivers.webhook_replies import (
    UnclearReply,
    WebhookReply,
    outcome_of,
    read_outcome_reply,
    read_perform_reply,
)
from forewarn.http.web_requests import WebResponse
from forewarn.node.driver import (
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
)
from tests.drivers.impacts import NOW

VMS = ("web-0", "web-1")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (WebhookReply("done", {"web-0": "h2"}, "moved"), ImpactDone({"web-0": "h2"}, "moved")),
        (
            WebhookReply("failed", {"web-0": "h2"}, "no room for web-1"),
            ImpactFailed("no room for web-1", {"web-0": "h2"}),
        ),
        (WebhookReply("failed"), ImpactFailed("the receiver reported a failure")),
        (WebhookReply(), ImpactUnderway(NOW + timedelta(seconds=5))),
        (WebhookReply("underway", check_after=0), ImpactUnderway(NOW + timedelta(seconds=1))),
        (WebhookReply("underway", detail="half-way"), ImpactUnderway(NOW + timedelta(seconds=5), "half-way")),
        (WebhookReply("not-begun"), ImpactNotBegun()),
        (WebhookReply("unknown"), ImpactUnknown("the receiver does not know")),
    ],
)
def test_each_word_stands_for_an_outcome(answer: WebhookReply, outcome: ImpactOutcome) -> None:
    """Hosts are told also of what failed for some."""
    assert outcome_of(answer, VMS, NOW) == outcome


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_some_answers_are_worth_another_try(status: int) -> None:
    """For the time that the receiver asks for."""
    assert read_perform_reply(WebResponse(status, body=b"later", wait=7), VMS, NOW) == UnclearReply(
        f"answer {status}: later", 7
    )


def test_what_was_taken_and_not_begun_has_failed() -> None:
    """A receiver that takes a message begins, or says why not."""
    assert isinstance(read_perform_reply(WebResponse(200, body=b'{"outcome": "not-begun"}'), VMS, NOW), ImpactFailed)


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_question_that_is_not_answered_ends_nothing(status: int) -> None:
    """A reply that cannot tell the outcome says nothing about the machines."""
    assert isinstance(read_outcome_reply(WebResponse(status), VMS, NOW), UnclearReply)


def test_an_answer_that_is_not_utf_8_ends_nothing() -> None:
    """The receiver took the message; it is asked again what became of it."""
    assert isinstance(read_perform_reply(WebResponse(200, body=b'{"detail": "\xff"}'), VMS, NOW), UnclearReply)


def test_words_are_kept_short_and_on_one_line() -> None:
    """What goes into the journal is fit for it."""
    result = outcome_of(WebhookReply("failed", detail="a\n\tb\x1b[31m" + "x" * 1000), VMS, NOW)

    assert isinstance(result, ImpactFailed)
    assert result.reason.startswith("a b [31mxxx")
    assert len(result.reason) == 500
