"""How the handler gets in: rights, tokens, certificates, and the name of its node."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.agent.handlers.kubernetes.handler import KubernetesHandler
from slow.kubernetes.calls import detail, do, handler_for, reason, settings_for, task, undo
from slow.kubernetes.cluster import AGENT, NOBODY, Cluster, NodeUnderTest, new_name
from slow.kubernetes.manifests import PATHS
from slow.kubernetes.server import openssl

pytestmark = pytest.mark.end_to_end


def test_a_missing_right_is_named(node: NodeUnderTest) -> None:
    """What an account may not do is told by verb and resource, and nothing is tried again."""
    answer = do(handler_for(node, NOBODY))

    assert reason(answer) == ('nobody may not get nodes; add the verb "get" on "nodes" (API group "") to its role')
    assert isinstance(answer, HandlerFailed)
    assert answer.final


def test_what_cannot_be_shown_keeps_nothing_from_being_done(node: NodeUnderTest) -> None:
    """Without the rights for condition and events the node is drained all the same, and both are told."""
    path = PATHS["ClusterRole"]
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    ]
    subject = {"kind": "User", "name": "nobody"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "silent"}
    node.cluster.ask("POST", path, {"metadata": {"name": "silent"}, "rules": rules})
    binding = {"metadata": {"name": "silent"}, "roleRef": role, "subjects": [subject]}
    node.cluster.ask("POST", PATHS["ClusterRoleBinding"], binding)
    node.add_pod("web")
    try:
        while not may(node.cluster, NOBODY, "list", "pods"):
            pass
        with node.kubelet():
            said = detail(do(handler_for(node, NOBODY)))
    finally:
        node.cluster.ask("DELETE", f"{PATHS['ClusterRoleBinding']}/silent")

    assert 'add the verb "patch" on "nodes/status"' in said
    assert 'add the verb "create" on "events"' in said
    assert node.pods() == set()


def test_a_token_that_is_not_accepted_is_told(node: NodeUnderTest) -> None:
    """A wrong token is a sentence about the token."""
    assert "does not accept the agent's token" in reason(do(handler_for(node, "wrong-token")))


def test_a_token_is_read_again_while_it_works(node: NodeUnderTest) -> None:
    """A token that is replaced while pods are waited for is used from then on."""
    pod = node.add_pod("web")
    node.protect(pod)
    settings = settings_for(node)
    file = Path(str(settings["token_file"])).with_name("rotating.txt")
    file.write_text(NOBODY)
    handler = KubernetesHandler.from_settings(settings | {"token_file": str(file)}, Path("unused"))

    assert "nobody may not" in reason(do(handler))

    file.write_text(AGENT)
    node.protect(pod, allowed=1)
    with node.kubelet():
        detail(do(handler))


def test_an_authority_that_does_not_vouch_is_told(node: NodeUnderTest, tmp_path: Path) -> None:
    """A server whose certificate is of another authority is not spoken to."""
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=other",
            "-keyout", f"{tmp_path}/other.key", "-out", f"{tmp_path}/other.pem")  # fmt: skip

    said = reason(do(handler_for(node, ca_file=f"{tmp_path}/other.pem"), seconds=1))

    assert "is not trusted" in said
    assert "ca_file" in said


def test_a_node_that_is_not_there_is_told_with_the_nearest(node: NodeUnderTest) -> None:
    """A wrong node name fails for good, and names the node that was probably meant."""
    answer = do(handler_for(node, node=f"{node.name}x"))

    assert f"there is no node '{node.name}x'" in reason(answer)
    assert f"did you mean '{node.name}'?" in reason(answer)


def test_undo_without_a_node_is_done(node: NodeUnderTest) -> None:
    """A node that Kubernetes has forgotten needs nothing put back."""
    assert "nothing to undo" in detail(undo(handler_for(node, node=f"{node.name}x")))


def test_the_node_is_found_by_the_name_of_the_vm(cluster: Cluster) -> None:
    """Without a setting, the node of a scale-set VM is found by the host name that belongs to its name."""
    prefix = new_name()
    node = cluster.add_node(f"{prefix}00000i")
    settings = settings_for(node)
    del settings["node"]

    result = KubernetesHandler.from_settings(settings, Path("unused")).do(task(Direction.DO, vm=f"{prefix}_18"))

    assert isinstance(result, HandlerDone)
    assert result.kept["node"] == node.name
    assert node.is_cordoned()


def test_the_environment_names_the_node(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """NODE_NAME, as the manifest sets it, names the node."""
    settings = settings_for(node)
    del settings["node"]
    monkeypatch.setenv("NODE_NAME", node.name)

    do(KubernetesHandler.from_settings(settings, Path("unused")))

    assert node.is_cordoned()


def test_a_kubeconfig_with_a_certificate_leads_in(node: NodeUnderTest, tmp_path: Path) -> None:
    """A kubeconfig as kubectl prints it in JSON, with all data inside, is enough."""
    place = node.cluster.ca_file.parent
    data = {name: b64encode((place / name).read_bytes()).decode() for name in ("ca.pem", "admin.pem", "admin.key")}
    config = {
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "it", "user": "me"}}],
        "clusters": [
            {"name": "it", "cluster": {"server": node.cluster.url, "certificate-authority-data": data["ca.pem"]}}
        ],
        "users": [
            {
                "name": "me",
                "user": {"client-certificate-data": data["admin.pem"], "client-key-data": data["admin.key"]},
            }
        ],
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    settings: dict[str, object] = {"node": node.name, "kubeconfig": str(tmp_path / "config.json")}

    do(KubernetesHandler.from_settings(settings, Path("unused")))

    assert node.is_cordoned()


def may(cluster: Cluster, token: str, verb: str, resource: str) -> bool:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"spec": {"resourceAttributes": {"verb": verb, "resource": resource}}}
    return bool(cluster.ask("POST", path, asked, token=token)["status"]["allowed"])
