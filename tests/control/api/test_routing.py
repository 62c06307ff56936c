"""Which methods a path has is said in full, to OPTIONS and with a refusal."""

import re

import pytest

from tests.control.api.document import DOCUMENT
from tests.harness import ApiHarness

PATHS = {
    **{
        path: {method.upper() for method in item if method != "parameters"}
        for path, item in DOCUMENT["paths"].items()
    },
    "/": {"GET"},
    "/api": {"GET"},
    "/login": {"GET", "POST"},
    "/openapi.json": {"GET"},
}


@pytest.mark.end_to_end
@pytest.mark.parametrize("path", PATHS)
def test_options_and_405_name_every_method_that_a_path_has(harness: ApiHarness, path: str) -> None:
    """With and without a token, in one order."""
    at = re.sub(r"{\w+}", "x", path)
    allowed = ", ".join(sorted({*PATHS[path], "OPTIONS"}))
    said = [harness.ask("OPTIONS", at), harness.ask("OPTIONS", at, token=""), harness.ask("PUT", at)]

    assert [answer.status for answer in said] == [204, 204, 405]
    assert {answer.headers["allow"] for answer in said} == {allowed}


def test_a_path_that_leads_nowhere_has_no_methods(harness: ApiHarness) -> None:
    """OPTIONS is 404 there, like everything else."""
    assert harness.ask("OPTIONS", "/v1/nothing").status == 404
