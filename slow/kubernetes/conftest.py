"""One API server for all tests here, with the shipped manifests applied; a node for each."""

import subprocess
from collections.abc import Iterator

import pytest

from slow.kubernetes.cluster import ROOT, Cluster, NodeUnderTest, new_name, running_cluster
from slow.kubernetes.manifests import MANIFESTS, apply


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = subprocess.run(
        [ROOT / "tools" / "kube-apiserver"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    with running_cluster(program, tmp_path_factory.mktemp("cluster")) as cluster:
        for manifest in ("rbac.yaml", "config.yaml", "daemonset.yaml"):
            apply(cluster, (MANIFESTS / manifest).read_text())
        yield cluster


@pytest.fixture
def node(cluster: Cluster) -> NodeUnderTest:
    return cluster.add_node(new_name())
