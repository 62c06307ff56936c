"""What the document of the API says."""

import pytest

from forewarn.control.api.openapi import operations_of
from tests.control.api.document import DOCUMENT

OPERATIONS = [(path, method) for path, method, _ in operations_of(DOCUMENT)]


def test_a_change_of_the_fleet_is_sent_as_json_or_in_lines() -> None:
    """No route declares its body, which is read as a stream."""
    body = DOCUMENT["paths"]["/v1/fleet"]["patch"]["requestBody"]

    assert body["required"] is True
    assert body["content"]["application/json"]["schema"]["$ref"].endswith("/FleetBody")
    assert body["content"]["application/jsonl"] == {"schema": {"type": "string"}}


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_route_with_a_role_tells_how_callers_are_refused(path: str, method: str) -> None:
    """Without a token, without the permission, and after too many requests; others ask for no token."""
    operation = DOCUMENT["paths"][path][method]

    assert ({"401", "403", "429"} <= operation["responses"].keys()) is bool(operation["x-roles"])
