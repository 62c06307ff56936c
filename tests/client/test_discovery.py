"""Where the service is, when nobody says so."""

import pytest

from forewarn.client import discovery
from forewarn.client.discovery import AddressSource, FoundEndpoint, find_endpoint
from forewarn.client.endpoint_url import EndpointUrl
from forewarn.client.errors import NotFound
from forewarn.client.steps import NoResponse
from forewarn.core.errors import BadInput
from forewarn.http.codec import HttpResponse
from tests.client.harness import REFUSED, RESET, TIMED_OUT, SessionHarness, document, problem, version_problem

HTML = HttpResponse(200, {"content-type": "text/html"}, b"<html>")
LINK_LOCAL = EndpointUrl("169.254.169.254")


def sources(*addresses: str) -> tuple[AddressSource, ...]:
    return (AddressSource("a lease", "no lease names one", lambda: addresses),)


def looked_for(harness: SessionHarness, environment: dict[str, str] | None = None, *addresses: str) -> FoundEndpoint:
    harness.found = addresses
    return harness.play(find_endpoint(environment or {}, 125.0, lambda: sources(*addresses)))


def test_the_environments_url_is_believed() -> None:
    """Without a question."""
    harness = SessionHarness(REFUSED)

    assert looked_for(
        harness, {"SCHEDULED_EVENTS_URL": "http://127.0.0.1:1/metadata/scheduledevents"}
    ) == FoundEndpoint(EndpointUrl("127.0.0.1", 1), "the environment (SCHEDULED_EVENTS_URL)", is_discovered=False)
    assert harness.sent == []


def test_the_environments_address_is_tried_first_on_both_ports() -> None:
    """Azure's samples use 80 in one language and 8080 in another; a port that is given is the only one."""
    harness = SessionHarness(REFUSED, document())

    assert looked_for(harness, {"SCHEDULEDEVENTSIP": "168.63.129.16"}).endpoint == EndpointUrl("168.63.129.16", 8080)
    assert [each.endpoint for each in harness.sent] == [
        EndpointUrl("168.63.129.16"),
        EndpointUrl("168.63.129.16", 8080),
    ]
    given = SessionHarness(REFUSED, document())
    assert looked_for(given, {"SCHEDULEDEVENTSIP": "10.0.0.1:99"}).endpoint == LINK_LOCAL


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
        HttpResponse(503, {}),
        TIMED_OUT,
    ],
)
def test_what_answers_like_a_service_is_one(reply: HttpResponse | NoResponse) -> None:
    """Ready or not; also one that takes two minutes for its first answer."""
    harness = SessionHarness(reply)

    assert looked_for(harness) == FoundEndpoint(LINK_LOCAL, "its usual address")
    assert harness.sent[0].seconds == 125.0


@pytest.mark.parametrize(
    "reply",
    [REFUSED, RESET, HTML, problem(404), HttpResponse(302, {}), HttpResponse(200, {}, b"{}"),
     HttpResponse(200, {}, b"hello"), HttpResponse(500, {"content-type": "text/html"}), HttpResponse(403, {}, b"no")],
)  # fmt: skip
def test_what_does_not_is_passed_over(reply: HttpResponse | NoResponse) -> None:
    """The next place is asked: here one that a lease names."""
    harness = SessionHarness(reply, document())

    assert looked_for(harness, {}, "168.63.129.16") == FoundEndpoint(EndpointUrl("168.63.129.16"), "a lease")


def test_when_nothing_is_found_all_that_was_tried_is_named() -> None:
    """With what was seen there, and what to do."""
    harness = SessionHarness(REFUSED, problem(404), HTML, REFUSED)
    with pytest.raises(NotFound) as raised:
        looked_for(harness, {"SCHEDULEDEVENTSIP": "10.0.0.1"}, "10.0.0.2")

    assert str(raised.value) == (
        "no Scheduled Events service was found: http://10.0.0.1 cannot be reached (connection refused); "
        "http://10.0.0.1:8080 answers 404; http://169.254.169.254 answers with no document; "
        "http://10.0.0.2 cannot be reached (connection refused); "
        "http://10.0.0.2:8080 cannot be reached (connection refused). Give its address: "
        "--url on the command line, Client(url) in Python, or SCHEDULED_EVENTS_URL in the environment"
    )


def test_a_place_that_names_nothing_says_so() -> None:
    """Nobody is asked in vain."""
    harness = SessionHarness(REFUSED)
    with pytest.raises(NotFound, match=r"; no lease names one\. Give"):
        looked_for(harness)


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
    with pytest.raises(BadInput, match="'https://a' is not a valid"):
        looked_for(SessionHarness(REFUSED), {"SCHEDULED_EVENTS_URL": "https://a"})
