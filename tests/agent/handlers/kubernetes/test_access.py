"""The ways to an API server: the service account of a pod, and a kubeconfig in JSON."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from forewarn.agent.handlers.kubernetes.access import (
    KubernetesAccess,
    KubernetesCredential,
    read_kubeconfig,
    read_service_account,
)
from forewarn.core.errors import BadInput, Unavailable

CONFIG = {
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "it", "user": "me"}}],
    "clusters": [{"name": "it", "cluster": {"server": "https://10.0.0.1:6443"}}],
    "users": [{"name": "me", "user": {"token": "t"}}],
}


def written(place: Path, **changes: object) -> Path:
    path = place / "config.json"
    path.write_text(json.dumps(CONFIG | changes))
    return path


@pytest.mark.parametrize(
    ("host", "url"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_finds_its_way_by_itself(host: str, url: str, tmp_path: Path) -> None:
    """Kubernetes puts the address into the environment, token and authority into files."""
    access = read_service_account({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}, tmp_path)

    assert access.url == url
    assert access.token == KubernetesCredential(path=str(tmp_path / "token"))
    assert access.authority == KubernetesCredential(path=str(tmp_path / "ca.crt"))


def test_outside_a_pod_the_way_must_be_told() -> None:
    """Without the environment of a pod the sentence names the settings."""
    with pytest.raises(BadInput, match=r"does not run in a pod.*'kubeconfig'.*'server'"):
        read_service_account({})


def test_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    """A token that is replaced in its file is the new one from then on."""
    token = KubernetesCredential(path=str(tmp_path / "token"))
    (tmp_path / "token").write_text("first")

    assert token.read() == "first"

    (tmp_path / "token").write_text("second")

    assert token.read() == "second"


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    """A token file that is not there is one sentence with its path."""
    with pytest.raises(Unavailable, match=r"token cannot be read: No such file"):
        KubernetesCredential(path=str(tmp_path / "token")).read()


def test_the_current_context_of_a_kubeconfig_counts(tmp_path: Path) -> None:
    """Server, authority and token are those of the current context, data before files."""
    cluster = {"server": "https://k:1", "certificate-authority-data": b64encode(b"PEM").decode()}
    access = read_kubeconfig(written(tmp_path, clusters=[{"name": "it", "cluster": cluster}]))

    assert access == KubernetesAccess(
        url="https://k:1", token=KubernetesCredential(text="t"), authority=KubernetesCredential(text="PEM")
    )


def test_files_of_a_kubeconfig_stand_beside_it(tmp_path: Path) -> None:
    """A path that is not absolute is meant from where the kubeconfig is."""
    user = {"client-certificate": "me.pem", "client-key": "/keys/me.key", "tokenFile": "token"}
    access = read_kubeconfig(written(tmp_path, users=[{"name": "me", "user": user}]))

    assert access.certificate == KubernetesCredential(path=str(tmp_path / "me.pem"))
    assert access.key == KubernetesCredential(path="/keys/me.key")
    assert access.token == KubernetesCredential(path=str(tmp_path / "token"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"current-context": "there"}, "has no context 'there' with a cluster and a user"),
        ({"users": []}, "has no context 'here'"),
        (
            {"users": [{"name": "me", "user": {"exec": {"command": "login"}}}]},
            "credential plugins are not supported",
        ),
        ({"users": [{"name": "me", "user": {"client-certificate-data": "%"}}]}, "is not valid base64"),
        ({"clusters": [{"name": "it", "cluster": {"server": "k:1"}}]}, "'k:1' is not an API server URL"),
        ({"clusters": 3}, "kubectl config view"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_told(changes: dict[str, object], said: str, tmp_path: Path) -> None:
    """Each fault is one sentence."""
    with pytest.raises(BadInput, match=said):
        read_kubeconfig(written(tmp_path, **changes))


def test_a_kubeconfig_in_yaml_is_told_how_to_become_json(tmp_path: Path) -> None:
    """The usual form is not read; the sentence has the command that writes the other."""
    path = tmp_path / "config"
    path.write_text("apiVersion: v1\nkind: Config\n")

    with pytest.raises(BadInput, match="is not JSON; write it with kubectl config view --raw"):
        read_kubeconfig(path)


@pytest.mark.parametrize(
    "url", ["", "10.0.0.1", "ftp://k", "http://k", "https://", "https://k:port", "https://[fd00"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """Only https with a host leads anywhere, and http on this machine."""
    with pytest.raises(BadInput, match="is not an API server URL"):
        KubernetesAccess(url=url)
