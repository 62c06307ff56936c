"""What the kubernetes handler writes on a real node, and what it takes back."""

import threading
from uuid import uuid4

import pytest

from slow.kubernetes.calls import detail, do, done, event, handler_for, undo
from slow.kubernetes.cluster import NodeUnderTest

pytestmark = pytest.mark.end_to_end


def test_the_node_shows_what_will_happen_to_it(node: NodeUnderTest) -> None:
    """While an event is coming, a condition and an event of the node tell its type, its time and its reason."""
    coming = event()

    do(handler_for(node), coming)

    said = "Reboot by Platform, not before 2030-01-02T03:04:05Z: Host server is undergoing maintenance."
    condition = node.condition()
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", "Reboot", said)
    assert node.annotations() == {"forewarn/cordoned-by": coming.id.upper()}
    assert [(each["type"], each["reason"], each["message"]) for each in node.events()] == [
        ("Warning", "MaintenancePending", said)
    ]


def test_the_node_shows_that_it_is_over(node: NodeUnderTest) -> None:
    """After the event the condition is False, nothing of ours is left on the node, and an event says so once."""
    handler, coming = handler_for(node), event()
    do(handler, coming)

    for _ in range(2):
        undo(handler, coming, kept={"node": node.name})

    assert node.condition()["status"] == "False"
    assert node.annotations() == {}
    assert not node.is_cordoned()
    assert sorted(each["reason"] for each in node.events()) == ["MaintenanceOver", "MaintenancePending"]


def test_a_condition_that_lasts_keeps_its_time(node: NodeUnderTest) -> None:
    """Done again, the condition stays as old as it is: only a change of its status is a transition."""
    handler = handler_for(node)
    do(handler)
    path = f"{node.path}/status"
    long_ago = {"type": "MaintenancePending", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    patch = {"status": {"conditions": [long_ago]}}
    node.cluster.ask("PATCH", path, patch, "application/strategic-merge-patch+json")

    do(handler)

    assert node.condition()["lastTransitionTime"] == "2020-01-01T00:00:00Z"


def test_what_is_switched_off_is_not_done(node: NodeUnderTest) -> None:
    """Without cordon, drain, condition and events the node is left alone."""
    node.add_pod("web")

    do(handler_for(node, cordon=False, drain=False, condition="", events=False))

    assert not node.is_cordoned()
    assert node.condition() == {}
    assert node.events() == []
    assert len(node.pods()) == 1


def test_a_cordon_of_others_stays(node: NodeUnderTest) -> None:
    """A node that somebody else cordoned is drained, and left cordoned afterwards."""
    handler, coming = handler_for(node), event()
    node.cordon()

    assert "was already cordoned by others" in detail(do(handler, coming))
    assert "not ours" in detail(undo(handler, coming, kept={"node": node.name}))
    assert node.is_cordoned()


def test_who_takes_the_annotation_away_keeps_the_cordon(node: NodeUnderTest) -> None:
    """An administrator who wants the node to stay cordoned removes our name from it."""
    handler, coming = handler_for(node), event()
    do(handler, coming)
    node.cluster.merge(node.path, {"metadata": {"annotations": {"forewarn/cordoned-by": None}}})

    undo(handler, coming)

    assert node.is_cordoned()


def test_a_cordon_for_two_events_lasts_until_both_are_over(node: NodeUnderTest) -> None:
    """Two handlers of one agent, for different rules, do not uncordon each other's node."""
    first, second = event(), event()
    freezes, reboots = handler_for(node, drain=False), handler_for(node)
    kept = [done(do(freezes, first)).kept, done(do(reboots, second)).kept]

    assert "stays cordoned" in detail(undo(freezes, first, kept[0]))
    assert node.is_cordoned()
    assert node.condition()["status"] == "True"

    undo(reboots, second, kept[1])

    assert not node.is_cordoned()
    assert node.condition()["status"] == "False"


def test_a_node_that_others_change_is_cordoned_all_the_same(node: NodeUnderTest) -> None:
    """A change between reading and writing is noticed and the node is looked at anew."""
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            node.cluster.merge(node.path, {"metadata": {"labels": {"changed": uuid4().hex}}})

    thread = threading.Thread(target=change)
    thread.start()
    try:
        handler = handler_for(node)
        for _ in range(5):
            coming = event()
            detail(do(handler, coming))
            detail(undo(handler, coming))
    finally:
        over.set()
        thread.join()

    assert not node.is_cordoned()
