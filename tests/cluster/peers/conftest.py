"""The authorities that the tests of peers use; making one takes longer than a test."""

import pytest

from tests.cluster.peers.authority import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of the cluster; it has certified the node n1."""
    made = Authority(tmp_path_factory.mktemp("cluster") / "authority")
    made.certify("n1")
    return made


@pytest.fixture(scope="session")
def foreign_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Another authority, which has certified a node of the same name."""
    made = Authority(tmp_path_factory.mktemp("foreign") / "authority")
    made.certify("n1")
    return made
