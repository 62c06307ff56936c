"""Schemathesis against the API, by its own document: whatever is sent, the answer is one that it tells of."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from tests.control.api.document import DOCUMENT as API_DOCUMENT
from tests.harness import ApiHarness, open_harness

pytestmark = pytest.mark.end_to_end  # thorough, and slow for it

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]
DOCUMENT = deepcopy(API_DOCUMENT)
# It sends JSON; that a change in lines is read the same way is held in test_fleet.py.
del DOCUMENT["paths"]["/v1/fleet"]["patch"]["requestBody"]["content"]["application/jsonl"]
schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(path="/v1/changes")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApiHarness, str]]:
    with open_harness(tmp_path_factory.mktemp("control")) as harness:
        yield harness, harness.token("ada")


@schema.parametrize()
@settings(
    max_examples=8,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_one_that_the_document_tells_of(case: Case[Any], service: tuple[ApiHarness, str]) -> None:
    """Never a server error, and what cannot be understood is refused."""
    harness, token = service
    answer: Any = case.call(
        base_url=f"http://127.0.0.1:{harness.control_plane.port}", headers={"Authorization": f"Bearer {token}"}
    )
    case.validate_response(answer, checks=CHECKS)
