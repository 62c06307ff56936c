"""The OpenAPI document of the endpoint says what the wire says."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from forewarn.conformance.openapi import describe
from forewarn.metadata import request
from forewarn.wire import approval, error_responses
from forewarn.wire.versions import API_VERSIONS, SCHEDULED_EVENTS
from tests.wire.samples import golden

DOCUMENT = describe()


def schema(name: str) -> Draft202012Validator:
    whole = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    return Draft202012Validator(whole)


def references(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for each in part:
            yield from references(each)
    elif isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        for each in part.values():
            yield from references(each)


@pytest.mark.parametrize("version", [each.name for each in API_VERSIONS])
def test_a_document_is_as_its_version_is_described(version: str) -> None:
    """The golden bytes of a version are valid."""
    assert schema(f"Document-{version}").is_valid(json.loads(golden(version)))


def test_a_document_of_another_version_is_not() -> None:
    """An older one lacks fields; one with newer types shows what an older has not."""
    assert not schema("Document-2020-07-01").is_valid(json.loads(golden("2019-08-01")))
    assert not schema("Document-2017-08-01").is_valid(json.loads(golden("2020-07-01")))


def test_approvals_and_refusals_are_as_described() -> None:
    """What our own codec writes is valid, what it refuses is not."""
    assert schema("Approval").is_valid(json.loads(approval.encode(["x"])))
    assert not schema("Approval").is_valid({})
    assert schema("Refusal").is_valid(json.loads(error_responses.GONE.body))
    assert schema("Refusal").is_valid(json.loads(error_responses.version_invalid(SCHEDULED_EVENTS.newest).body))


def test_every_route_and_method_is_described() -> None:
    """And no other; HEAD is GET's."""
    routes = [each for each in vars(request).values() if isinstance(each, request.MetadataRoute) and each.path]
    served = {(each.path, method.decode().lower()) for each in routes for method in each.methods if method != b"HEAD"}
    methods = ("get", "post", "put", "delete", "patch")

    assert {(path, key) for path, item in DOCUMENT["paths"].items() for key in item if key in methods} == served


def test_every_reference_leads_somewhere() -> None:
    """Nothing is named that is not described."""
    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}

    assert set(references(DOCUMENT)) <= known
    assert DOCUMENT["openapi"].startswith("3.1.")
