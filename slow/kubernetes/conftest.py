"""One API server for all tests here, with the shipped manifests applied; a node for each."""

import subprocess
from collections.abc import Iterator

import pytest

from slow.kubernetes.cluster import ROOT, Cluster, NodeUnderTest, new_name
from slow.kubernetes.manifests import MANIFESTS, apply
from slow.kubernetes.server import Server, running_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    program = subprocess.run(
        [ROOT / "tools" / "kube-apiserver"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    with running_server(program, tmp_path_factory.mktemp("server")) as server:
        for manifest in ("rbac.yaml", "config.yaml", "daemonset.yaml"):
            apply(server.cluster, (MANIFESTS / manifest).read_text())
        yield server


@pytest.fixture
def cluster(server: Server) -> Cluster:
    return server.cluster


@pytest.fixture
def node(cluster: Cluster) -> NodeUnderTest:
    return cluster.add_node(new_name())
