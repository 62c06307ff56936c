"""What callers are told when a request fails."""

from typing import Any

from forewarn.control.problems import PREFIX
from tests.harness import ApiHarness


def test_an_unforeseen_error_is_a_problem_of_its_own_type(harness: ApiHarness) -> None:
    """It says where to look, and nothing of the error itself."""

    async def fail(*_: Any) -> Any:
        raise RuntimeError("secret")

    harness.context.names.after = fail  # type: ignore[method-assign, assignment]  # it is to fail
    said = harness.ask("GET", "/v1/hosts")

    assert (said.status, said.json["type"]) == (500, f"{PREFIX}failed")
    assert said.json["detail"] == "internal error; see the log of the service"
    assert b"secret" not in said.body
