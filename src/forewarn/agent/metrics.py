"""What the agent has counted, in Prometheus's text format; by hand, as the agent is to stay small."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from forewarn.agent.handler import Direction
from forewarn.agent.status import Status
from forewarn.core.model import EventStatus, EventType
from forewarn.wire.dates import read_time
from forewarn.wire.words import STATUSES, TYPES

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
"""Stands for every type that Azure had not named when this was written, so that no endpoint can make up series."""
APPROVALS = ("sent", "refused", "failed")
"""What came of approvals; told before the first of them."""

_Sample = tuple[str, Mapping[str, str], float]
"""What the name ends in, labels, value."""


class Tally:
    """Counts, and tells the counts beside what a status says. Totals begin with the process."""

    def __init__(self) -> None:
        self._events: Counter[str] = Counter()
        self._runs: Counter[tuple[str, str, str]] = Counter()
        self._seconds: dict[tuple[str, str], tuple[float, int]] = {}
        self._approvals: Counter[str] = Counter(dict.fromkeys(APPROVALS, 0))

    def saw(self, type_: EventType | str) -> None:
        """Count an event that is new."""
        self._events[TYPES[type_] if isinstance(type_, EventType) else OTHER] += 1

    def ran(self, handler: str, direction: Direction, result: str, seconds: float) -> None:
        """Count a call of a handler that ended, or was left out after no time."""
        self._runs[handler, direction.value, result] += 1
        total, count = self._seconds.get((handler, direction.value), (0.0, 0))
        self._seconds[handler, direction.value] = (total + seconds, count + 1)

    def approved(self, result: str) -> None:
        """Count an approval that the agent gave, by what came of it."""
        self._approvals[result] += 1

    def render(self, status: Status) -> bytes:
        """Return everything, in the text format."""
        return "".join([*self._counted(), *_of(status)]).encode()

    def _counted(self) -> Iterator[str]:
        types = [*TYPES.values(), OTHER]
        yield _family(
            "events_total",
            "counter",
            "Events seen for the first time.",
            [("", {"type": each}, self._events[each]) for each in types],
        )
        yield _family(
            "handler_runs_total",
            "counter",
            "Calls of handlers that ended.",
            [
                ("", {"handler": handler, "direction": direction, "result": result}, count)
                for (handler, direction, result), count in sorted(self._runs.items())
            ],
        )
        yield _family(
            "handler_seconds",
            "summary",
            "How long handlers took.",
            [
                sample
                for (handler, direction), (total, count) in sorted(self._seconds.items())
                for labels in [{"handler": handler, "direction": direction}]
                for sample in (("_sum", labels, total), ("_count", labels, count))
            ],
        )
        yield _family(
            "approvals_total",
            "counter",
            "Approvals given, by what came of them.",
            [("", {"result": result}, count) for result, count in sorted(self._approvals.items())],
        )


def _of(status: Status) -> Iterator[str]:
    statuses = [STATUSES[EventStatus.SCHEDULED], STATUSES[EventStatus.STARTED]]
    events = [view for view in status.events if not view.is_gone]
    present = Counter(dict.fromkeys((*statuses, OTHER), 0))
    present.update(word if (word := view.event.event_status) in statuses else OTHER for view in events)
    announced = [
        read_time(view.event.not_before).timestamp() for view in events if view.concerns_me and view.event.not_before
    ]
    yield _gauge("endpoint_up", "Whether the endpoint answers.", float(not status.trouble))
    yield _gauge("memory_writable", "Whether the agent's memory can be written.", float(not status.memory_trouble))
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
    yield _gauge("listeners", "Programs that listen on the local socket, or hold.", status.listeners)
    yield _gauge("holds", "Holds on approvals.", sum(len(view.holds) for view in events))
    yield _family("info", "gauge", "The release that runs.", [("", {"version": status.version}, 1)])
    started = status.started_at.timestamp()
    yield _family("process_start_time_seconds", "gauge", "When the agent started.", [("", {}, started)], prefix="")


def _gauge(name: str, told: str, value: float) -> str:
    return _family(name, "gauge", told, [("", {}, value)])


def _family(name: str, kind: str, told: str, samples: Iterable[_Sample], prefix: str = "forewarn_agent_") -> str:
    lines = [f"# HELP {prefix}{name} {told}\n# TYPE {prefix}{name} {kind}\n"]
    lines += [f"{prefix}{name}{end}{_labels(labels)} {_number(value)}\n" for end, labels, value in samples]
    return "".join(lines)


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
