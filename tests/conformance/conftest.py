"""The service that the conformance tests ask."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.cloud import Cloud


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    """Yield a running service whose groups are all switched on."""
    with Cloud(tmp_path) as cloud:
        cloud.enrol()
        yield cloud


@pytest.fixture
def fresh_cloud(tmp_path: Path) -> Iterator[Cloud]:
    """Yield a running service that nobody has asked yet."""
    with Cloud(tmp_path) as cloud:
        yield cloud
