"""Metrics are gathered when somebody asks, in the format that Prometheus reads."""

import asyncio
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from forewarn.clocks import ManualClock
from forewarn.control.bodies import ClusterView, VmOperationBody, WorkerView
from forewarn.control.client import ControlClient
from forewarn.control.notifications.worker import DeliveryState, DeliveryStatus
from forewarn.control.server.event_counters import EventCounters
from forewarn.control.server.metrics import Metrics, MetricSources
from forewarn.control.transport import UnixTransport
from forewarn.core.commands import SetSubscription
from forewarn.core.model import Subscription, SubscriptionKind
from forewarn.core.notice import Rules
from forewarn.journal.memory import MemoryJournal
from forewarn.node.node import Node
from tests.control.history_harness import ADA, FLEET
from tests.harness import open_harness

Samples = dict[tuple[str, tuple[str, ...]], float]


class Parked:
    """Tells that one subscriber is down."""

    def deliveries(self) -> dict[str, DeliveryStatus]:
        return {"s1": DeliveryStatus(state=DeliveryState.PARKED, waiting=12), "gone": DeliveryStatus()}


def read(text: bytes) -> Samples:
    """Return the samples by their names and the values of their labels, in the order of the labels' names."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


async def sampled(sources: MetricSources) -> Samples:
    """Return the metrics of a node with the small fleet and one subscription."""
    node, event_counters = Node(MemoryJournal(), ManualClock(), Rules()), EventCounters()
    node.replica.subscribe(event_counters)
    metrics = Metrics(node, event_counters, sources)
    await node.start()
    await node.submit(FLEET)
    subscription = Subscription("s1", "ops", SubscriptionKind.WEBHOOK, "https://example.org/hook")
    await node.submit(SetSubscription(id="subscribe", by=ADA, subscription=subscription))
    try:
        return read(metrics.render())
    finally:
        await node.stop()


def test_the_node_s_own_counts_are_told() -> None:
    """The fleet, the journal and how long appends took."""
    found = asyncio.run(sampled(MetricSources()))

    assert found["forewarn_vms", ()] == 3
    assert found["forewarn_journal_writable", ()] == 1
    assert found["forewarn_journal_entries_total", ()] == found["forewarn_journal_append_seconds_count", ()] == 2
    assert found["forewarn_journal_append_seconds_bucket", ("+Inf",)] == 2


def test_every_kind_is_there_before_its_first_event() -> None:
    """A rate can be told from the first of them on."""
    found = asyncio.run(sampled(MetricSources()))

    assert found["forewarn_events_ended_total", ("Failed", "Preempt")] == 0
    assert found["forewarn_events_started_total", ("not_before",)] == 0
    assert found["forewarn_refusals_total", ("429",)] == 0


def test_both_planes_are_read_when_somebody_asks() -> None:
    """Documents by api-version and status, refusals, connections, and notices that wait."""
    found = asyncio.run(
        sampled(
            MetricSources(
                documents=lambda: [("2020-07-01", 304, 7)],
                refusals=lambda: {403: 2, 418: 1},
                control_refusals=lambda: 5,
                connections=lambda: 9,
                enrolled=lambda: 1,
                outbox=Parked(),
            )
        )
    )

    assert found["forewarn_documents_total", ("304", "2020-07-01")] == 7
    assert found["forewarn_refusals_total", ("403",)] == 2
    assert found["forewarn_refusals_total", ("418",)] == found["forewarn_groups_enrolled", ()] == 1
    assert (found["forewarn_control_refusals_total", ()], found["forewarn_connections", ()]) == (5, 9)
    assert found["forewarn_subscription_waiting", ("ops",)] == 12
    assert found["forewarn_subscription_up", ("ops",)] == 0


def test_each_worker_has_its_own_metrics() -> None:
    """None of them is there where one process does everything."""
    worker = WorkerView(
        number=2,
        pid=7,
        state="joined",
        revision=5,
        connections=3,
        long_polls=1,
        age=9.0,
        leader_age=0.5,
        restarts=4,
        silence=2.5,
    )
    found = asyncio.run(sampled(MetricSources(workers=lambda: [worker])))
    values = {name: value for (name, labels), value in found.items() if labels == ("2",)}

    assert values == {
        "forewarn_worker_up": 0,
        "forewarn_worker_revision": 5,
        "forewarn_worker_connections": 3,
        "forewarn_worker_long_polls": 1,
        "forewarn_worker_age_seconds": 9,
        "forewarn_worker_leader_age_seconds": 0.5,
        "forewarn_worker_restarts_total": 4,
        "forewarn_worker_silence_seconds": 2.5,
    }
    assert not any("worker" in name for name, _ in asyncio.run(sampled(MetricSources())))


def test_metrics_are_served_by_the_control_api(tmp_path: Path) -> None:
    """As text that Prometheus understands, with what has just happened."""
    with open_harness(tmp_path) as harness, ControlClient.local(tmp_path) as client:
        event_counters = EventCounters()
        harness.node.replica.subscribe(event_counters)
        harness.context.metrics = Metrics(harness.node, event_counters, MetricSources()).render
        client.operate_vm("web-0", VmOperationBody(operation="freeze"))
        transport = UnixTransport(tmp_path)
        answer = transport.request("GET", "/metrics", None, {})
        found = read(answer.body)
        transport.close()

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert found["forewarn_events", ("Scheduled", "Freeze")] == 1


FOLLOWING = ClusterView(
    node="b", role="following", leader="a", term=7, heartbeat_age=0.25, revisions_behind=3, behind=1.5,
    is_behind=True, clock_skew=0.125, format=1, reloads=2, nodes=(),
)  # fmt: skip


def test_a_node_that_follows_says_nothing_of_writing() -> None:
    """Only the node that leads can tell; no alert about the journal fires for the others."""
    node = Node(MemoryJournal(), ManualClock(), Rules())
    found = read(Metrics(node, EventCounters(), MetricSources(cluster=lambda: FOLLOWING)).render())

    assert ("forewarn_journal_writable", ()) not in found
    assert found["forewarn_cluster_leading", ()] == 0


def test_a_node_of_a_cluster_tells_how_far_it_is() -> None:
    """Its role, and everything that an alert needs."""
    node = Node(MemoryJournal(), ManualClock(), Rules())
    found = read(Metrics(node, EventCounters(), MetricSources(cluster=lambda: FOLLOWING)).render())

    assert {
        name.removeprefix("forewarn_cluster_"): value for (name, _), value in found.items() if "cluster" in name
    } == {
        "leading": 0,
        "leader_known": 1,
        "term_total": 7,
        "nodes": 0,
        "heartbeat_age_seconds": 0.25,
        "behind_revisions": 3,
        "behind_seconds": 1.5,
        "behind": 1,
        "clock_skew_seconds": 0.125,
        "reloads_total": 2,
    }


def test_the_hosts_of_a_rollout_are_counted_by_how_they_stand(tmp_path: Path) -> None:
    """Every count is there, also where it is none."""
    with open_harness(tmp_path) as harness:
        body = {"name": "kernel", "terms": {"operation": "reboot", "all_hosts": True}}
        assert harness.ask("POST", "/v1/rollouts", body).status == 201
        harness.ask("POST", "/v1/rollouts/kernel/skip", {"host": "h2"})
        found = read(Metrics(harness.node, EventCounters(), MetricSources()).render())

    assert {labels: value for (name, labels), value in found.items() if name == "forewarn_rollout_hosts"} == {
        ("kernel", "done"): 0,
        ("kernel", "failed"): 0,
        ("kernel", "skipped"): 1,
        ("kernel", "active"): 0,
        ("kernel", "waiting"): 1,
    }
