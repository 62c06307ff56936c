"""Where the service is, when nobody says so."""

import pytest

from forewarn.client import discovery
from forewarn.client.discovery import Found, Source, find
from forewarn.client.errors import NotFound
from forewarn.client.places import Place
from forewarn.client.steps import Answer, Silence
from forewarn.core.errors import BadInput
from tests.client.stage import REFUSED, RESET, TIMED_OUT, Stage, document, problem, version_problem

HTML = Answer(200, {"content-type": "text/html"}, b"<html>")
LINK_LOCAL = Place("169.254.169.254")


def sources(*addresses: str) -> tuple[Source, ...]:
    return (Source("a lease", "no lease names one", lambda: addresses),)


def looked_for(stage: Stage, environment: dict[str, str] | None = None, *addresses: str) -> Found:
    stage.found = addresses
    return stage.play(find(environment or {}, 125.0, lambda: sources(*addresses)))


def test_the_environments_url_is_believed() -> None:
    """Without a question."""
    stage = Stage(REFUSED)

    assert looked_for(stage, {"SCHEDULED_EVENTS_URL": "http://127.0.0.1:1/metadata/scheduledevents"}) == Found(
        Place("127.0.0.1", 1), "the environment (SCHEDULED_EVENTS_URL)", is_discovered=False
    )
    assert stage.sent == []


def test_the_environments_address_is_tried_first_on_both_ports() -> None:
    """Azure's samples use 80 in one language and 8080 in another; a port that is given is the only one."""
    stage = Stage(REFUSED, document())

    assert looked_for(stage, {"SCHEDULEDEVENTSIP": "168.63.129.16"}).place == Place("168.63.129.16", 8080)
    assert [each.place for each in stage.sent] == [Place("168.63.129.16"), Place("168.63.129.16", 8080)]
    given = Stage(REFUSED, document())
    assert looked_for(given, {"SCHEDULEDEVENTSIP": "10.0.0.1:99"}).place == LINK_LOCAL


@pytest.mark.parametrize(
    "reply",
    [
        document(),
        version_problem("2017-08-01"),
        problem(400),
        problem(403),
        problem(410),
        problem(429),
        problem(500),
        Answer(503, {}),
        TIMED_OUT,
    ],
)
def test_what_answers_like_a_service_is_one(reply: Answer | Silence) -> None:
    """Ready or not; also one that takes two minutes for its first answer."""
    stage = Stage(reply)

    assert looked_for(stage) == Found(LINK_LOCAL, "its usual address")
    assert stage.sent[0].seconds == 125.0


@pytest.mark.parametrize(
    "reply",
    [REFUSED, RESET, HTML, problem(404), Answer(302, {}), Answer(200, {}, b"{}"), Answer(200, {}, b"hello"),
     Answer(500, {"content-type": "text/html"}), Answer(403, {}, b"no")],
)  # fmt: skip
def test_what_does_not_is_passed_over(reply: Answer | Silence) -> None:
    """The next place is asked: here one that a lease names."""
    stage = Stage(reply, document())

    assert looked_for(stage, {}, "168.63.129.16") == Found(Place("168.63.129.16"), "a lease")


def test_when_nothing_is_found_all_that_was_tried_is_named() -> None:
    """With what was seen there, and what to do."""
    stage = Stage(REFUSED, problem(404), HTML, REFUSED)
    with pytest.raises(NotFound) as raised:
        looked_for(stage, {"SCHEDULEDEVENTSIP": "10.0.0.1"}, "10.0.0.2")

    assert str(raised.value) == (
        "no Scheduled Events service was found: http://10.0.0.1 cannot be reached (connection refused); "
        "http://10.0.0.1:8080 answers 404; http://169.254.169.254 answers with no document; "
        "http://10.0.0.2 cannot be reached (connection refused); "
        "http://10.0.0.2:8080 cannot be reached (connection refused). Give its address: "
        "--url on the command line, Client(url) in Python, or SCHEDULED_EVENTS_URL in the environment"
    )


def test_a_place_that_names_nothing_says_so() -> None:
    """Nobody is asked in vain."""
    stage = Stage(REFUSED)
    with pytest.raises(NotFound, match=r"; no lease names one\. Give"):
        looked_for(stage)


@pytest.mark.parametrize(("platform", "is_looked_at"), [("win32", True), ("linux", False)])
def test_the_registry_is_spoken_of_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
    platform: str,
    is_looked_at: bool,  # noqa: FBT001 - a case
) -> None:
    """Elsewhere nobody would know what is meant."""
    monkeypatch.setattr("sys.platform", platform)

    assert ("the registry" in [source.how for source in discovery._sources()]) is is_looked_at


def test_a_wrong_address_in_the_environment_is_refused() -> None:
    """Rather than passed over in silence."""
    with pytest.raises(BadInput, match="'https://a' is no address"):
        looked_for(Stage(REFUSED), {"SCHEDULED_EVENTS_URL": "https://a"})
