"""Renders the agent's metrics in the Prometheus text format, without a library to keep the agent small."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from forewarn.agent.decision.run_counters import OTHER, HandlerRunCounts, RunCounters
from forewarn.agent.handler import Direction
from forewarn.agent.observation.status import AgentStatus
from forewarn.core.model import EventStatus
from forewarn.wire.azure_names import STATUSES, TYPES
from forewarn.wire.dates import read_time

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
APPROVALS = ("sent", "refused", "failed")
"""Results of approvals; all are rendered from the start."""

_Sample = tuple[str, Mapping[str, str], float]
"""Suffix of the name, labels, value."""


def render(counters: RunCounters, status: AgentStatus, handlers: Iterable[str] = ()) -> bytes:
    """Return all metrics; counters of these handlers are rendered from the start, as 0."""
    return "".join([*_counted(counters, tuple(handlers)), *_of(status)]).encode()


def _counted(counters: RunCounters, handlers: tuple[str, ...]) -> Iterator[str]:
    runs = [
        (handler, direction, counters.runs.get(handler, {}).get(direction, HandlerRunCounts()))
        for handler in sorted(handlers)
        for direction in Direction
    ]
    yield _family(
        "events_total",
        "counter",
        "Events seen for the first time.",
        [("", {"type": each}, counters.events.get(each, 0)) for each in (*TYPES.values(), OTHER)],
    )
    yield _family(
        "handler_runs_total",
        "counter",
        "Calls of handlers that ended.",
        [
            ("", {"handler": handler, "direction": direction.value, "result": result}, count)
            for handler, direction, each in runs
            for result, count in (("done", each.done), ("failed", each.failed))
        ],
    )
    yield _family(
        "handler_seconds",
        "summary",
        "How long handlers took.",
        [
            (end, {"handler": handler, "direction": direction.value}, value)
            for handler, direction, each in runs
            for end, value in (("_sum", each.seconds), ("_count", each.done + each.failed))
        ],
    )
    yield _family(
        "approvals_total",
        "counter",
        "Approvals sent, by result.",
        [("", {"result": result}, counters.approvals.get(result, 0)) for result in sorted(APPROVALS)],
    )


def _of(status: AgentStatus) -> Iterator[str]:
    statuses = [STATUSES[EventStatus.SCHEDULED], STATUSES[EventStatus.STARTED]]
    events = [view for view in status.events if not view.is_gone]
    present = Counter(dict.fromkeys((*statuses, OTHER), 0))
    present.update(word if (word := view.event.event_status) in statuses else OTHER for view in events)
    announced = [
        read_time(view.event.not_before).timestamp() for view in events if view.concerns_me and view.event.not_before
    ]
    yield _gauge("endpoint_up", "Whether the endpoint answers.", float(not status.trouble))
    yield _gauge("memory_writable", "Whether the agent's memory can be written.", float(not status.memory_trouble))
    yield _gauge("clock_offset_seconds", "What the endpoint's clock is ahead, if it counts.", status.clock_offset)
    yield _gauge("dry_run", "Whether the agent only says what it would do.", float(status.dry_run))
    yield _family(
        "events",
        "gauge",
        "Events in the document now.",
        [("", {"status": each}, count) for each, count in present.items()],
    )
    yield _family(
        "next_not_before_timestamp_seconds",
        "gauge",
        "The earliest NotBefore of an event that concerns this VM; absent where there is none.",
        [("", {}, min(announced))] if announced else [],
    )
    ignored = {"unreadable": status.unreadable, "too-many": status.ignored}
    yield _family(
        "ignored_events",
        "gauge",
        "Events of the document that are ignored.",
        [("", {"reason": reason}, count) for reason, count in ignored.items()],
    )
    yield _gauge("listeners", "Programs that listen on the local socket, or hold.", status.listeners)
    yield _gauge("holds", "Holds on approvals.", sum(len(view.holds) for view in events))
    yield _family("info", "gauge", "The release that runs.", [("", {"version": status.version}, 1)])
    started = status.started_at.timestamp()
    yield _family("process_start_time_seconds", "gauge", "When the agent started.", [("", {}, started)], prefix="")


def _gauge(name: str, help_text: str, value: float) -> str:
    return _family(name, "gauge", help_text, [("", {}, value)])


def _family(name: str, kind: str, help_text: str, samples: Iterable[_Sample], prefix: str = "forewarn_agent_") -> str:
    lines = [f"# HELP {prefix}{name} {help_text}\n# TYPE {prefix}{name} {kind}\n"]
    lines += [f"{prefix}{name}{end}{_labels(labels)} {_number(value)}\n" for end, labels, value in samples]
    return "".join(lines)


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
