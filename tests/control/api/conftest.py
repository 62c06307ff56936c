"""A control plane whose API the tests of this folder speak to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import ApiHarness, open_harness


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave alone what only a long run needs: to think out its requests takes seconds, before any is sent."""
    return True if collection_path.name == "test_schema.py" and config.option.markexpr == "not end_to_end" else None


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ApiHarness]:
    with open_harness(tmp_path) as harness:
        yield harness
