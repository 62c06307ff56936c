"""Builds the request bodies that change a node: cordon, condition and event. Pure.

An annotation on the node, written together with the cordon, records that the handler cordoned it. So this is known
after any crash, and disappears with the node when Kubernetes creates it again.
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
"""The annotation with the events for which the node is cordoned, separated by commas."""
COMPONENT = "forewarn-agent"
NAMESPACE = "default"
"""Namespace of events about nodes, which have no namespace."""

PATH = "/api/v1/nodes"
SHOWN = 5
"""Nodes that the error names if none has a similar name."""

JsonObject = dict[str, object]


class KubernetesNodeMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of a node."""

    name: str
    resource_version: str = ""
    annotations: dict[str, str] = {}


class KubernetesNodeSpec(msgspec.Struct, frozen=True):
    """Desired state of a node."""

    unschedulable: bool = False


class KubernetesNodeCondition(msgspec.Struct, frozen=True):
    """One condition of a node."""

    type: str
    status: str
    reason: str = ""


class KubernetesNodeStatus(msgspec.Struct, frozen=True):
    """Status of a node."""

    conditions: tuple[KubernetesNodeCondition, ...] = ()


class KubernetesNode(msgspec.Struct, frozen=True):
    """A node, with the fields that the handler needs."""

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
        """The events for which this handler cordoned it."""
        return [each for each in self.metadata.annotations.get(CORDONED_BY, "").split(",") if each]

    def has(self, condition: str) -> bool:
        return any(each.type == condition and each.status == "True" for each in self.status.conditions)


class KubernetesNodeList(msgspec.Struct, frozen=True):
    """A list of nodes."""

    items: tuple[KubernetesNode, ...] = ()


def path_of(name: str) -> str:
    return f"{PATH}/{quote(name, safe='')}"


def names_of(given: str, host: str, vm: str) -> list[str]:
    """Return the possible names of this VM's node, the likeliest first."""
    if given:
        return [given]
    names = [host.lower()]
    with suppress(BadInput):  # a name that cannot be computed is the machine's own
        names.append(host_name_of(vm))
    return list(dict.fromkeys(filter(None, names)))


def unknown(names: list[str], known: list[str]) -> Unknown:
    """Return the error for a missing node, with similar names."""
    hint = nearest(names[0], known)
    if not hint and known:
        others = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        hint = f"; there are {', '.join(known[:SHOWN])}{others}"
    return Unknown(f"there is no node {' or '.join(map(repr, names))}; set 'node' to its name{hint}")


def cordon(node: KubernetesNode, event_id: str) -> JsonObject | None:
    """Return the patch that cordons the node, or None if others cordoned it, or we did for this event."""
    if node.is_cordoned and (not node.cordoned_by or show_id(event_id) in node.cordoned_by):
        return None
    return _patch(node, [*node.cordoned_by, show_id(event_id)], unschedulable=True)


def uncordon(node: KubernetesNode, event_id: str) -> JsonObject | None:
    """Return the patch that ends our cordon for an event, or None if there is none.

    An event that the annotation does not contain ends the cordon for all: the response to a cordon may have been
    lost, and the node must not stay cordoned because of that.
    """
    if not node.cordoned_by:
        return None
    over = show_id(event_id)
    rest = [each for each in node.cordoned_by if each != over] if over in node.cordoned_by else []
    return _patch(node, rest, unschedulable=bool(rest) and node.is_cordoned)


def _patch(node: KubernetesNode, cordoned_by: list[str], *, unschedulable: bool) -> JsonObject:
    # With resourceVersion the API server refuses the patch if the node was changed in between.
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
    """Return the Kubernetes event for ``kubectl describe node``; its name is fixed, so that it is created once."""
    is_coming = direction is Direction.DO
    return {
        "metadata": {"name": f"{node}.{event.id}.{direction.value}", "namespace": NAMESPACE},
        # By convention, the uid of events about a node is the node's name; kubectl selects by it.
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
    """Return an event in one line: type, source, time, description."""
    when = f"not before {_time(event.not_before)}" if event.not_before else "at any moment"
    source = f" by {SOURCES.get(event.source, event.source)}" if event.source else ""  # type: ignore[call-overload]
    why = f": {event.description}" if event.description else ""
    return f"{_type(event)}{source}, {when}{why}"


def _type(event: ScheduledEvent) -> str:
    return str(TYPES.get(event.type, event.type))  # type: ignore[call-overload]


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
