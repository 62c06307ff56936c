"""The agent's metrics, as Prometheus's own parser reads them."""

import re
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from forewarn.agent.decision.run_counters import RunCounters
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.agent.observation.metrics import render
from forewarn.agent.observation.status import AgentStatus
from forewarn.core.model import EventStatus, EventType
from tests.agent.samples import NOW, REBOOT, status, view

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "local-agent-api.md"
DONE = HandlerDone()
Samples = dict[tuple[str, tuple[str, ...]], float]


def read(counters: RunCounters, result: AgentStatus, *handlers: str) -> Samples:
    """Return the samples by their names and the values of their labels."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(render(counters, result, handlers).decode())
        for sample in family.samples
    }


def test_what_was_counted_is_told() -> None:
    """Events by type, calls of handlers by result with the time they took, approvals by what came of them."""
    counters = RunCounters()
    counters.count_event(EventType.REBOOT)
    counters.count_event(EventType.REBOOT)
    counters.count_run("lb", Direction.DO, DONE, 1.25)
    counters.count_run("lb", Direction.DO, HandlerFailed("no"), 2)
    counters.count_run("lb", Direction.UNDO, DONE, 0.5)
    counters.count_approval("sent")

    found = read(counters, status(), "lb")

    assert found["forewarn_agent_events_total", ("Reboot",)] == 2
    assert found["forewarn_agent_handler_runs_total", ("lb", "do", "done")] == 1
    assert found["forewarn_agent_handler_runs_total", ("lb", "do", "failed")] == 1
    assert found["forewarn_agent_handler_seconds_sum", ("lb", "do")] == 3.25
    assert found["forewarn_agent_handler_seconds_count", ("lb", "do")] == 2
    assert found["forewarn_agent_handler_seconds_count", ("lb", "undo")] == 1
    assert found["forewarn_agent_approvals_total", ("sent",)] == 1


def test_counters_are_there_before_anything_happened() -> None:
    """A rate can be taken from the first event on: what can be named is told as nought."""
    found = read(RunCounters(), status(), "lb")

    assert found["forewarn_agent_events_total", ("Terminate",)] == 0
    for direction in ("do", "undo"):
        assert found["forewarn_agent_handler_runs_total", ("lb", direction, "done")] == 0
        assert found["forewarn_agent_handler_runs_total", ("lb", direction, "failed")] == 0
        assert found["forewarn_agent_handler_seconds_count", ("lb", direction)] == 0
    assert found["forewarn_agent_approvals_total", ("failed",)] == 0
    assert found["forewarn_agent_events", ("Scheduled",)] == 0


def test_gauges_are_those_of_the_status() -> None:
    """Endpoint, events, listeners, holds, release and start come from the status at that moment."""
    started = replace(REBOOT, id="b", status=EventStatus.STARTED, not_before=None)

    found = read(RunCounters(), status(view(), view(started), listeners=3))

    assert found["forewarn_agent_endpoint_up", ()] == 1
    assert found["forewarn_agent_memory_writable", ()] == 1
    assert found["forewarn_agent_events", ("Scheduled",)] == 1
    assert found["forewarn_agent_events", ("Started",)] == 1
    assert found["forewarn_agent_listeners", ()] == 3
    assert found["forewarn_agent_holds", ()] == 2
    assert found["forewarn_agent_info", ("1.2.3",)] == 1
    assert found["process_start_time_seconds", ()] == NOW.timestamp()


def test_trouble_brings_the_endpoint_down() -> None:
    """An endpoint that does not answer, and a memory that cannot be written, are seen."""
    found = read(RunCounters(), status(trouble="no answer", memory_trouble="disk full"))

    assert found["forewarn_agent_endpoint_up", ()] == 0
    assert found["forewarn_agent_memory_writable", ()] == 0


def test_the_next_not_before_is_the_earliest_that_concerns_this_vm() -> None:
    """Others' events and events that have started do not count."""
    later = replace(REBOOT, id="b", not_before=NOW + timedelta(hours=2))
    others = replace(REBOOT, id="c", resources=("web-1",), not_before=NOW + timedelta(minutes=1))
    started = replace(REBOOT, id="d", status=EventStatus.STARTED, not_before=None)

    found = read(RunCounters(), status(view(later), view(others), view(REBOOT), view(started)))

    expected = (NOW + timedelta(minutes=15)).timestamp()
    assert found["forewarn_agent_next_not_before_timestamp_seconds", ()] == expected


def test_without_an_event_there_is_no_next_not_before() -> None:
    """No sample is better than a time that means nothing."""
    assert ("forewarn_agent_next_not_before_timestamp_seconds", ()) not in read(RunCounters(), status())


def test_an_event_that_is_gone_counts_no_longer() -> None:
    """What is still to be put back for it does not make it present."""
    found = read(RunCounters(), status(replace(view(), is_gone=True)))

    assert found["forewarn_agent_events", ("Scheduled",)] == 0
    assert found["forewarn_agent_holds", ()] == 0
    assert ("forewarn_agent_next_not_before_timestamp_seconds", ()) not in found


def test_types_that_nobody_knows_are_counted_as_other() -> None:
    """An endpoint that makes up types makes no series."""
    counters = RunCounters()
    for number in range(1000):
        counters.count_event(f"Teleport{number}")

    assert read(counters, status())["forewarn_agent_events_total", ("other",)] == 1000
    assert b"Teleport" not in render(counters, status())


def test_names_are_escaped() -> None:
    """A handler may be called anything; the parser reads back what it was called."""
    name = 'lb "a"\\n\\ \n{b}'
    counters = RunCounters()
    counters.count_run(name, Direction.DO, DONE, 1)

    assert read(counters, status(), name)["forewarn_agent_handler_runs_total", (name, "do", "done")] == 1


def test_every_family_says_what_it_is() -> None:
    """Each has a type and a sentence."""
    families = list(text_string_to_metric_families(render(RunCounters(), status(view())).decode()))

    assert len(families) >= 12
    assert [family.name for family in families if family.type == "unknown" or not family.documentation] == []


def test_every_metric_is_described() -> None:
    """The page's table has the names that are told, and no others."""
    counters = RunCounters()
    counters.count_run("lb", Direction.DO, DONE, 1)
    rows = re.findall(r"^\| (`(?:forewarn|process)_.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == {
        name for name, _ in read(counters, status(view()), "lb")
    }
