"""The service that the conformance tests ask."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.harness import ServiceHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ServiceHarness]:
    """Yield a running service whose groups are all switched on."""
    with ServiceHarness(tmp_path) as harness:
        harness.enrol()
        yield harness


@pytest.fixture
def fresh_harness(tmp_path: Path) -> Iterator[ServiceHarness]:
    """Yield a running service that nobody has asked yet."""
    with ServiceHarness(tmp_path) as harness:
        yield harness
