"""Decides which pods a drain evicts, and builds the eviction requests. Pure."""

from enum import Enum

import msgspec

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod, which represents a static pod of the node."""
OWN_GRACE = 30
"""Default of terminationGracePeriodSeconds."""


class PodOwner(msgspec.Struct, frozen=True):
    """Owner reference of a pod."""

    kind: str
    name: str
    controller: bool = False


class PodMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of a pod."""

    name: str
    namespace: str
    uid: str
    annotations: dict[str, str] = {}
    owner_references: tuple[PodOwner, ...] = ()
    deletion_timestamp: str | None = None


class PodVolume(msgspec.Struct, frozen=True, rename="camel"):
    """Volume of a pod."""

    empty_dir: dict[str, object] | None = None


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Desired state of a pod."""

    volumes: tuple[PodVolume, ...] = ()
    termination_grace_period_seconds: int | None = None


class PodStatus(msgspec.Struct, frozen=True):
    """Status of a pod."""

    phase: str = ""


class Pod(msgspec.Struct, frozen=True):
    """A pod, with the fields that the handler needs."""

    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.metadata.namespace}/pods/{self.metadata.name}"

    @property
    def is_stopping(self) -> bool:
        return self.metadata.deletion_timestamp is not None


class PodListMetadata(msgspec.Struct, frozen=True):
    """Metadata of one page of a list."""

    next: str = msgspec.field(default="", name="continue")


class PodList(msgspec.Struct, frozen=True):
    """One page of a list of pods."""

    items: tuple[Pod, ...] = ()
    metadata: PodListMetadata = PodListMetadata()


class PodDrainAction(Enum):
    """What a drain does with a pod."""

    GOES = ""
    STAYS = "belongs to the node"
    UNMANAGED = "nothing would start it elsewhere; see 'delete_unmanaged'"
    HAS_DATA = "has data in an emptyDir; see 'delete_empty_dir'"


def drain_action_of(pod: Pod, *, delete_unmanaged: bool, delete_empty_dir: bool) -> PodDrainAction:
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    if MIRROR in pod.metadata.annotations or pod.status.phase in {"Succeeded", "Failed"}:
        return PodDrainAction.STAYS
    if owner is not None and owner.kind in {"DaemonSet", "Node"}:
        # A DaemonSet's pod would return at once: its controller ignores the cordon.
        return PodDrainAction.STAYS
    if pod.is_stopping:
        return PodDrainAction.GOES
    if owner is None and not delete_unmanaged:
        return PodDrainAction.UNMANAGED
    if not delete_empty_dir and any(each.empty_dir is not None for each in pod.spec.volumes):
        return PodDrainAction.HAS_DATA
    return PodDrainAction.GOES


def grace_of(pod: Pod, seconds_left: float) -> int | None:
    """Return a shorter grace period if the pod's own does not fit, else None; never 0, which kills."""
    own = pod.spec.termination_grace_period_seconds
    left = max(1, int(seconds_left))
    return None if (OWN_GRACE if own is None else own) <= left else left


def options(pod: Pod, grace: int | None) -> dict[str, object]:
    """Return delete options for exactly this pod, not a later one of the same name."""
    given: dict[str, object] = {"preconditions": {"uid": pod.metadata.uid}}
    return given if grace is None else given | {"gracePeriodSeconds": grace}


def eviction(pod: Pod, version: str, grace: int | None) -> dict[str, object]:
    return {
        "apiVersion": version,
        "kind": "Eviction",
        "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace},
        "deleteOptions": options(pod, grace),
    }
