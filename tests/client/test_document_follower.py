"""Following the document: each that differs, by long poll where the service offers it."""

import logging
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.client.document_follower import DocumentFollower
from forewarn.client.steps import GLANCE, NoResponse, Pause, SendRequest
from forewarn.http.codec import HttpResponse
from forewarn.wire.document import Document
from tests.client.harness import (
    REFUSED,
    RESET,
    TIMED_OUT,
    SessionHarness,
    document,
    event,
    problem,
    unchanged,
    version_problem,
)


def follow(harness: SessionHarness, *, url: str | None = "http://127.0.0.1") -> DocumentFollower:
    return DocumentFollower(harness.session(url))


def test_the_present_document_comes_first_then_each_that_differs() -> None:
    """The same again is passed over, whatever its incarnation did before."""
    harness = SessionHarness(document(1), document(1), document(2), document(2), document(1), document(9))
    following = follow(harness)

    assert [harness.play(following.next()).incarnation for _ in range(4)] == [1, 2, 1, 9]


def test_a_service_that_does_not_wait_is_asked_once_a_second() -> None:
    """More or less a fifth, so that VMs do not ask in step."""
    for chance, pause in ((0.0, 0.8), (0.5, 1.0), (1.0, 1.2)):
        harness = SessionHarness(document(1), document(1), document(1), document(2), chance=chance)
        following = follow(harness)
        harness.play(following.next())
        harness.play(following.next())

        assert harness.pauses == [pytest.approx(pause)] * 3
        assert not following.is_held


def test_a_service_that_waits_is_asked_again_at_once() -> None:
    """With the tag, for 55 seconds, and with time for them."""
    harness = SessionHarness(
        document(1, tag='"g-1"'), document(2, tag='"g-2"', held=True), document(3, tag='"g-3"', held=True)
    )
    following = follow(harness)
    for _ in range(3):
        harness.play(following.next())
        harness.now += 30  # whoever follows has something else to do meanwhile

    assert harness.pauses == []
    assert following.is_held
    assert [each.headers for each in harness.sent] == [
        (),
        (("If-None-Match", '"g-1"'), ("Prefer", "wait=55")),
        (("If-None-Match", '"g-2"'), ("Prefer", "wait=55")),
    ]
    assert [each.seconds for each in harness.sent] == [125.0, 65.0, 65.0]


def test_a_service_that_knows_tags_but_does_not_wait_is_polled() -> None:
    """Azure's own sample expects 304; it is then not asked to wait again for an hour."""
    harness = SessionHarness(document(1, tag="1"), unchanged(), unchanged(), unchanged(), document(2))
    following = follow(harness)
    harness.play(following.next())
    harness.play(following.next())

    assert [any(name == "Prefer" for name, _ in each.headers) for each in harness.sent] == [
        False,
        True,
        False,
        False,
        False,
    ]
    assert harness.pauses == pytest.approx([0.2, 1.0, 1.0, 1.0])
    assert [each.seconds for each in harness.sent] == [125.0, 65.0, 10.0, 10.0, 10.0]


def test_news_that_come_at_once_do_not_prove_that_a_service_does_not_wait() -> None:
    """The document changed between two questions, so there was nothing to wait for."""
    harness = SessionHarness(document(1, tag="1"), document(2, tag="2"), document(3, tag="3", held=True))
    following = follow(harness)
    for _ in range(3):
        harness.play(following.next())

    assert [any(name == "Prefer" for name, _ in each.headers) for each in harness.sent] == [False, True, True]
    assert following.is_held


@given(st.lists(st.sampled_from(["same", "not modified", "news"]), min_size=5, max_size=40))
def test_a_service_that_says_it_waited_and_did_not_makes_nobody_spin(answers: list[str]) -> None:
    """Never more than five questions a second, as Azure allows; and one a second while nothing changes."""
    replies = [document(0, tag="0")]
    for number, answer in enumerate(answers, 1):
        replies.append(
            {
                "same": replies[-1] if replies[-1].status == 200 else document(number, tag="x", held=True),
                "not modified": unchanged("x", held=True),
                "news": document(number, tag=str(number), held=True),
            }[answer]
        )
    harness = SessionHarness(*replies, document(10_000))
    following = follow(harness)
    while harness.play(following.next()).incarnation != 10_000:
        pass

    gaps = [after - before for before, after in pairwise(harness.asked_at)]
    assert all(gap >= 0.199 for gap in gaps)
    assert all(gap >= 0.8 for gap, answer in zip(gaps[1:], answers, strict=False) if answer == "not modified")


def test_an_answer_to_another_question_ends_the_pause_of_who_follows() -> None:
    """After an outage events are followed as soon as the service is said to answer again."""
    harness = SessionHarness(REFUSED)
    session = harness.session()
    steps = DocumentFollower(session).next()
    assert isinstance(next(steps), SendRequest)
    pause = steps.send(REFUSED)

    assert isinstance(pause, Pause)
    slices = pause.slices(lambda: harness.now)
    assert next(slices) == GLANCE
    harness.replies.append(document(1))
    harness.play(session.document())
    assert list(slices) == []
    assert isinstance(steps.send(None), SendRequest)


def test_an_answer_to_who_follows_ends_the_pause_of_another_question() -> None:
    """An approval is not late because the service was away."""
    harness = SessionHarness(document(1))
    session = harness.session()
    steps = session.document()
    assert isinstance(next(steps), SendRequest)
    pause = steps.send(REFUSED)
    harness.play(DocumentFollower(session).next())

    assert isinstance(pause, Pause)
    assert list(pause.slices(lambda: harness.now)) == []


@pytest.mark.parametrize(
    "reply",
    [
        problem(400),
        problem(403),
        problem(404),
        problem(410),
        problem(429),
        problem(500),
        RESET,
        TIMED_OUT,
        REFUSED,
        NoResponse("does not speak HTTP", garbled=True),
        HttpResponse(200, {}),
        HttpResponse(200, {}, b"<html>"),
        HttpResponse(200, {}, b"[" * 100_000),
        HttpResponse(301, {}),
        version_problem(),
    ],
)
def test_whatever_is_in_the_way_is_waited_out_and_logged_once(
    reply: HttpResponse | NoResponse, caplog: pytest.LogCaptureFixture
) -> None:
    """For hours if need be; who follows sees nothing of it unless the document differs."""
    caplog.set_level(logging.INFO, "forewarn.client")
    harness = SessionHarness(document(1), *[reply] * 700, document(1), document(2))
    following = follow(harness)
    harness.play(following.next())

    assert harness.play(following.next()) == Document(2, ())
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert max(harness.pauses) <= 18


def test_a_service_that_is_well_and_ill_by_turns_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """The same trouble within a minute is no news."""
    caplog.set_level(logging.INFO, "forewarn.client")
    harness = SessionHarness(document(1), *[problem(500), document(1)] * 100, document(2))
    following = follow(harness)
    harness.play(following.next())
    harness.play(following.next())

    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_trouble_long_after_the_last_is_news_again(caplog: pytest.LogCaptureFixture) -> None:
    """A minute without any is long."""
    caplog.set_level(logging.WARNING)
    harness = SessionHarness(document(1), problem(500), document(2), *[document(2)] * 70, problem(500), document(3))
    following = follow(harness)
    for _ in range(3):
        harness.play(following.next())

    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_the_present_trouble_can_be_read() -> None:
    """Until it is over."""
    harness = SessionHarness(problem(503, "Busy"))
    session = harness.session()
    steps = DocumentFollower(session).next()
    next(steps)
    steps.send(harness.replies[0])

    assert session.log.present.endswith("answers 503: Busy")
    harness.replies[0] = document(1)
    harness.play(steps)
    assert session.log.present == ""


def test_a_tag_counts_in_its_own_version_only() -> None:
    """Another version shows the same incarnation otherwise."""
    harness = SessionHarness(version_problem("2017-08-01"), document(1, tag="1"), document(1, event(), tag="1"))
    following = follow(harness)
    harness.play(following.next())
    harness.now += 3_601

    harness.play(following.next())
    assert harness.versions == ["2020-07-01", "2017-08-01", "2020-07-01"]
    assert harness.sent[-1].headers == ()


def test_a_service_that_is_not_there_yet_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent may start before the network does."""
    harness = SessionHarness(REFUSED, document(1))
    monkeypatch.setattr("forewarn.client.discovery._sources", tuple)
    following = follow(harness, url=None)

    assert harness.play(following.next()) == Document(1, ())
    assert {each.endpoint.host for each in harness.sent} == {"169.254.169.254"}


def test_a_service_that_is_found_nowhere_is_looked_for_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a minute in the end: looking may disturb a network."""
    harness = SessionHarness(*[REFUSED] * 8, document(1))
    monkeypatch.setattr("forewarn.client.discovery._sources", tuple)
    harness.play(follow(harness, url=None).next())

    assert harness.pauses[:5] == pytest.approx([1, 2, 4, 8, 15])
    assert harness.pauses[5:] == pytest.approx([66] * 3)


def test_a_service_that_was_discovered_and_is_gone_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A VM may be moved to another network; one whose address was given is waited for."""
    monkeypatch.setattr("forewarn.client.discovery._sources", tuple)
    for url in (None, "http://169.254.169.254"):
        harness = SessionHarness(document(1), document(1), *[REFUSED] * 7, document(2))
        session = harness.session(url)
        following = DocumentFollower(session)
        harness.play(following.next())
        found = session.found
        harness.play(following.next())

        assert (session.found is found) == (url is not None)


def test_an_event_that_cannot_be_read_is_logged_once_and_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged again only after it was gone; an event that was read before stays as it was."""
    caplog.set_level(logging.INFO, "forewarn.client")
    good, bad = event("b"), event("a", NotBefore="TBD")
    harness = SessionHarness(document(1, event("a"), good), document(2, bad, good), document(3, bad), document(4))
    following = follow(harness)

    seen = [harness.play(following.next()) for _ in range(4)]

    assert [[each.id for each in shown.events] for shown in seen] == [["a", "b"], ["b", "a"], ["a"], []]
    assert caplog.messages == [
        "the entry of event A cannot be read and is ignored: NotBefore is not a valid time: 'TBD'"
    ]


def test_a_document_full_of_unreadable_events_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """Ten are named, the rest is counted."""
    caplog.set_level(logging.INFO, "forewarn.client")
    harness = SessionHarness(document(1, *(event(f"e{number}", Resources=None) for number in range(2_000))))

    assert harness.play(follow(harness).next()).events == ()
    assert len(caplog.messages) == 11
    assert caplog.messages[-1] == "1990 more entries cannot be read and are ignored"


def test_different_troubles_are_each_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Also two of one kind, and by turns; one does not hide the other."""
    caplog.set_level(logging.INFO, "forewarn.client")
    troubles: list[HttpResponse | NoResponse] = [problem(500, "no disk"), problem(500, "no memory"), REFUSED] * 3
    harness = SessionHarness(document(1), *troubles, document(2))
    following = follow(harness)
    harness.play(following.next())
    harness.play(following.next())

    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 3
    assert [sum(word in each for each in warned) for word in ("no disk", "no memory", "refused")] == [1, 1, 1]


def test_troubles_without_end_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """After ten different ones the log says that it names no further ones."""
    caplog.set_level(logging.INFO, "forewarn.client")
    harness = SessionHarness(document(1), *(problem(500, f"error {number}") for number in range(50)), document(2))
    following = follow(harness)
    harness.play(following.next())
    harness.play(following.next())

    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 11
    assert warned[-1].endswith("; asking again, and further troubles are not logged")
