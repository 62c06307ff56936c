"""Prometheus metrics, collected on request."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from forewarn import __version__
from forewarn.control.bodies import ClusterView, WorkerView
from forewarn.control.notifications.worker import DeliveryState, DeliveryStatus
from forewarn.control.server.event_counters import EventCounters
from forewarn.core.lifecycle import ENDS
from forewarn.core.model import EventStatus, EventType, HostState
from forewarn.core.rollouts.model import RolloutState
from forewarn.node.histogram import Histogram
from forewarn.node.node import Node
from forewarn.wire.azure_names import STATUSES, TYPES

CAUSES = ("approved", "not_before", "at_once", "other")
"""What let an event start; ``not_before``: it was not approved in time."""
UNFINISHED = tuple(status for status in EventStatus if status not in ENDS)
REFUSALS = (400, 403, 429, 500, 503)
"""Statuses that are exposed before their first occurrence."""


class DeliveryStatusSource(Protocol):
    """Delivery status of subscriptions."""

    def deliveries(self) -> Mapping[str, DeliveryStatus]:
        """Return the delivery status of every subscription, by id."""


class MetricSources(msgspec.Struct, frozen=True):
    """Sources of metrics in other parts of the service."""

    documents: Callable[[], Iterable[tuple[str, int, int]]] = lambda: ()
    """Number of documents served, by api-version and status."""
    refusals: Callable[[], Mapping[int, int]] = dict
    """Number of refused requests of VMs, by status."""
    control_refusals: Callable[[], int] = int
    """Number of requests without a valid token."""
    connections: Callable[[], int] = int
    """Number of open connections of VMs."""
    delays: Callable[[], Histogram] = Histogram
    """How long requests of VMs waited before they were read, sampled each second."""
    enrolled: Callable[[], int] = int
    """Number of enrolled groups."""
    outbox: DeliveryStatusSource | None = None
    workers: Callable[[], Iterable[WorkerView]] = lambda: ()
    """The processes that answer VMs, if others than this one do."""
    cluster: Callable[[], ClusterView] | None = None
    """The nodes that share the journal, where it is not this node's own."""
    reload: Callable[[], tuple[float, bool]] | None = None
    """Time of the last configuration load, in seconds since 1970, and whether the last attempt succeeded."""


class Metrics(Collector):
    """Collects metrics of the node, its event counters, the metadata service and the control plane."""

    def __init__(self, node: Node, event_counters: EventCounters, sources: MetricSources) -> None:
        self._node = node
        self._event_counters = event_counters
        self._sources = sources
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def describe(self) -> Iterator[Metric]:
        """Describe nothing: otherwise the registry would collect everything once."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        yield _gauge("info", "The release that runs.", [([__version__], 1)], "version")
        if self._sources.reload:
            at, is_successful = self._sources.reload()
            yield _gauge(
                "config_last_reload_successful", "Whether the last reload succeeded.", _one(int(is_successful))
            )
            yield _gauge("config_last_reload_success_timestamp_seconds", "When one last succeeded.", _one(at))
        yield from self._fleet()
        yield from self._rollouts()
        yield from self._events()
        yield from self._journal()
        yield from self._metadata()
        yield from self._control()
        if self._sources.cluster:
            yield from _cluster(self._sources.cluster())

    def _fleet(self) -> Iterator[Metric]:
        fleet = self._node.replica.fleet
        yield _gauge("vms", "VMs in the fleet.", _one(len(fleet.vms)))
        yield _gauge("hosts", "Hosts in the fleet.", _one(len(fleet.hosts)))
        states = Counter(list(fleet.host_states.values()))
        states[HostState.UP] = len(fleet.hosts) - states.total()
        by_state = [([str(state)], states[state]) for state in HostState]
        yield _gauge("hosts_by_state", "Hosts in the fleet, by state.", by_state, "state")
        yield _gauge("hosts_cordoned", "Hosts that receive no VMs.", _one(len(fleet.cordoned)))
        yield _gauge("groups", "Groups in the fleet.", _one(len(fleet.groups)))
        yield _gauge("groups_enrolled", "Groups that are on, as of the last minute.", _one(self._sources.enrolled()))

    def _rollouts(self) -> Iterator[Metric]:
        rollouts = list(self._node.replica.fleet.rollouts.values())
        states = Counter(rollout.state for rollout in rollouts)
        yield _gauge(
            "rollouts", "Rollouts, by state.", [([str(state)], states[state]) for state in RolloutState], "state"
        )
        counts = [
            ([rollout.name, key], value)
            for rollout in rollouts
            for key, value in (
                ("done", rollout.done),
                ("failed", rollout.failed),
                ("skipped", rollout.skipped),
                ("active", len(rollout.active)),
                ("waiting", len(rollout.hosts) - rollout.finished - len(rollout.active)),
            )
        ]
        yield _gauge("rollout_hosts", "Hosts of rollouts, by how they stand.", counts, "rollout", "step")
        late = [([rollout.name], int(rollout.is_late)) for rollout in rollouts]
        yield _gauge("rollout_late", "Whether a rollout is behind schedule.", late, "rollout")

    def _events(self) -> Iterator[Metric]:
        event_counters = self._event_counters
        announced = [([word], event_counters.announced[type_]) for type_, word in TYPES.items()]
        started = [([cause], event_counters.started[cause]) for cause in CAUSES]
        approvals = [(["yes"], event_counters.approvals[True]), (["no"], event_counters.approvals[False])]
        yield _gauge(
            "events", "Unfinished events.", _by_status(event_counters.unfinished, UNFINISHED), "type", "status"
        )
        yield _counter("events_announced", "Events announced, or born Started.", announced, "type")
        yield _counter("events_started", "Events that started, by what let them.", started, "cause")
        yield _counter("events_ended", "Events that ended.", _by_status(event_counters.ended, ENDS), "type", "status")
        yield _counter("approvals", "Approvals, by whether they count.", approvals, "counts")
        yield _counter("postponements", "Postponements.", _one(event_counters.postponements))
        yield _histogram(
            "approval_delay_seconds",
            "From announcement to the first approval that counts.",
            event_counters.until_approved,
        )
        yield _histogram(
            "first_fetch_delay_seconds",
            "From announcement to the first time a VM read it.",
            event_counters.until_fetched,
        )

    def _journal(self) -> Iterator[Metric]:
        node = self._node
        cluster = self._sources.cluster
        is_leading = cluster is None or cluster().role == "leading"
        writable = _one(int(node.writer.is_sound)) if is_leading else ()
        yield _gauge("journal_writable", "Whether this node, if it leads, can write the journal.", writable)
        yield _counter("journal_entries", "Entries in the journal since its beginning.", _one(node.replica.revision))
        yield _counter(
            "listener_faults",
            "How often a part of the service failed on a commit and was loaded again.",
            [([listener], count) for listener, count in node.replica.feed.faults.items()],
            "listener",
        )
        yield _histogram("journal_append_seconds", "How long it took to make entries durable.", node.writer.appends)

    def _metadata(self) -> Iterator[Metric]:
        documents = [([version, str(status)], count) for version, status, count in self._sources.documents()]
        refusals = {**dict.fromkeys(REFUSALS, 0), **self._sources.refusals()}
        yield _counter("documents", "Documents served to VMs.", documents, "version", "status")
        yield _counter(
            "refusals",
            "Requests of VMs that were refused.",
            [([str(status)], count) for status, count in refusals.items()],
            "status",
        )
        yield _gauge("connections", "Connections that VMs have open.", _one(self._sources.connections()))
        if workers := tuple(self._sources.workers()):
            yield from _workers(workers)

    def _control(self) -> Iterator[Metric]:
        yield _counter(
            "control_refusals",
            "Requests to the control API without a token that is in force.",
            _one(self._sources.control_refusals()),
        )
        deliveries = self._sources.outbox.deliveries() if self._sources.outbox else {}
        subscriptions = self._node.replica.fleet.subscriptions
        known = [(subscriptions[id_].name, each) for id_, each in deliveries.items() if id_ in subscriptions]
        waiting = [([name], each.waiting) for name, each in known]
        up = [([name], int(each.state is DeliveryState.HEALTHY)) for name, each in known]
        yield _gauge("subscription_waiting", "Notices that wait for a subscriber.", waiting, "subscription")
        yield _gauge("subscription_up", "Whether notices get through to a subscriber.", up, "subscription")


def _workers(workers: Sequence[WorkerView]) -> Iterator[Metric]:
    def of_each(value: Callable[[WorkerView], float]) -> "_Rows":
        return [([str(each.number)], value(each)) for each in workers]

    yield _gauge(
        "worker_up", "Whether the worker answers VMs.", of_each(lambda each: each.state == "listening"), "worker"
    )
    yield _gauge("worker_revision", "The last revision it can show.", of_each(lambda each: each.revision), "worker")
    yield _gauge("worker_connections", "Its open connections.", of_each(lambda each: each.connections), "worker")
    yield _gauge("worker_long_polls", "Its waiting long polls.", of_each(lambda each: each.long_polls), "worker")
    yield _gauge("worker_age_seconds", "Seconds since it was started.", of_each(lambda each: each.age), "worker")
    yield _gauge(
        "worker_leader_age_seconds",
        "Seconds since it knew its leader to be well.",
        of_each(lambda each: each.leader_age),
        "worker",
    )
    yield _gauge(
        "worker_silence_seconds",
        "Seconds since it last sent its leader a message.",
        of_each(lambda each: each.silence),
        "worker",
    )
    yield _counter("worker_restarts", "How often it was replaced.", of_each(lambda each: each.restarts), "worker")


def _cluster(view: ClusterView) -> Iterator[Metric]:
    yield _gauge("cluster_leading", "Whether this node leads.", _one(int(view.role == "leading")))
    yield _gauge(
        "cluster_leader_known", "Whether a node leads, as far as this one knows.", _one(int(bool(view.leader)))
    )
    yield _counter("cluster_term", "The term of the leader; it grows with each change of leader.", _one(view.term))
    yield _gauge("cluster_nodes", "Nodes that were heard of recently.", _one(len(view.nodes)))
    yield _gauge(
        "cluster_heartbeat_age_seconds",
        "Seconds since the database last answered a heartbeat of this node.",
        _one(view.heartbeat_age),
    )
    yield _gauge("cluster_behind_revisions", "Entries that this node lacks.", _one(view.revisions_behind))
    yield _gauge(
        "cluster_behind_seconds",
        "Seconds since this node certainly held everything that was durable.",
        _one(view.behind),
    )
    yield _gauge(
        "cluster_behind", "Whether this node is behind for longer than it may be.", _one(int(view.is_behind))
    )
    yield _gauge(
        "cluster_clock_skew_seconds",
        "Seconds that this node's clock is ahead of the database's, at least.",
        _one(view.clock_skew),
    )
    yield _counter(
        "cluster_reloads",
        "How often the journal did not continue what this node held, so that it was loaded again.",
        _one(view.reloads),
    )


_Rows = Iterable[tuple[Sequence[str], float]]


def _one(value: float) -> _Rows:
    return [((), value)]


def _by_status(counts: Mapping[tuple[EventType, EventStatus], int], statuses: Iterable[EventStatus]) -> _Rows:
    """Return a count for every type and status, so that none is missing before its first event."""
    return [
        ([word, STATUSES[status]], counts.get((type_, status), 0))
        for type_, word in TYPES.items()
        for status in statuses
    ]


def _gauge(name: str, help_text: str, rows: _Rows, *labels: str) -> Metric:
    family = GaugeMetricFamily(f"forewarn_{name}", help_text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _counter(name: str, help_text: str, rows: _Rows, *labels: str) -> Metric:
    family = CounterMetricFamily(f"forewarn_{name}", help_text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _histogram(name: str, help_text: str, durations: Histogram) -> Metric:
    buckets = [("+Inf" if bound == float("inf") else str(bound), count) for bound, count in durations.up_to()]
    return HistogramMetricFamily(f"forewarn_{name}", help_text, buckets=buckets, sum_value=durations.total)
