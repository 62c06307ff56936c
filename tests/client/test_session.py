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
from forewarn.client.steps import NoResponse
from forewarn.core.errors import BadInput, ForewarnError, Refused
from forewarn.http.codec import HttpResponse
from forewarn.wire.document import Document
from forewarn.wire.versions import SCHEDULED_EVENTS
from tests.client.harness import (
    ID,
    REFUSED,
    RESET,
    TIMED_OUT,
    SessionHarness,
    document,
    event,
    problem,
    version_problem,
)

NEWEST = "2020-07-01"
HTML = HttpResponse(200, {"content-type": "text/html"}, b"<html>Please log in</html>")
EMPTY = HttpResponse(200, {})
REDIRECT = HttpResponse(302, {"location": "http://elsewhere/"})
GARBAGE = HttpResponse(200, {}, b"\x00\xff garbage")
NEXT_ID = "7d346bc9-e500-5f20-9857-fe708ae9c80f"


def test_the_newest_version_is_asked_with_the_header() -> None:
    """One request is enough where all is well."""
    harness = SessionHarness(document(7))

    assert harness.play(harness.session().document()) == Document(7, ())
    assert [each.target for each in harness.sent] == ["/metadata/scheduledevents?api-version=2020-07-01"]


def test_the_first_answer_may_take_two_minutes_and_later_ones_ten_seconds() -> None:
    """Azure switches events on with the first question."""
    harness = SessionHarness(document())
    session = harness.session()
    harness.play(session.document())
    harness.play(session.document())

    assert [each.seconds for each in harness.sent] == [125.0, 10.0]


def test_a_service_that_is_older_is_asked_in_an_older_version_from_then_on() -> None:
    """It is stepped down to what it answers, and that is remembered."""
    harness = SessionHarness(problem(400, "BAD REQUEST"), problem(400, "BAD REQUEST"), document(1), document(2))
    session = harness.session()
    harness.play(session.document())
    harness.play(session.document())

    assert harness.versions == [NEWEST, "2019-08-01", "2019-04-01", "2019-04-01"]


def test_a_refusal_that_names_versions_saves_steps() -> None:
    """Names that are unknown here are passed over."""
    harness = SessionHarness(version_problem("2026-01-01", "2017-11-01", "2017-08-01"), document())
    harness.play(harness.session().document())

    assert harness.versions == [NEWEST, "2017-11-01"]


def test_a_newer_version_is_tried_again_after_an_hour() -> None:
    """A passing 400 must not hide Preempt and Terminate for good."""
    harness = SessionHarness(version_problem("2017-08-01"), document(1), document(2), document(3))
    session = harness.session()
    harness.play(session.document())
    harness.play(session.document())
    harness.now += 3_601
    harness.play(session.document())

    assert harness.versions == [NEWEST, "2017-08-01", "2017-08-01", NEWEST]


def test_a_service_that_refuses_every_version_is_told_so_at_once() -> None:
    """Each version is asked once; it is no use to wait."""
    harness = SessionHarness(problem(400, "Bad request. A request with an X-Forwarded-For header is not answered"))
    with pytest.raises(Refused, match="X-Forwarded-For"):
        harness.play(harness.session().document())

    assert harness.versions == list(reversed(SCHEDULED_EVENTS.names))


def test_a_given_version_is_not_left() -> None:
    """Given by name or in the address; where it is refused, the error names those there are."""
    harness = SessionHarness(version_problem("2020-07-01"))
    for session in (
        harness.session(api_version="2031-01-01"),
        harness.session("http://a/metadata/scheduledevents?api-version=2031-01-01"),
    ):
        with pytest.raises(VersionRefused, match=r"2031-01-01 was asked, there are 2017-03-01, .*2020-07-01"):
            harness.play(session.document())
    with pytest.raises(BadInput, match="'a b' is not an api-version; write it like 2020-07-01"):
        harness.session(api_version="a b")

    assert harness.versions == ["2031-01-01", "2031-01-01"]


def test_the_first_versions_underscores_are_taken_away() -> None:
    """So that an event's resource is the VM's name in every version."""
    shown = document(1, event(Resources=["_web-0", "FrontEnd_IN_0"]))
    old, new = SessionHarness(shown), SessionHarness(shown)

    assert old.play(old.session(api_version="2017-03-01").document()).events[0].resources == (
        "web-0",
        "FrontEnd_IN_0",
    )
    assert new.play(new.session().document()).events[0].resources == ("_web-0", "FrontEnd_IN_0")


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
def test_what_passes_is_waited_out(reply: HttpResponse | NoResponse) -> None:
    """A second question is asked after about a second, and its answer counts."""
    harness = SessionHarness(reply, reply, document(3))
    session = harness.session(patience=600)

    assert harness.play(session.document()) == Document(3, ())
    assert harness.pauses == [1.0, 2.0]
    assert session.log.present == ""


@given(st.integers(0, 40), st.floats(0, 1, exclude_max=True))
def test_pauses_grow_and_are_bounded(failures: int, chance: float) -> None:
    """From about a second to about fifteen, never the same for two VMs."""
    harness = SessionHarness(*[problem(503)] * failures, document(), chance=chance)
    harness.play(harness.session(patience=10_000).document())

    assert all(0.8 <= pause <= 18 for pause in harness.pauses)
    assert harness.pauses == sorted(harness.pauses)


def test_a_wish_for_a_pause_is_heeded_within_reason() -> None:
    """Retry-After in seconds counts, up to a minute."""
    harness = SessionHarness(
        problem(429, retry_after="7"), problem(429, retry_after="86400"), problem(429, retry_after="soon")
    )
    harness.replies.append(document())
    harness.play(harness.session(patience=600).document())

    assert harness.pauses == [pytest.approx(7.7), pytest.approx(66), 4.0]


def test_a_service_that_is_updated_for_longer_than_seventy_seconds_is_broken() -> None:
    """Azure promises that 410 lasts no longer."""
    harness = SessionHarness(problem(410))
    with pytest.raises(NotReady, match="answers 410: no"):
        harness.play(harness.session().document())

    assert 50 <= sum(harness.pauses) <= 70


@pytest.mark.parametrize(
    ("reply", "error", "said"),
    [
        (problem(503, "Busy"), NotReady, "answers 503: Busy"),
        (RESET, NoAnswer, "broke the connection"),
        (EMPTY, NoAnswer, "with nothing in it"),
        (HTML, NotAService, "a page for people"),
        (
            HttpResponse(404, {"content-type": "text/html"}, b"<html>"),
            NotAService,
            "answers 404 with a page for people",
        ),
        (REDIRECT, NotAService, "points to http://elsewhere/"),
        (GARBAGE, NotAService, "answers something else: the document cannot be read"),
        (problem(404, "Not found"), NotAService, "answers 404: Not found"),
        (HttpResponse(204, {}), NotAService, "answers 204"),
        (HttpResponse(304, {}), NotAService, "answers 304"),
        (REFUSED, NotThere, "cannot be reached"),
        (NoResponse("does not speak HTTP", garbled=True), NotAService, "does not speak HTTP"),
    ],
)
def test_when_patience_is_over_the_error_says_what_was_in_the_way(
    reply: HttpResponse | NoResponse, error: type[Exception], said: str
) -> None:
    """In a sentence that names the address."""
    harness = SessionHarness(reply)
    with pytest.raises(error, match=f"http://127.0.0.1:8254/metadata/scheduledevents.* {said}"):
        harness.play(harness.session(patience=30).document())

    assert 14 <= sum(harness.pauses) <= 30


def test_a_vm_that_is_not_known_is_told_so_at_once() -> None:
    """Asking again does not help."""
    harness = SessionHarness(problem(403, "Forbidden"))
    with pytest.raises(NotKnown, match=r"this VM may not ask there: .* answers 403: Forbidden"):
        harness.play(harness.session().document())

    assert len(harness.sent) == 1


def test_who_is_in_a_hurry_hears_at_once_that_nothing_is_there() -> None:
    """While a service that is there is still waited for."""
    harness = SessionHarness(REFUSED)
    with pytest.raises(NotThere):
        harness.play(harness.session(unreachable=0).document())
    busy = SessionHarness(problem(503), document())
    busy.play(busy.session(unreachable=0).document())

    assert harness.pauses == []
    assert len(busy.pauses) == 1


def test_trouble_is_logged_once_for_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    """However often it is met; and once that it is over."""
    caplog.set_level(logging.INFO, "forewarn.client")
    harness = SessionHarness(*[problem(503)] * 5, *[RESET] * 5, problem(503), document())
    harness.play(harness.session(patience=600).document())

    assert [(record.levelname, record.message.split("scheduledevents ")[-1]) for record in caplog.records] == [
        ("WARNING", "answers 503: no; asking again"),
        ("WARNING", "broke the connection (connection reset by peer); asking again"),
        ("INFO", "the service answers again"),
    ]


def test_an_approval_names_the_events() -> None:
    """In any case, each once; 200 is all that counts. The document tells how the service spells the ids."""
    harness = SessionHarness(document(1, event(ID), event(NEXT_ID)), HttpResponse(200, {}))
    harness.play(harness.session().approve((ID.upper(), ID, NEXT_ID)))

    assert [(each.method, each.body) for each in harness.sent] == [
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
        harness = SessionHarness(there, HttpResponse(200, {}))
        harness.play(harness.session().approve((spelled,)))
        assert harness.sent[-1].body == body
    harness = SessionHarness(there, HttpResponse(200, {}))
    session = harness.session()
    seen = harness.play(session.document()).events[0]
    for wanted in (seen, seen.id):
        harness.play(session.approve((wanted,)))
    assert [each.body for each in harness.sent] == [b"", body, body]
    harness = SessionHarness(there, HttpResponse(200, {}), there)
    with pytest.raises(NotPostponed, match=f"event {shown} is not"):
        harness.play(harness.session().postpone(seen.id, timedelta(minutes=1), ""))


def test_an_event_of_another_client_goes_back_as_it_was_shown() -> None:
    """It carries its spelling, so that no question is needed."""
    harness = SessionHarness(document(1, event(EventId=ID)), HttpResponse(200, {}))
    seen = harness.play(harness.session().document()).events[0]
    harness.play(harness.session().approve((seen,)))

    assert [each.body for each in harness.sent] == [b"", b'{"StartRequests":[{"EventId":"%s"}]}' % ID.encode()]


def test_an_id_that_is_not_shown_goes_out_as_it_is_given() -> None:
    """The api-version may hide its type."""
    harness = SessionHarness(document(1), HttpResponse(200, {}))
    harness.play(harness.session().approve(("Elsewhere",)))

    assert harness.sent[-1].body == b'{"StartRequests":[{"EventId":"Elsewhere"}]}'


def test_approving_nothing_asks_nothing() -> None:
    """There is nothing to say."""
    harness = SessionHarness(document())
    harness.play(harness.session().approve(()))

    assert harness.sent == []


def test_an_approval_is_repeated_until_it_is_heard() -> None:
    """It means the same twice."""
    harness = SessionHarness(document(1, event(ID)), RESET, problem(503), HttpResponse(200, {}))
    harness.play(harness.session().approve((ID,)))

    assert [each.method for each in harness.sent] == ["GET", *["POST"] * 3]


@pytest.mark.parametrize("status", [201, 202, 204, 304])
def test_only_200_is_a_yes(status: int) -> None:
    """Whatever else answers is no service that started anything."""
    harness = SessionHarness(HttpResponse(status, {}))
    with pytest.raises(NotAService, match=f"answers {status}"):
        harness.play(harness.session(patience=5).approve((ID,)))


def test_approving_what_is_gone_names_it() -> None:
    """The document tells which of the events it was."""
    harness = SessionHarness(
        document(2, event(ID), event(NEXT_ID)), problem(400, "no such event"), document(3, event(ID))
    )
    with pytest.raises(UnknownEvent, match=NEXT_ID.upper()) as raised:
        harness.play(harness.session().approve((ID, NEXT_ID)))

    assert raised.value.events == (NEXT_ID,)


def test_an_approval_refused_for_another_reason_says_that() -> None:
    """The event is there."""
    there = document(3, event(ID))
    harness = SessionHarness(there, problem(400, "Something else"), there)
    with pytest.raises(Refused, match="Something else"):
        harness.play(harness.session().approve((ID,)))


def test_an_approval_before_any_question_agrees_on_the_version_too() -> None:
    """A 400 may be about the version."""
    harness = SessionHarness(problem(400), document(1, event(ID)), HttpResponse(200, {}))
    harness.play(harness.session().approve((ID,)))

    assert [(each.method, version) for each, version in zip(harness.sent, harness.versions, strict=True)] == [
        ("GET", NEWEST),
        ("GET", "2019-08-01"),
        ("POST", "2019-08-01"),
    ]


def test_more_time_is_asked_for_and_looked_for() -> None:
    """The event's NotBefore must have moved."""
    later = event(ID, NotBefore="Mon, 16 Nov 2026 13:42:15 GMT")
    harness = SessionHarness(document(1, event(ID)), HttpResponse(200, {}), document(2, later))
    harness.play(harness.session().postpone(ID, timedelta(minutes=10), "backup"))

    assert b'"PostponeRequests":[{"EventId":"%s","Seconds":600,"Reason":"backup"}]' % ID.upper().encode() in (
        harness.sent[1].body
    )


@pytest.mark.parametrize(
    ("reply", "after"),
    [
        (HttpResponse(200, {}), event(ID)),
        (problem(400, "no StartRequests"), event(ID)),
        (HttpResponse(200, {}), event(ID, "Started")),
    ],
)
def test_a_service_that_gives_no_time_is_not_believed(reply: HttpResponse, after: dict[str, object]) -> None:
    """Azure knows nothing of it: it refuses, or says yes to an empty list."""
    harness = SessionHarness(document(1, event(ID)), reply, document(1, after))
    with pytest.raises(NotPostponed, match=f"event {ID.upper()} is not postponed"):
        harness.play(harness.session().postpone(ID, timedelta(minutes=10), ""))


def test_more_time_for_what_is_gone_says_that() -> None:
    """Before anything is asked."""
    harness = SessionHarness(document())
    with pytest.raises(UnknownEvent, match=ID):
        harness.play(harness.session().postpone(ID, timedelta(minutes=10), ""))


def test_the_service_tells_a_vms_name_once() -> None:
    """In a version of the instance document that every service knows."""
    harness = SessionHarness(HttpResponse(200, {}, b"web-0\n"))
    session = harness.session()

    assert [harness.play(session.own_name()) for _ in range(2)] == ["web-0", "web-0"]
    assert not session.is_name_guessed
    assert [each.target for each in harness.sent] == [
        "/metadata/instance/compute/name?api-version=2017-08-01&format=text"
    ]


@pytest.mark.parametrize(
    "reply",
    [problem(404), problem(400), HTML, EMPTY, HttpResponse(200, {}, b"{}"), HttpResponse(200, {}, b"\xff\x00")],
)
def test_where_the_name_is_not_told_the_host_name_is_looked_for_among_events(reply: HttpResponse) -> None:
    """As a mock does not tell it; where no event names it, the host name will do."""
    for shown, name in ((["vmss_18", "vmss_19"], "vmss_18"), (["web-0"], "vmss00000i")):
        harness = SessionHarness(reply, document(1, event(Resources=shown)))
        harness.found = "vmss00000i.internal.example.org"

        session = harness.session()
        assert harness.play(session.own_name()) == name
        assert session.is_name_guessed


@pytest.mark.parametrize("status", [403, 410, 429, 500, 503])
def test_a_name_that_is_refused_for_now_is_not_guessed(status: int) -> None:
    """The service knows it, and may tell it later."""
    harness = SessionHarness(problem(status))

    with pytest.raises(ForewarnError, match=str(status)):
        harness.play(harness.session().own_name())


def test_a_name_has_up_to_256_characters() -> None:
    """A longer text is something else."""
    longest = "x" * 256
    harness = SessionHarness(HttpResponse(200, {}, longest.encode()))

    assert harness.play(harness.session().own_name()) == longest


def test_whether_a_service_holds_questions_is_seen_by_asking_one() -> None:
    """Held and answered, held for good, and not held."""
    for second, holds in (
        (HttpResponse(304, {"preference-applied": "wait"}), True),
        (TIMED_OUT, True),
        (HttpResponse(304, {}), False),
        (problem(429), False),
    ):
        harness = SessionHarness(document(1, tag='"a-1"'), second)

        assert harness.play(harness.session().does_hold()) is holds
        assert ("Prefer", "wait=1") in harness.sent[1].headers
    assert not (harness := SessionHarness(document(1))).play(harness.session().does_hold())
