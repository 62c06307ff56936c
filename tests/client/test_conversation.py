"""What a client says to a service, and what it makes of the answers."""

import logging
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.client.errors import (
    NoAnswer,
    NotAService,
    NotKnown,
    NotPostponed,
    NotReady,
    NotThere,
    UnknownEvent,
    VersionRefused,
)
from forewarn.client.steps import Answer, Silence
from forewarn.core.errors import BadInput, Refused
from forewarn.wire.document import Document
from forewarn.wire.versions import SCHEDULED_EVENTS
from tests.client.stage import (
    ID,
    REFUSED,
    RESET,
    TIMED_OUT,
    Stage,
    document,
    event,
    problem,
    version_problem,
)

NEWEST = "2020-07-01"
HTML = Answer(200, {"content-type": "text/html"}, b"<html>Please log in</html>")
EMPTY = Answer(200, {})
REDIRECT = Answer(302, {"location": "http://elsewhere/"})
GARBAGE = Answer(200, {}, b"\x00\xff garbage")
NEXT_ID = "7d346bc9-e500-5f20-9857-fe708ae9c80f"


def test_the_newest_version_is_asked_with_the_header() -> None:
    """One request is enough where all is well."""
    stage = Stage(document(7))

    assert stage.play(stage.conversation().document()) == Document(7, ())
    assert [each.target for each in stage.sent] == ["/metadata/scheduledevents?api-version=2020-07-01"]


def test_the_first_answer_may_take_two_minutes_and_later_ones_ten_seconds() -> None:
    """Azure switches events on with the first question."""
    stage = Stage(document())
    conversation = stage.conversation()
    stage.play(conversation.document())
    stage.play(conversation.document())

    assert [each.seconds for each in stage.sent] == [125.0, 10.0]


def test_a_service_that_is_older_is_asked_in_an_older_version_from_then_on() -> None:
    """It is stepped down to what it answers, and that is remembered."""
    stage = Stage(problem(400, "BAD REQUEST"), problem(400, "BAD REQUEST"), document(1), document(2))
    conversation = stage.conversation()
    stage.play(conversation.document())
    stage.play(conversation.document())

    assert stage.versions == [NEWEST, "2019-08-01", "2019-04-01", "2019-04-01"]


def test_a_refusal_that_names_versions_saves_steps() -> None:
    """Names that are unknown here are passed over."""
    stage = Stage(version_problem("2026-01-01", "2017-11-01", "2017-08-01"), document())
    stage.play(stage.conversation().document())

    assert stage.versions == [NEWEST, "2017-11-01"]


def test_a_newer_version_is_tried_again_after_an_hour() -> None:
    """A passing 400 must not hide Preempt and Terminate for good."""
    stage = Stage(version_problem("2017-08-01"), document(1), document(2), document(3))
    conversation = stage.conversation()
    stage.play(conversation.document())
    stage.play(conversation.document())
    stage.now += 3_601
    stage.play(conversation.document())

    assert stage.versions == [NEWEST, "2017-08-01", "2017-08-01", NEWEST]


def test_a_service_that_refuses_every_version_is_told_so_at_once() -> None:
    """Each version is asked once; it is no use to wait."""
    stage = Stage(problem(400, "Bad request. A request with an X-Forwarded-For header is not answered"))
    with pytest.raises(Refused, match="X-Forwarded-For"):
        stage.play(stage.conversation().document())

    assert stage.versions == list(reversed(SCHEDULED_EVENTS.names))


def test_a_given_version_is_not_left() -> None:
    """Given by name or in the address; where it is refused, the error names those there are."""
    stage = Stage(version_problem("2020-07-01"))
    for conversation in (
        stage.conversation(api_version="2031-01-01"),
        stage.conversation("http://a/metadata/scheduledevents?api-version=2031-01-01"),
    ):
        with pytest.raises(VersionRefused, match=r"2031-01-01 was asked, there are 2017-03-01, .*2020-07-01"):
            stage.play(conversation.document())
    with pytest.raises(BadInput, match="'a b' is no api-version; write it like 2020-07-01"):
        stage.conversation(api_version="a b")

    assert stage.versions == ["2031-01-01", "2031-01-01"]


def test_the_first_versions_underscores_are_taken_away() -> None:
    """So that an event's resource is the VM's name in every version."""
    shown = document(1, event(Resources=["_web-0", "FrontEnd_IN_0"]))
    old, new = Stage(shown), Stage(shown)

    assert old.play(old.conversation(api_version="2017-03-01").document()).events[0].resources == (
        "web-0",
        "FrontEnd_IN_0",
    )
    assert new.play(new.conversation().document()).events[0].resources == ("_web-0", "FrontEnd_IN_0")


@pytest.mark.parametrize(
    "reply",
    [
        problem(429),
        problem(410),
        problem(500),
        problem(503),
        RESET,
        TIMED_OUT,
        EMPTY,
        HTML,
        REDIRECT,
        GARBAGE,
        REFUSED,
    ],
)
def test_what_passes_is_waited_out(reply: Answer | Silence) -> None:
    """A second question is asked after about a second, and its answer counts."""
    stage = Stage(reply, reply, document(3))
    conversation = stage.conversation(patience=600)

    assert stage.play(conversation.document()) == Document(3, ())
    assert stage.pauses == [1.0, 2.0]
    assert conversation.log.present == ""


@given(st.integers(0, 40), st.floats(0, 1, exclude_max=True))
def test_pauses_grow_and_are_bounded(failures: int, chance: float) -> None:
    """From about a second to about fifteen, never the same for two VMs."""
    stage = Stage(*[problem(503)] * failures, document(), chance=chance)
    stage.play(stage.conversation(patience=10_000).document())

    assert all(0.8 <= pause <= 18 for pause in stage.pauses)
    assert stage.pauses == sorted(stage.pauses)


def test_a_wish_for_a_pause_is_heeded_within_reason() -> None:
    """Retry-After in seconds counts, up to a minute."""
    stage = Stage(problem(429, retry_after="7"), problem(429, retry_after="86400"), problem(429, retry_after="soon"))
    stage.replies.append(document())
    stage.play(stage.conversation(patience=600).document())

    assert stage.pauses == [pytest.approx(7.7), pytest.approx(66), 4.0]


def test_a_service_that_is_updated_for_longer_than_seventy_seconds_is_broken() -> None:
    """Azure promises that 410 lasts no longer."""
    stage = Stage(problem(410))
    with pytest.raises(NotReady, match="answers 410: no"):
        stage.play(stage.conversation().document())

    assert 50 <= sum(stage.pauses) <= 70


@pytest.mark.parametrize(
    ("reply", "error", "said"),
    [
        (problem(503, "Busy"), NotReady, "answers 503: Busy"),
        (RESET, NoAnswer, "broke the connection"),
        (EMPTY, NoAnswer, "with nothing in it"),
        (HTML, NotAService, "a page for people"),
        (Answer(404, {"content-type": "text/html"}, b"<html>"), NotAService, "answers 404 with a page for people"),
        (REDIRECT, NotAService, "points to http://elsewhere/"),
        (GARBAGE, NotAService, "answers something else: the document cannot be read"),
        (problem(404, "Not found"), NotAService, "answers 404: Not found"),
        (Answer(204, {}), NotAService, "answers 204"),
        (Answer(304, {}), NotAService, "answers 304"),
        (REFUSED, NotThere, "cannot be reached"),
        (Silence("does not speak HTTP", garbled=True), NotAService, "does not speak HTTP"),
    ],
)
def test_when_patience_is_over_the_error_says_what_was_in_the_way(
    reply: Answer | Silence, error: type[Exception], said: str
) -> None:
    """In a sentence that names the address."""
    stage = Stage(reply)
    with pytest.raises(error, match=f"http://127.0.0.1:8254/metadata/scheduledevents.* {said}"):
        stage.play(stage.conversation(patience=30).document())

    assert 14 <= sum(stage.pauses) <= 30


def test_a_vm_that_is_not_known_is_told_so_at_once() -> None:
    """Asking again does not help."""
    stage = Stage(problem(403, "Forbidden"))
    with pytest.raises(NotKnown, match=r"this VM may not ask there: .* answers 403: Forbidden"):
        stage.play(stage.conversation().document())

    assert len(stage.sent) == 1


def test_who_is_in_a_hurry_hears_at_once_that_nothing_is_there() -> None:
    """While a service that is there is still waited for."""
    stage = Stage(REFUSED)
    with pytest.raises(NotThere):
        stage.play(stage.conversation(unreachable=0).document())
    busy = Stage(problem(503), document())
    busy.play(busy.conversation(unreachable=0).document())

    assert stage.pauses == []
    assert len(busy.pauses) == 1


def test_trouble_is_logged_once_for_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    """However often it is met; and once that it is over."""
    caplog.set_level(logging.INFO, "forewarn.client")
    stage = Stage(*[problem(503)] * 5, *[RESET] * 5, problem(503), document())
    stage.play(stage.conversation(patience=600).document())

    assert [(record.levelname, record.message.split("scheduledevents ")[-1]) for record in caplog.records] == [
        ("WARNING", "answers 503: no; asking again"),
        ("WARNING", "broke the connection (connection reset by peer); asking again"),
        ("INFO", "the service answers again"),
    ]


def test_an_approval_names_the_events() -> None:
    """In any case, each once; 200 is all that counts. The document tells how the service spells the ids."""
    stage = Stage(document(1, event(ID), event(NEXT_ID)), Answer(200, {}))
    stage.play(stage.conversation().approve((ID.upper(), ID, NEXT_ID)))

    assert [(each.method, each.body) for each in stage.sent] == [
        ("GET", b""),
        (
            "POST",
            b'{"StartRequests":[{"EventId":"%s"},{"EventId":"%s"}]}'
            % (ID.upper().encode(), NEXT_ID.upper().encode()),
        ),
    ]


@pytest.mark.parametrize("shown", [ID, ID.upper(), ID.title(), "Not-A-Guid"])
def test_an_id_goes_back_as_it_was_shown(shown: str) -> None:
    """Some services compare it exactly; however the program spells it, and whether it asked before or not."""
    there = document(1, event(EventId=shown))
    body = b'{"StartRequests":[{"EventId":"%s"}]}' % shown.encode()
    for spelled in (shown, shown.lower(), shown.upper()):
        stage = Stage(there, Answer(200, {}))
        stage.play(stage.conversation().approve((spelled,)))
        assert stage.sent[-1].body == body
    stage = Stage(there, Answer(200, {}))
    conversation = stage.conversation()
    seen = stage.play(conversation.document()).events[0]
    for wanted in (seen, seen.id):
        stage.play(conversation.approve((wanted,)))
    assert [each.body for each in stage.sent] == [b"", body, body]
    stage = Stage(there, Answer(200, {}), there)
    with pytest.raises(NotPostponed, match=f"event {shown} is not"):
        stage.play(stage.conversation().postpone(seen.id, timedelta(minutes=1), ""))


def test_an_event_of_another_client_goes_back_as_it_was_shown() -> None:
    """It carries its spelling, so that no question is needed."""
    stage = Stage(document(1, event(EventId=ID)), Answer(200, {}))
    seen = stage.play(stage.conversation().document()).events[0]
    stage.play(stage.conversation().approve((seen,)))

    assert [each.body for each in stage.sent] == [b"", b'{"StartRequests":[{"EventId":"%s"}]}' % ID.encode()]


def test_an_id_that_is_not_shown_goes_out_as_it_is_given() -> None:
    """The api-version may hide its type."""
    stage = Stage(document(1), Answer(200, {}))
    stage.play(stage.conversation().approve(("Elsewhere",)))

    assert stage.sent[-1].body == b'{"StartRequests":[{"EventId":"Elsewhere"}]}'


def test_approving_nothing_asks_nothing() -> None:
    """There is nothing to say."""
    stage = Stage(document())
    stage.play(stage.conversation().approve(()))

    assert stage.sent == []


def test_an_approval_is_repeated_until_it_is_heard() -> None:
    """It means the same twice."""
    stage = Stage(document(1, event(ID)), RESET, problem(503), Answer(200, {}))
    stage.play(stage.conversation().approve((ID,)))

    assert [each.method for each in stage.sent] == ["GET", *["POST"] * 3]


@pytest.mark.parametrize("status", [201, 202, 204, 304])
def test_only_200_is_a_yes(status: int) -> None:
    """Whatever else answers is no service that started anything."""
    stage = Stage(Answer(status, {}))
    with pytest.raises(NotAService, match=f"answers {status}"):
        stage.play(stage.conversation(patience=5).approve((ID,)))


def test_approving_what_is_gone_names_it() -> None:
    """The document tells which of the events it was."""
    stage = Stage(document(2, event(ID), event(NEXT_ID)), problem(400, "no such event"), document(3, event(ID)))
    with pytest.raises(UnknownEvent, match=NEXT_ID.upper()) as raised:
        stage.play(stage.conversation().approve((ID, NEXT_ID)))

    assert raised.value.events == (NEXT_ID,)


def test_an_approval_refused_for_another_reason_says_that() -> None:
    """The event is there."""
    there = document(3, event(ID))
    stage = Stage(there, problem(400, "Something else"), there)
    with pytest.raises(Refused, match="Something else"):
        stage.play(stage.conversation().approve((ID,)))


def test_an_approval_before_any_question_agrees_on_the_version_too() -> None:
    """A 400 may be about the version."""
    stage = Stage(problem(400), document(1, event(ID)), Answer(200, {}))
    stage.play(stage.conversation().approve((ID,)))

    assert [(each.method, version) for each, version in zip(stage.sent, stage.versions, strict=True)] == [
        ("GET", NEWEST),
        ("GET", "2019-08-01"),
        ("POST", "2019-08-01"),
    ]


def test_more_time_is_asked_for_and_looked_for() -> None:
    """The event's NotBefore must have moved."""
    later = event(ID, NotBefore="Mon, 16 Nov 2026 13:42:15 GMT")
    stage = Stage(document(1, event(ID)), Answer(200, {}), document(2, later))
    stage.play(stage.conversation().postpone(ID, timedelta(minutes=10), "backup"))

    assert b'"PostponeRequests":[{"EventId":"%s","Seconds":600,"Reason":"backup"}]' % ID.upper().encode() in (
        stage.sent[1].body
    )


@pytest.mark.parametrize(
    ("reply", "after"),
    [
        (Answer(200, {}), event(ID)),
        (problem(400, "no StartRequests"), event(ID)),
        (Answer(200, {}), event(ID, "Started")),
    ],
)
def test_a_service_that_gives_no_time_is_not_believed(reply: Answer, after: dict[str, object]) -> None:
    """Azure knows nothing of it: it refuses, or says yes to an empty list."""
    stage = Stage(document(1, event(ID)), reply, document(1, after))
    with pytest.raises(NotPostponed, match=f"event {ID.upper()} is not postponed"):
        stage.play(stage.conversation().postpone(ID, timedelta(minutes=10), ""))


def test_more_time_for_what_is_gone_says_that() -> None:
    """Before anything is asked."""
    stage = Stage(document())
    with pytest.raises(UnknownEvent, match=ID):
        stage.play(stage.conversation().postpone(ID, timedelta(minutes=10), ""))


def test_the_service_tells_a_vms_name_once() -> None:
    """In a version of the instance document that every service knows."""
    stage = Stage(Answer(200, {}, b"web-0\n"))
    conversation = stage.conversation()

    assert [stage.play(conversation.own_name()) for _ in range(2)] == ["web-0", "web-0"]
    assert not conversation.is_name_guessed
    assert [each.target for each in stage.sent] == [
        "/metadata/instance/compute/name?api-version=2017-08-01&format=text"
    ]


@pytest.mark.parametrize(
    "reply", [problem(404), problem(400), HTML, EMPTY, Answer(200, {}, b"{}"), Answer(200, {}, b"\xff\x00")]
)
def test_where_the_name_is_not_told_the_host_name_is_looked_for_among_events(reply: Answer) -> None:
    """As a mock does not tell it; where no event names it, the host name will do."""
    for shown, name in ((["vmss_18", "vmss_19"], "vmss_18"), (["web-0"], "vmss00000i")):
        stage = Stage(reply, document(1, event(Resources=shown)))
        stage.found = "vmss00000i.internal.example.org"

        conversation = stage.conversation()
        assert stage.play(conversation.own_name()) == name
        assert conversation.is_name_guessed


def test_whether_a_service_holds_questions_is_seen_by_asking_one() -> None:
    """Held and answered, held for good, and not held."""
    for second, holds in (
        (Answer(304, {"preference-applied": "wait"}), True),
        (TIMED_OUT, True),
        (Answer(304, {}), False),
        (problem(429), False),
    ):
        stage = Stage(document(1, tag='"a-1"'), second)

        assert stage.play(stage.conversation().does_hold()) is holds
        assert ("Prefer", "wait=1") in stage.sent[1].headers
    assert not (stage := Stage(document(1))).play(stage.conversation().does_hold())
