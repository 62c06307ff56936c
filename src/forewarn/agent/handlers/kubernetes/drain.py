"""Drains a node: evicts its pods, round after round, until they are gone or the deadline is near.

    list ──▶ no pod left ──▶ done
     ▲  └──▶ evict each pod that is not stopping yet ──▶ wait
     └────────────────────────────────────────────────────┘

An eviction that a disruption budget refuses is retried in the next round. New pods are evicted like the others.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import msgspec

from forewarn.agent.handler import Task
from forewarn.agent.handlers.kubernetes.api import KubernetesApi
from forewarn.agent.handlers.kubernetes.errors import (
    ApiBadRequest,
    ApiBlocked,
    ApiUnable,
    ApiUnreachable,
    ObjectConflict,
    ObjectMissing,
)
from forewarn.agent.handlers.kubernetes.pods import Pod, PodDrainAction, PodList, eviction, grace_of, options
from forewarn.agent.handlers.polling import polls

EVERY = timedelta(seconds=1)
PAGE = 100
"""Pods per list request, so that the response stays small in the agent's memory."""
STOPPING = "is stopping"
NOT_ASKED = "is not evicted yet"


class DrainProgress(msgspec.Struct):
    """Progress of a drain: names of pods, with the reason for those that stay."""

    evicted: set[str] = set()
    left: dict[str, str] = {}
    """Pods that are still to go."""
    spared: dict[str, str] = {}
    """Pods that stay because of the settings."""
    killed: set[str] = set()


class Evictions:
    """Evicts pods; remembers which version of the eviction API the server supports."""

    def __init__(self) -> None:
        self._version = "policy/v1"

    def evict(self, api: KubernetesApi, pod: Pod, seconds_left: float) -> str:
        """Evict a pod; return its state or the reason of the refusal."""
        grace = grace_of(pod, seconds_left)
        try:
            try:
                self._post(api, pod, grace)
            except ApiBadRequest as error:
                if "no kind" not in str(error):
                    raise
                # Kubernetes before 1.22.
                self._version = "policy/v1beta1"
                self._post(api, pod, grace)
        except (ObjectMissing, ObjectConflict):
            return "has just changed"  # the next list shows its state
        except (ApiBlocked, ApiBadRequest, ApiUnable) as error:
            return str(error).rstrip(".")
        return STOPPING

    def _post(self, api: KubernetesApi, pod: Pod, grace: int | None) -> None:
        api.ask("POST", f"{pod.path}/eviction", msgspec.Raw, eviction(pod, self._version, grace))


def drain(
    api: KubernetesApi, node: str, drain_action_of: Callable[[Pod], PodDrainAction], evictions: Evictions, task: Task
) -> DrainProgress:
    """Evict pods until all are gone, the deadline is near or the agent stops.

    Requests to an unreachable API server are retried; raise ApiUnreachable if it never answered.
    """
    drained = DrainProgress()
    problem: ApiUnreachable | None = None
    has_answered = False
    for _ in polls(task, EVERY):
        try:
            _round(api, node, drain_action_of, evictions, task, drained)
        except ApiUnreachable as error:
            problem = error
            continue
        has_answered = True
        if not drained.left:
            break
    if problem is not None and not has_answered:
        raise problem
    return drained


def _round(
    api: KubernetesApi,
    node: str,
    drain_action_of: Callable[[Pod], PodDrainAction],
    evictions: Evictions,
    task: Task,
    drained: DrainProgress,
) -> None:
    pods = [(pod, drain_action_of(pod)) for pod in pods_on(api, node)]
    drained.spared = {
        pod.name: action.value
        for pod, action in pods
        if action in {PodDrainAction.UNMANAGED, PodDrainAction.HAS_DATA}
    }
    drained.left = {
        pod.name: STOPPING if pod.is_stopping else NOT_ASKED for pod, action in pods if action is PodDrainAction.GOES
    }
    for pod, action in pods:
        left = (task.deadline - datetime.now(UTC)).total_seconds()
        if action is PodDrainAction.GOES and not pod.is_stopping and left > 0 and not task.stopping.is_set():
            drained.left[pod.name] = evictions.evict(api, pod, left)
            if drained.left[pod.name] == STOPPING:
                drained.evicted.add(pod.name)


def kill(api: KubernetesApi, node: str, drained: DrainProgress) -> None:
    """Delete the pods that are left at once, without regard to budgets and without a grace period."""
    for pod in list(pods_on(api, node)):
        if pod.name in drained.left:
            try:
                api.ask("DELETE", pod.path, msgspec.Raw, options(pod, 0))
            except (ObjectMissing, ObjectConflict):
                continue
            drained.killed.add(pod.name)
    drained.left = {}


def pods_on(api: KubernetesApi, node: str) -> Iterator[Pod]:
    path = f"/api/v1/pods?limit={PAGE}&fieldSelector={quote(f'spec.nodeName={node}', safe='')}"
    page = api.ask("GET", path, PodList)
    yield from page.items
    while page.metadata.next:
        page = api.ask("GET", f"{path}&continue={quote(page.metadata.next, safe='')}", PodList)
        yield from page.items
