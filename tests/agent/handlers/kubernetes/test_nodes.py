"""What is written on a node, for which event, and what it is called."""

from datetime import UTC, datetime

import pytest

from forewarn.agent.handler import Direction
from forewarn.agent.handlers.kubernetes import nodes
from forewarn.agent.handlers.kubernetes.nodes import (
    CORDONED_BY,
    KubernetesNode,
    KubernetesNodeCondition,
    KubernetesNodeMetadata,
    KubernetesNodeSpec,
    KubernetesNodeStatus,
)
from forewarn.core.model import EventSource, EventStatus, EventType
from forewarn.wire.document import ScheduledEvent

NOW = datetime(2030, 1, 2, 3, 0, tzinfo=UTC)
EVENT = ScheduledEvent(
    id="602d9444-d2cd-49c7-8624-8643e7171297",
    type=EventType.REDEPLOY,
    status=EventStatus.SCHEDULED,
    resources=("web-0",),
    not_before=datetime(2030, 1, 2, 3, 10, tzinfo=UTC),
    description="Host server is undergoing maintenance.",
    source=EventSource.PLATFORM,
)
OURS = {CORDONED_BY: EVENT.id.upper()}


def node(*, cordoned: bool = False, annotations: dict[str, str] | None = None, pending: str = "") -> KubernetesNode:
    conditions = (KubernetesNodeCondition("MaintenancePending", pending),) if pending else ()
    return KubernetesNode(
        KubernetesNodeMetadata("web-0", "7", annotations or {}),
        KubernetesNodeSpec(cordoned),
        KubernetesNodeStatus(conditions),
    )


def test_a_cordon_and_its_author_are_written_together() -> None:
    """One patch sets both, and only on the node as it was read."""
    assert nodes.cordon(node(), EVENT.id) == {
        "metadata": {"resourceVersion": "7", "annotations": OURS},
        "spec": {"unschedulable": True},
    }


def test_a_cordon_that_is_there_is_not_made_ours() -> None:
    """A node that others cordoned is not patched, nor one that we cordoned before a crash."""
    assert nodes.cordon(node(cordoned=True), EVENT.id) is None
    assert nodes.cordon(node(cordoned=True, annotations=OURS), EVENT.id) is None


def test_a_cordon_that_somebody_took_back_is_made_again() -> None:
    """For the next event a node that was uncordoned by hand is cordoned anew."""
    assert nodes.cordon(node(annotations=OURS), "other") is not None


def test_a_cordon_may_be_for_several_events() -> None:
    """Each is named on the node, and the last that is over takes the cordon with it."""
    both = {CORDONED_BY: f"{EVENT.id.upper()},OTHER"}
    added = nodes.cordon(node(cordoned=True, annotations=OURS), "other")
    one_over = nodes.uncordon(node(cordoned=True, annotations=both), EVENT.id)

    assert added is not None
    assert added["metadata"] == {"resourceVersion": "7", "annotations": both}
    assert one_over == {
        "metadata": {"resourceVersion": "7", "annotations": {CORDONED_BY: "OTHER"}},
        "spec": {"unschedulable": True},
    }


def test_the_end_of_one_event_cordons_nothing() -> None:
    """A node that was uncordoned by hand stays so while another event is pending."""
    both = {CORDONED_BY: f"{EVENT.id.upper()},OTHER"}
    patch = nodes.uncordon(node(annotations=both), EVENT.id)

    assert patch is not None
    assert patch["spec"] == {"unschedulable": None}


@pytest.mark.parametrize("id", [EVENT.id, "never heard of"])
def test_only_our_cordon_is_taken_back(id: str) -> None:
    """The annotation decides and goes together with the cordon, also where the event it names was lost."""
    assert nodes.uncordon(node(cordoned=True), id) is None
    assert nodes.uncordon(node(cordoned=True, annotations=OURS), id) == {
        "metadata": {"resourceVersion": "7", "annotations": {CORDONED_BY: None}},
        "spec": {"unschedulable": None},
    }


@pytest.mark.parametrize(("before", "is_told"), [("", True), ("False", True), ("True", False)])
def test_the_time_of_a_condition_is_that_of_its_last_change(before: str, *, is_told: bool) -> None:
    """A condition that holds already keeps the time since when it does."""
    body = nodes.raise_condition(node(pending=before), "MaintenancePending", EVENT, NOW)

    assert ("lastTransitionTime" in str(body)) is is_told


def test_an_event_is_described_in_one_line() -> None:
    """Type, source, time and reason, as far as they are known."""
    started = ScheduledEvent(id="x", type="Meltdown", status=EventStatus.STARTED, resources=())

    assert nodes.describe(EVENT) == (
        "Redeploy by Platform, not before 2030-01-02T03:10:00Z: Host server is undergoing maintenance."
    )
    assert nodes.describe(started) == "Meltdown, at any moment"


def test_what_is_reported_has_a_name_of_its_own() -> None:
    """The same report has the same name, so that repeating it shows it once; coming and over differ."""
    coming = nodes.report("web-0", EVENT, Direction.DO, NOW)["metadata"]
    over = nodes.report("web-0", EVENT, Direction.UNDO, NOW)["metadata"]

    assert coming == {"name": f"web-0.{EVENT.id}.do", "namespace": "default"}
    assert over == {"name": f"web-0.{EVENT.id}.undo", "namespace": "default"}


def test_a_report_is_about_the_node() -> None:
    """``kubectl describe node`` selects by name and uid, and the uid of a node's events is its name."""
    about = {"kind": "Node", "apiVersion": "v1", "name": "web-0", "uid": "web-0"}

    assert nodes.report("web-0", EVENT, Direction.DO, NOW)["involvedObject"] == about


@pytest.mark.parametrize(
    ("given", "host", "vm", "names"),
    [
        ("n1", "box", "web-0", ["n1"]),
        ("", "BOX", "web-0", ["box", "web-0"]),
        ("", "vmss00000i", "vmss_18", ["vmss00000i"]),
        ("", "agent-x7k2", "vmss_18", ["agent-x7k2", "vmss00000i"]),
        ("", "vmss4x7k2p", "vmss_a1b2c3d4", ["vmss4x7k2p"]),
    ],
)
def test_the_names_that_a_node_may_have(given: str, host: str, vm: str, names: list[str]) -> None:
    """What was said; else the machine's own name; else the host name that belongs to the VM's."""
    assert nodes.names_of(given, host, vm) == names


@pytest.mark.parametrize(
    ("known", "hint"),
    [
        (["web-0", "db"], "; did you mean 'web-0'?"),
        (["alpha", "beta"], "; there are alpha, beta"),
        (["a", "b", "c", "d", "e", "f", "g"], "; there are a, b, c, d, e and 2 more"),
        ([], ""),
    ],
)
def test_an_unknown_node_is_told_with_those_there_are(known: list[str], hint: str) -> None:
    """The nearest name, or some names, or none if they may not be read."""
    said = str(nodes.unknown(["web-O"], known))

    assert said == f"there is no node 'web-O'; set 'node' to its name{hint}"
