"""What the tests of the libvirt driver share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.hypervisor import Hypervisor
from tests.drivers.libvirt.machines import Machines


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    machines = Machines(tmp_path)
    yield machines
    machines.close()


@pytest.fixture(scope="session")
def embedded() -> Iterator[Hypervisor]:
    """One for the whole process: libvirt opens no second one of another place in it."""
    hypervisor = Hypervisor()
    yield hypervisor
    hypervisor.close()


@pytest.fixture
def hypervisor(embedded: Hypervisor) -> Iterator[Hypervisor]:
    yield embedded
    embedded.close_drivers()


@pytest.fixture(scope="session")
def site() -> Iterator[Daemons]:
    """Two daemons for the whole process, for they take seconds to start."""
    site = Daemons()
    yield site
    site.close()


@pytest.fixture
def daemons(site: Daemons) -> Iterator[Daemons]:
    yield site
    site.clear()
