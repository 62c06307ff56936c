"""What answers mean that are not the one hoped for."""

import pytest

from forewarn.client.endpoint_problem import is_service_like, problem_of_response
from forewarn.http.codec import HttpResponse

HTML = {"content-type": "text/html"}
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("said", "has_remedy"), [("the name is not among allowed_hosts", False), ("this VM is not known", True)]
)
def test_a_refused_vm_is_told_what_to_do(said: str, *, has_remedy: bool) -> None:
    """Where the name of the service is refused, the answer itself says it."""
    problem = problem_of_response("http://h", HttpResponse(403, JSON, b'{"error":"%b"}' % said.encode()))

    assert ("have it added to the fleet" in str(problem.error)) is has_remedy


@pytest.mark.parametrize("status", [410, 429, 500, 503])
def test_a_service_that_is_not_ready_says_when_it_will_be(status: int) -> None:
    """It is not asked again before that."""
    problem = problem_of_response("http://h", HttpResponse(status, JSON | {"retry-after": "7"}, b"{}"))

    assert problem.retry_after == 7.0


@pytest.mark.parametrize("status", [410, 429, 500])
def test_a_page_for_people_is_from_no_service(status: int) -> None:
    """A proxy or another server answers there."""
    assert is_service_like(HttpResponse(status, JSON, b"{}"))
    assert not is_service_like(HttpResponse(status, HTML, b"<html></html>"))


def test_an_answer_that_is_nested_too_deeply_is_from_no_service() -> None:
    """Reading it must not end the search for one."""
    assert not is_service_like(HttpResponse(200, JSON, b"[" * 100_000))
