"""Which pods leave a node that is drained, which stay, and why; pure."""

from enum import Enum

import msgspec

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a pod that only shows what a node's own files start."""
OWN_GRACE = 30
"""Seconds that a pod which says nothing gets to stop."""


class PodOwner(msgspec.Struct, frozen=True):
    """Who made a pod."""

    kind: str
    name: str
    controller: bool = False


class PodMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The head of a pod."""

    name: str
    namespace: str
    uid: str
    annotations: dict[str, str] = {}
    owner_references: tuple[PodOwner, ...] = ()
    deletion_timestamp: str | None = None


class PodVolume(msgspec.Struct, frozen=True, rename="camel"):
    """A directory that a pod sees."""

    empty_dir: dict[str, object] | None = None


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What is wanted of a pod."""

    volumes: tuple[PodVolume, ...] = ()
    termination_grace_period_seconds: int | None = None


class PodStatus(msgspec.Struct, frozen=True):
    """What is known about a pod."""

    phase: str = ""


class Pod(msgspec.Struct, frozen=True):
    """A pod, as far as it matters here."""

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
    """How a list goes on."""

    next: str = msgspec.field(default="", name="continue")


class PodList(msgspec.Struct, frozen=True):
    """One page of a list of pods."""

    items: tuple[Pod, ...] = ()
    metadata: PodListMetadata = PodListMetadata()


class PodDrainAction(Enum):
    """What becomes of a pod when its node is drained."""

    GOES = ""
    STAYS = "belongs to the node"
    UNMANAGED = "nothing would start it elsewhere; see 'delete_unmanaged'"
    HAS_DATA = "has data in an emptyDir; see 'delete_empty_dir'"


def drain_action_of(pod: Pod, *, delete_unmanaged: bool, delete_empty_dir: bool) -> PodDrainAction:
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    if MIRROR in pod.metadata.annotations or pod.status.phase in {"Succeeded", "Failed"}:
        return PodDrainAction.STAYS
    if owner is not None and owner.kind in {"DaemonSet", "Node"}:
        # A DaemonSet's pod would come back at once: its controller pays no regard to the cordon.
        return PodDrainAction.STAYS
    if pod.is_stopping:
        return PodDrainAction.GOES
    if owner is None and not delete_unmanaged:
        return PodDrainAction.UNMANAGED
    if not delete_empty_dir and any(each.empty_dir is not None for each in pod.spec.volumes):
        return PodDrainAction.HAS_DATA
    return PodDrainAction.GOES


def grace_of(pod: Pod, seconds_left: float) -> int | None:
    """Return the seconds that a pod gets to stop where its own wish does not fit, else None; never 0, which kills."""
    own = pod.spec.termination_grace_period_seconds
    left = max(1, int(seconds_left))
    return None if (OWN_GRACE if own is None else own) <= left else left


def options(pod: Pod, grace: int | None) -> dict[str, object]:
    """Return how a pod is to be deleted: this very one, and not another that bears its name by now."""
    given: dict[str, object] = {"preconditions": {"uid": pod.metadata.uid}}
    return given if grace is None else given | {"gracePeriodSeconds": grace}


def eviction(pod: Pod, version: str, grace: int | None) -> dict[str, object]:
    return {
        "apiVersion": version,
        "kind": "Eviction",
        "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace},
        "deleteOptions": options(pod, grace),
    }
