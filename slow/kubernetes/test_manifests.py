"""What is shipped for Kubernetes is what the handler needs, and no more."""

from pathlib import Path

import pytest

from forewarn.agent.handlers.kubernetes.handler import KubernetesHandler
from forewarn.agent.settings import load
from slow.kubernetes.calls import do, handler_for
from slow.kubernetes.cluster import Cluster, NodeUnderTest
from slow.kubernetes.manifests import PATHS

pytestmark = pytest.mark.end_to_end


def test_the_shipped_configuration_is_read_by_the_agent(cluster: Cluster, tmp_path: Path) -> None:
    """The agent.toml in the ConfigMap is one that the agent starts with."""
    text = cluster.ask("GET", f"{PATHS['ConfigMap']}/forewarn-agent")["data"]["agent.toml"]
    (tmp_path / "agent.toml").write_text(text)
    settings = load({}, {}, tmp_path / "agent.toml")

    assert [rule.name for rule in settings.rules] == ["short freezes pass", "drain the node"]
    KubernetesHandler.from_settings(settings.handlers["node"].settings, Path("unused"))


def test_the_shipped_rights_are_exactly_those_used(cluster: Cluster, node: NodeUnderTest) -> None:
    """Every verb of the shipped roles was used by the calls of these tests, and none was missing."""
    node.add_pod("web")
    do(handler_for(node, on_deadline="force"), seconds=5)
    do(handler_for(node, node="nowhere"))
    roles = [cluster.ask("GET", f"{PATHS[kind]}/forewarn-agent")["rules"] for kind in ("ClusterRole", "Role")]
    granted = {
        (resource, verb)
        for rules in roles
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    assert cluster.verbs_used() == granted
