"""An office that answers, for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.control.client import Client
from tests.office import Office, opened


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with opened(tmp_path) as office:
        yield office


@pytest.fixture
def client(office: Office) -> Iterator[Client]:
    with Client.local(office.directory) as client:
        yield client
