"""An office whose API the tests of this folder speak to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.office import Office, opened


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave alone what only a long run needs: to think out its requests takes seconds, before any is sent."""
    return True if collection_path.name == "test_schema.py" and config.option.markexpr == "not end_to_end" else None


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with opened(tmp_path) as office:
        yield office
