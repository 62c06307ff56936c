"""Which pods leave a real node, when, and what becomes of the rest."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from forewarn.agent.handler import Direction
from slow.kubernetes.calls import detail, do, handler_for, reason, task
from slow.kubernetes.cluster import NodeUnderTest
from slow.kubernetes.server import Server

pytestmark = pytest.mark.end_to_end


def test_only_pods_that_can_run_elsewhere_leave(node: NodeUnderTest) -> None:
    """Pods of DaemonSets, of nobody, with local data, and finished ones stay; those spared are named."""
    goes = node.add_pod("web")
    stay = {
        node.add_pod("daemon", owner="DaemonSet"),
        node.add_pod("static", owner="Node"),
        node.add_pod("over", phase="Succeeded"),
        lonely := node.add_pod("lonely", owner=None),
        laden := node.add_pod("laden", volumes=[{"name": "scratch", "emptyDir": {}}]),
    }

    with node.kubelet():
        said = detail(do(handler_for(node)))

    assert node.pods() == stay
    assert "pods evicted: 1" in said
    assert f"default/{lonely} (nothing would start it elsewhere" in said
    assert f"default/{laden} (has data in an emptyDir" in said
    assert goes not in said


def test_pods_that_lose_something_leave_where_the_settings_say_so(node: NodeUnderTest) -> None:
    """With delete_unmanaged and delete_empty_dir the rest goes too."""
    node.add_pod("lonely", owner=None)
    node.add_pod("laden", volumes=[{"name": "scratch", "emptyDir": {}}])

    with node.kubelet():
        do(handler_for(node, delete_unmanaged=True, delete_empty_dir=True))

    assert node.pods() == set()


def test_a_long_list_of_pods_is_read_to_its_end(node: NodeUnderTest) -> None:
    """The pods of a node come in pages; a pod on the second page leaves too."""
    for number in range(100):
        node.add_pod(f"a{number}", owner="DaemonSet")
    last = node.add_pod("z")

    with node.kubelet():
        said = detail(do(handler_for(node)))

    assert "pods evicted: 1" in said
    assert last not in node.pods()


def test_a_budget_is_waited_for(node: NodeUnderTest) -> None:
    """While a disruption budget says no the pod runs; when it says yes the pod leaves."""
    pod = node.add_pod("web")
    node.protect(pod)
    timer = threading.Timer(2, node.protect, (pod, 1))
    timer.start()
    with node.kubelet():
        began = datetime.now(UTC)
        said = detail(do(handler_for(node)))
    timer.join()

    assert "pods evicted: 1" in said
    assert datetime.now(UTC) - began > timedelta(seconds=1.5)
    assert node.pods() == set()


def test_a_budget_that_never_gives_way_fails_in_time(node: NodeUnderTest) -> None:
    """At the deadline the pod still runs, and the failure names it, its budget and the remedy."""
    pod = node.add_pod("web")
    node.protect(pod)
    with node.kubelet():
        said = reason(do(handler_for(node), seconds=2))

    assert f"default/{pod} (The disruption budget {pod} needs 1 healthy pods and has 1 currently)" in said
    assert "on_deadline" in said
    assert node.pods() == {pod}


def test_go_on_leaves_the_rest_and_names_it(node: NodeUnderTest) -> None:
    """With on_deadline = "go-on" what is left at the deadline is left, and told."""
    pod = node.add_pod("web")
    node.protect(pod)

    assert f"left at the deadline: default/{pod}" in detail(do(handler_for(node, on_deadline="go-on"), seconds=2))
    assert node.pods() == {pod}


def test_force_kills_the_rest(node: NodeUnderTest) -> None:
    """With on_deadline = "force" what a budget or a slow end kept is gone at the deadline; what is spared stays."""
    held = node.add_pod("held")
    node.protect(held)
    slow = node.add_pod("slow")
    spared = node.add_pod("spared", owner=None)

    said = detail(do(handler_for(node, on_deadline="force"), seconds=5))

    assert f"killed: default/{held}, default/{slow}" in said
    assert node.pods() == {spared}


def test_time_to_stop_is_fitted_to_the_deadline(node: NodeUnderTest) -> None:
    """A pod that wants longer than there is gets what there is; one that fits gets its own."""
    long = node.add_pod("long", terminationGracePeriodSeconds=600)
    short = node.add_pod("short", terminationGracePeriodSeconds=3)
    with node.kubelet():
        do(handler_for(node), seconds=10)

    assert 7 <= node.graces[long] <= 10
    assert node.graces[short] == 3


def test_a_stopping_agent_kills_nothing(node: NodeUnderTest) -> None:
    """Told to stop, the handler leaves a protected pod alone even where it would kill it at the deadline."""
    pod = node.add_pod("web")
    node.protect(pod)
    stopping = threading.Event()
    timer = threading.Timer(0.5, stopping.set)
    timer.start()
    said = reason(handler_for(node, on_deadline="force").do(task(Direction.DO, stopping=stopping)))
    timer.join()

    assert "the agent stopped" in said
    assert node.pods() == {pod}


def test_an_api_server_that_restarts_is_waited_for(server: Server, node: NodeUnderTest) -> None:
    """While it does not answer nothing is given up; afterwards the drain goes on."""
    pod = node.add_pod("web")
    node.protect(pod)
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(do, handler_for(node), seconds=60)
        while not node.events():
            pass
        server.stop_answering()
        threading.Event().wait(2)
        server.answer_again()
        node.protect(pod, allowed=1)
        with node.kubelet():
            said = detail(answer.result())

    assert "pods evicted: 1" in said
    assert node.pods() == set()
