"""What earlier versions recorded, and copies of it that a test may open."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility import views
from tests.compatibility.write import RECORDED
from tests.harness import ApiHarness


@pytest.fixture(scope="session", params=sorted(path.name for path in RECORDED.glob("[0-9]*")))
def recorded(request: pytest.FixtureRequest) -> Path:
    """Return what a version left; nothing in it may be opened for writing."""
    return RECORDED / str(request.param)


@pytest.fixture
def data(recorded: Path, tmp_path: Path) -> Path:
    """Return a copy of the data directory that a version left."""
    return shutil.copytree(recorded / "journal", tmp_path / "data")


@pytest.fixture(scope="module")
def harness(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiHarness]:
    """Return a service that runs on a copy of the data directory."""
    place = tmp_path_factory.mktemp("service")
    with views.opened(place, shutil.copytree(recorded / "journal", place / "data")) as harness:
        yield harness
