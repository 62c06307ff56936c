"""Which pods leave a node that is drained, and how they are asked to."""

import pytest

from forewarn.agent.handlers.kubernetes.pods import (
    MIRROR,
    Pod,
    PodDrainAction,
    PodMetadata,
    PodOwner,
    PodSpec,
    PodStatus,
    PodVolume,
    drain_action_of,
    eviction,
    grace_of,
)

REPLICA_SET = (PodOwner("ReplicaSet", "web", controller=True),)
SCRATCH = PodSpec(volumes=(PodVolume(), PodVolume(empty_dir={})))


def pod(
    owners: tuple[PodOwner, ...] = REPLICA_SET,
    phase: str = "Running",
    spec: PodSpec | None = None,
    annotations: dict[str, str] | None = None,
    stopping: str | None = None,
) -> Pod:
    metadata = PodMetadata("web-1", "shop", "u-1", annotations or {}, owners, stopping)
    return Pod(metadata, spec or PodSpec(), PodStatus(phase))


def fate(of: Pod, *, unmanaged: bool = False, empty_dir: bool = False) -> PodDrainAction:
    return drain_action_of(of, delete_unmanaged=unmanaged, delete_empty_dir=empty_dir)


def test_a_pod_that_is_started_elsewhere_goes() -> None:
    """A pod of a controller without local data leaves, whether it runs already or not."""
    assert fate(pod()) is PodDrainAction.GOES
    assert fate(pod(phase="Pending")) is PodDrainAction.GOES


@pytest.mark.parametrize(
    "stays",
    [
        pod(owners=(PodOwner("DaemonSet", "proxy", controller=True),)),
        pod(owners=(PodOwner("Node", "web-0", controller=True),)),
        pod(annotations={MIRROR: "1"}),
        pod(phase="Succeeded"),
        pod(phase="Failed"),
    ],
    ids=["daemon set", "of the node", "mirror", "succeeded", "failed"],
)
def test_what_belongs_to_the_node_or_is_over_stays(stays: Pod) -> None:
    """Pods of DaemonSets, static pods and finished ones stay, whatever the settings say."""
    assert fate(stays, unmanaged=True, empty_dir=True) is PodDrainAction.STAYS


def test_a_pod_that_nothing_starts_again_is_spared() -> None:
    """A pod without a controller goes only where the settings say so; an owner that is no controller is none."""
    owned = pod(owners=(PodOwner("Thing", "x"),))

    assert fate(pod(owners=())) is PodDrainAction.UNMANAGED
    assert fate(owned) is PodDrainAction.UNMANAGED
    assert fate(pod(owners=()), unmanaged=True) is PodDrainAction.GOES


def test_a_pod_with_local_data_is_spared() -> None:
    """A pod with an emptyDir goes only where the settings say so."""
    assert fate(pod(spec=SCRATCH)) is PodDrainAction.HAS_DATA
    assert fate(pod(spec=SCRATCH), empty_dir=True) is PodDrainAction.GOES
    assert fate(pod(owners=(), spec=SCRATCH), unmanaged=True) is PodDrainAction.HAS_DATA


def test_a_pod_that_stops_already_is_waited_for() -> None:
    """What somebody else told to stop is on its way, even if it would have been spared."""
    assert fate(pod(owners=(), stopping="2030-01-01T00:00:00Z")) is PodDrainAction.GOES


@pytest.mark.parametrize(
    ("wanted", "left", "given"),
    [(None, 30.5, None), (None, 29.9, 29), (600, 20.7, 20), (3, 20.0, None), (600, 0.2, 1), (0, 0.2, None)],
)
def test_time_to_stop_is_at_most_what_is_left(wanted: int | None, left: float, given: int | None) -> None:
    """A pod's own wish holds where it fits; where not, it gets what is left, and never the nothing that kills."""
    assert grace_of(pod(spec=PodSpec(termination_grace_period_seconds=wanted)), left) == given


def test_an_eviction_names_the_very_pod() -> None:
    """With its uid, no later pod of the same name can be hit."""
    assert eviction(pod(), "policy/v1", 20) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-1", "namespace": "shop"},
        "deleteOptions": {"preconditions": {"uid": "u-1"}, "gracePeriodSeconds": 20},
    }


def test_a_pod_that_keeps_its_own_time_is_given_none() -> None:
    """Without a time in the eviction Kubernetes takes the pod's own."""
    assert eviction(pod(), "policy/v1", None)["deleteOptions"] == {"preconditions": {"uid": "u-1"}}
