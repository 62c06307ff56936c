"""What an answer that is no success means, in one sentence."""

import ssl

import msgspec
import pytest

from forewarn.agent.handlers.kubernetes import errors
from forewarn.agent.handlers.kubernetes.errors import error_of_failure, error_of_response
from forewarn.core.errors import ForewarnError

URL = "https://10.0.0.1:6443"


def status(message: str, **details: object) -> bytes:
    return msgspec.json.encode({"kind": "Status", "message": message, "details": details})


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        (401, errors.ApiUnauthorized),
        (403, errors.ApiBlocked),
        (404, errors.ObjectMissing),
        (409, errors.ObjectConflict),
        (429, errors.ApiUnable),
        (400, errors.ApiBadRequest),
        (422, errors.ApiBadRequest),
        (500, errors.ApiUnable),
        (503, errors.ApiUnable),
        (302, errors.ApiUnable),
    ],
)
def test_the_code_says_what_follows(code: int, trouble: type[ForewarnError]) -> None:
    """Each code has its class; a 403 for want of no right is a rule of the cluster, a 429 without a budget a rush."""
    assert type(error_of_response(code, status("no"), URL)) is trouble


@pytest.mark.parametrize(
    ("scope", "sentence"),
    [
        (
            'resource "nodes/status" in API group "" at the cluster scope',
            'bob may not patch nodes/status; add the verb "patch" on "nodes/status" (API group "") to its role',
        ),
        (
            'resource "jobs" in API group "batch" in the namespace "shop"',
            'bob may not patch jobs; add the verb "patch" on "jobs" (API group "batch") to its role',
        ),
    ],
)
def test_a_missing_right_is_told_as_what_to_add(scope: str, sentence: str) -> None:
    """User, verb, resource and API group are in the sentence."""
    answer = error_of_response(403, status(f'x is forbidden: User "bob" cannot patch {scope}'), URL)

    assert isinstance(answer, errors.ApiForbidden)
    assert str(answer) == sentence


def test_the_budget_in_the_way_is_named() -> None:
    """Which budget forbids an eviction stands in the details, and is what is told."""
    cause = {"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods and has 2"}

    answer = error_of_response(429, status("Cannot evict pod.", causes=[cause]), URL)

    assert isinstance(answer, errors.ApiBlocked)
    assert str(answer) == cause["message"]


def test_a_web_server_that_is_no_api_server_knows_nothing() -> None:
    """A page that is not found does not mean that a node is gone, or its cordon would stay for good."""
    assert type(error_of_response(404, b"<html>not found</html>", URL)) is errors.ApiUnable


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"message": 3}', status("two\nlines")])
def test_any_body_makes_one_line(body: bytes) -> None:
    """A proxy's page, nothing at all or a message of several lines: the sentence is one line and names the server."""
    said = str(error_of_response(503, body, URL))

    assert URL in said
    assert "\n" not in said


def test_what_kept_the_answer_from_coming_is_told() -> None:
    """No way, no TLS and a certificate nobody vouches for are three different sentences, all worth asking again."""
    refused = error_of_failure(ConnectionRefusedError(111, "Connection refused"), URL)
    no_tls = error_of_failure(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), URL)
    unknown = error_of_failure(ssl.SSLCertVerificationError(1, "self-signed certificate"), URL)

    assert str(refused) == f"the API server {URL} does not answer: Connection refused"
    assert "no TLS" in str(no_tls)
    assert "'ca_file'" in str(unknown)
    assert all(isinstance(each, errors.ApiUnreachable) for each in (refused, no_tls, unknown))
