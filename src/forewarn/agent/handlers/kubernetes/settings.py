"""Reads the settings of the kubernetes handler, and derives the access to the API server from them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from forewarn.agent.handlers.kubernetes.access import (
    KubernetesAccess,
    KubernetesCredential,
    read_kubeconfig,
    read_service_account,
)
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput

OWNER = "handler 'kubernetes'"
_CONDITION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")


class KubernetesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Access to the API server, and what the handler does to the node."""

    server: str = ""
    token_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    kubeconfig: str = ""
    """A file in JSON; replaces the five settings above."""
    node: str = ""
    cordon: bool = True
    drain: bool = True
    condition: str = "MaintenancePending"
    """The type of the node's condition; no condition is set if empty."""
    events: bool = True
    """Whether to create Kubernetes events about the node."""
    delete_unmanaged: bool = False
    """Whether to evict pods that no controller would start elsewhere."""
    delete_empty_dir: bool = False
    """Whether to evict pods that lose data in an emptyDir."""
    on_deadline: Literal["fail", "go-on", "force"] = "fail"
    """What happens to pods that are left at the deadline."""


def read_settings(given: dict[str, object]) -> KubernetesSettings:
    """Return the settings, checked without any I/O."""
    settings = read_table(OWNER, given, KubernetesSettings)
    for_server = {
        name: getattr(settings, name) for name in ("server", "token_file", "ca_file", "certificate_file", "key_file")
    }
    named = next((name for name, value in for_server.items() if value), "")
    if settings.kubeconfig and named:
        raise BadInput(f"{OWNER} has both 'kubeconfig' and {named!r}; remove one of them")
    if named and not settings.server:
        raise BadInput(f"{OWNER} has {named!r} but no 'server'; set it, for example to https://10.0.0.1:6443")
    if settings.key_file and not settings.certificate_file:
        raise BadInput(f"{OWNER} has 'key_file' but no 'certificate_file'; set both")
    if settings.server:
        _check_address(settings.server)
    if settings.drain and not settings.cordon:
        raise BadInput(
            f"{OWNER} has cordon = false but drain = true, and evicted pods would return; set drain = false as well"
        )
    if settings.condition and not _CONDITION.fullmatch(settings.condition):
        raise BadInput(
            f"setting 'condition' of {OWNER}: {settings.condition!r} is not a condition type; write e.g. NodeIsDue"
        )
    return settings


def access_of(settings: KubernetesSettings, environment: Mapping[str, str]) -> KubernetesAccess:
    if settings.kubeconfig:
        return read_kubeconfig(Path(settings.kubeconfig))
    if not settings.server:
        return read_service_account(environment)
    return KubernetesAccess(
        url=settings.server,
        token=KubernetesCredential(settings.token_file),
        authority=KubernetesCredential(settings.ca_file),
        certificate=KubernetesCredential(settings.certificate_file),
        key=KubernetesCredential(settings.key_file),
    )


def _check_address(server: str) -> None:
    try:
        KubernetesAccess(url=server)
    except BadInput as error:
        raise BadInput(f"setting 'server' of {OWNER}: {error}") from None
