"""Address and credentials of the API server, from a pod's service account, the settings, or a kubeconfig."""

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path

import msgspec

from forewarn.core.errors import BadInput, Unavailable
from forewarn.core.redaction import shown_address
from forewarn.core.web_addresses import split_web_address

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HERE = {"127.0.0.1", "::1", "localhost"}
AS_JSON = "kubectl config view --raw --minify --flatten -o json"
"""The command that writes a kubeconfig as JSON, which is read here without a YAML library."""


class KubernetesCredential(msgspec.Struct, frozen=True):
    """A token or a certificate: in a file, which is read for each use, or as text."""

    path: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.path or self.text)

    def read(self) -> str:
        if not self.path:
            return self.text
        try:
            return Path(self.path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise Unavailable(f"{self.path} cannot be read: {_why(error)}") from None


class KubernetesAccess(msgspec.Struct, frozen=True, kw_only=True):
    """URL and credentials of an API server. Unused credentials are empty."""

    url: str
    token: KubernetesCredential = KubernetesCredential()
    authority: KubernetesCredential = KubernetesCredential()
    """Trusted certificate authority; the system's list if empty."""
    certificate: KubernetesCredential = KubernetesCredential()
    key: KubernetesCredential = KubernetesCredential()

    def __post_init__(self) -> None:
        parts = split_web_address(self.url)
        # Plain http would expose the token.
        if parts is None or (parts.scheme == "http" and parts.hostname not in HERE):
            raise BadInput(
                f"{shown_address(self.url)!r} is not an API server URL; write for example https://10.0.0.1:6443"
                " (http is allowed for this machine only)"
            )


def read_service_account(environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> KubernetesAccess:
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise BadInput(
            "the agent does not run in a pod, so handler 'kubernetes' needs the address of the API server:"
            " set 'kubeconfig', or 'server' with 'token_file' or 'certificate_file'"
        )
    return KubernetesAccess(
        url=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        token=KubernetesCredential(path=str(directory / "token")),
        authority=KubernetesCredential(path=str(directory / "ca.crt")),
    )


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""


class _User(msgspec.Struct, rename="kebab"):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _Kubeconfig(msgspec.Struct):
    current_context: str = msgspec.field(name="current-context")
    clusters: list[_NamedCluster]
    contexts: list[_NamedContext]
    users: list[_NamedUser]


def read_kubeconfig(path: Path) -> KubernetesAccess:
    """Return the access of the current context of a kubeconfig in JSON."""
    try:
        read = msgspec.json.decode(path.read_bytes(), type=_Kubeconfig)
    except OSError as error:
        raise BadInput(f"kubeconfig {path} cannot be read: {_why(error)}") from None
    except msgspec.ValidationError as error:
        raise BadInput(f"kubeconfig {path}: {error}; write it with {AS_JSON}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadInput(f"kubeconfig {path} is not JSON; write it with {AS_JSON}") from None
    context = next((each.context for each in read.contexts if each.name == read.current_context), _Context())
    cluster = next((each.cluster for each in read.clusters if each.name == context.cluster), None)
    user = next((each.user for each in read.users if each.name == context.user), None)
    if cluster is None or user is None:
        raise BadInput(f"kubeconfig {path} has no context {read.current_context!r} with a cluster and a user")

    def held(file: str, data: str) -> KubernetesCredential:
        if data:
            return KubernetesCredential(text=_plain(data, path))
        return KubernetesCredential(path=str(path.parent / file)) if file else KubernetesCredential()

    access = KubernetesAccess(
        url=cluster.server,
        token=KubernetesCredential(text=user.token) if user.token else held(user.token_file, ""),
        authority=held(cluster.certificate_authority, cluster.certificate_authority_data),
        certificate=held(user.client_certificate, user.client_certificate_data),
        key=held(user.client_key, user.client_key_data),
    )
    if not access.token and not access.certificate:
        raise BadInput(
            f"kubeconfig {path}: its user has no token and no certificate; credential plugins are not supported"
        )
    return access


def _plain(data: str, path: Path) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BadInput(f"kubeconfig {path}: a certificate or key is not valid base64") from None


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
