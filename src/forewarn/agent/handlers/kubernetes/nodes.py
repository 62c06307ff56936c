"""What the handler writes on a node, as bodies of requests; pure.

Whether it was the handler who cordoned the node stands on the node itself, written in the same step as the cordon.
So it is known after any crash, and gone with the node when Kubernetes makes it anew.
"""

from contextlib import suppress
from datetime import datetime
from urllib.parse import quote

import msgspec

from forewarn.agent.handler import Direction
from forewarn.client.names import host_name_of
from forewarn.core.errors import BadInput, Unknown, nearest
from forewarn.wire.azure_names import SOURCES, TYPES, show_id
from forewarn.wire.document import ScheduledEvent

CORDONED_BY = "forewarn/cordoned-by"
"""The annotation that names the events for which the node is cordoned, with commas between."""
COMPONENT = "forewarn-agent"
NAMESPACE = "default"
"""Where Kubernetes keeps what is reported on nodes, which have no namespace."""

PATH = "/api/v1/nodes"
SHOWN = 5
"""Nodes that are named where none is like the one that was looked for."""

JsonObject = dict[str, object]


class KubernetesNodeMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The head of a node."""

    name: str
    resource_version: str = ""
    annotations: dict[str, str] = {}


class KubernetesNodeSpec(msgspec.Struct, frozen=True):
    """What is wanted of a node."""

    unschedulable: bool = False


class KubernetesNodeCondition(msgspec.Struct, frozen=True):
    """One line of what is known about a node."""

    type: str
    status: str
    reason: str = ""


class KubernetesNodeStatus(msgspec.Struct, frozen=True):
    """What is known about a node."""

    conditions: tuple[KubernetesNodeCondition, ...] = ()


class KubernetesNode(msgspec.Struct, frozen=True):
    """A node, as far as it matters here."""

    metadata: KubernetesNodeMetadata
    spec: KubernetesNodeSpec = KubernetesNodeSpec()
    status: KubernetesNodeStatus = KubernetesNodeStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def path(self) -> str:
        return path_of(self.name)

    @property
    def is_cordoned(self) -> bool:
        return self.spec.unschedulable

    @property
    def cordoned_by(self) -> list[str]:
        """The events for which it was us who cordoned it."""
        return [each for each in self.metadata.annotations.get(CORDONED_BY, "").split(",") if each]

    def has(self, condition: str) -> bool:
        """Tell whether a condition holds."""
        return any(each.type == condition and each.status == "True" for each in self.status.conditions)


class KubernetesNodeList(msgspec.Struct, frozen=True):
    """A list of nodes."""

    items: tuple[KubernetesNode, ...] = ()


def path_of(name: str) -> str:
    return f"{PATH}/{quote(name, safe='')}"


def names_of(given: str, host: str, vm: str) -> list[str]:
    """Return what the node of this VM may be called, the likeliest first."""
    if given:
        return [given]
    names = [host.lower()]
    with suppress(BadInput):  # a name that cannot be computed is the machine's own
        names.append(host_name_of(vm))
    return list(dict.fromkeys(filter(None, names)))


def unknown(names: list[str], known: list[str]) -> Unknown:
    """Say that no node is called so, and which are like it."""
    hint = nearest(names[0], known)
    if not hint and known:
        others = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        hint = f"; there are {', '.join(known[:SHOWN])}{others}"
    return Unknown(f"there is no node {' or '.join(map(repr, names))}, and the setting 'node' can name one{hint}")


def cordon(node: KubernetesNode, event_id: str) -> JsonObject | None:
    """Return the patch that lets no more pods come, or None where others saw to that, or we for this event."""
    if node.is_cordoned and (not node.cordoned_by or show_id(event_id) in node.cordoned_by):
        return None
    return _patch(node, [*node.cordoned_by, show_id(event_id)], unschedulable=True)


def uncordon(node: KubernetesNode, event_id: str) -> JsonObject | None:
    """Return the patch that takes our cordon for an event back, or None where there is none.

    An event that the node does not name stands for all: the answer to a cordon may have been lost, and a node must
    not stay cordoned for that.
    """
    if not node.cordoned_by:
        return None
    over = show_id(event_id)
    rest = [each for each in node.cordoned_by if each != over] if over in node.cordoned_by else []
    return _patch(node, rest, unschedulable=bool(rest) and node.is_cordoned)


def _patch(node: KubernetesNode, cordoned_by: list[str], *, unschedulable: bool) -> JsonObject:
    # With the version that was read, the API server refuses if somebody changed the node in between.
    annotations = {CORDONED_BY: ",".join(cordoned_by) or None}
    metadata = {"resourceVersion": node.metadata.resource_version, "annotations": annotations}
    return {"metadata": metadata, "spec": {"unschedulable": unschedulable or None}}


def raise_condition(node: KubernetesNode, condition: str, event: ScheduledEvent, now: datetime) -> JsonObject:
    return _condition(node, condition, "True", _type(event), describe(event), now)


def clear_condition(node: KubernetesNode, condition: str, now: datetime) -> JsonObject:
    return _condition(node, condition, "False", "NoMaintenance", "no event is pending", now)


def _condition(
    node: KubernetesNode, condition: str, status: str, reason: str, message: str, now: datetime
) -> JsonObject:
    written = {
        "type": condition,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": _time(now),
    }
    if node.has(condition) != (status == "True"):
        written["lastTransitionTime"] = _time(now)
    return {"status": {"conditions": [written]}}


def report(node: str, event: ScheduledEvent, direction: Direction, now: datetime) -> JsonObject:
    """Return what ``kubectl describe node`` is to show; its name is fixed, so that it is shown once."""
    is_coming = direction is Direction.DO
    return {
        "metadata": {"name": f"{node}.{event.id}.{direction.value}", "namespace": NAMESPACE},
        # By custom, what is reported on a node bears the node's name as its uid; kubectl looks for that.
        "involvedObject": {"kind": "Node", "apiVersion": "v1", "name": node, "uid": node},
        "type": "Warning" if is_coming else "Normal",
        "reason": "MaintenancePending" if is_coming else "MaintenanceOver",
        "message": describe(event) if is_coming else f"{_type(event)} is over; the node is back",
        "source": {"component": COMPONENT, "host": node},
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
        "firstTimestamp": _time(now),
        "lastTimestamp": _time(now),
        "count": 1,
    }


def describe(event: ScheduledEvent) -> str:
    """Return an event in one line: what, when, by whom, why."""
    when = f"not before {_time(event.not_before)}" if event.not_before else "at any moment"
    source = f" by {SOURCES.get(event.source, event.source)}" if event.source else ""  # type: ignore[call-overload]
    why = f": {event.description}" if event.description else ""
    return f"{_type(event)}{source}, {when}{why}"


def _type(event: ScheduledEvent) -> str:
    return str(TYPES.get(event.type, event.type))  # type: ignore[call-overload]


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
