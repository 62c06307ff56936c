"""An office whose API the tests of this folder speak to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.office import Office, opened


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with opened(tmp_path) as office:
        yield office
