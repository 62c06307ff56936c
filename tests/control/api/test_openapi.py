"""What the document of the API says."""

from tests.control.api.document import DOCUMENT


def test_a_change_of_the_fleet_is_sent_as_json_or_in_lines() -> None:
    """No route declares its body, which is read as a stream."""
    body = DOCUMENT["paths"]["/v1/fleet"]["patch"]["requestBody"]

    assert body["required"] is True
    assert body["content"]["application/json"]["schema"]["$ref"].endswith("/FleetBody")
    assert body["content"]["application/jsonl"] == {"schema": {"type": "string"}}
