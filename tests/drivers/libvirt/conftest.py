"""What the tests of the libvirt driver share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.libvirt.machines import Machines


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    machines = Machines(tmp_path)
    yield machines
    machines.close()
