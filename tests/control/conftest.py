"""A control plane that answers, for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.control.client import ControlClient
from tests.harness import ApiHarness, open_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ApiHarness]:
    with open_harness(tmp_path) as harness:
        yield harness


@pytest.fixture
def client(harness: ApiHarness) -> Iterator[ControlClient]:
    with ControlClient.local(harness.directory) as client:
        yield client
