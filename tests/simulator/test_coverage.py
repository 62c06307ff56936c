"""What was reached is added up over runs, and what was never reached is named."""

from collections import Counter
from pathlib import Path

import pytest

from forewarn.core.facts import Announced, Completed
from forewarn.core.lifecycle import TRANSITIONS
from forewarn.core.model import Event, EventSource, EventStatus, EventType, Operation
from forewarn.simulator.actions.kinds import KINDS
from forewarn.simulator.actions.service_faults import KillService
from forewarn.simulator.coverage import EXPECTED, Coverage, of_action, of_facts
from forewarn.simulator.environment.clock import EPOCH
from forewarn.simulator.environment.journal import AppendFault
from tests.simulator.plans import large_plan, restart

EVENT = Event(
    "e",
    EventType.REBOOT,
    EventSource.USER,
    "web",
    ("web-0",),
    EventStatus.SCHEDULED,
    EPOCH,
    EPOCH,
    Operation.VM_RESTART,
)


def test_an_action_reaches_its_kind_and_its_choice() -> None:
    """A command is counted by what it asks for."""
    assert list(of_action(restart(1.0, "web-0", "k"))) == [
        "action RequestVmOperation",
        "action RequestVmOperation restart",
    ]
    assert list(of_action(KillService(at=1.0, callbacks=3))) == ["action KillService"]


def test_facts_reach_transitions_statuses_and_events() -> None:
    """What is committed is counted by the steps of the events' lives."""
    assert list(of_facts([Announced(EVENT), Completed("e", EPOCH, group="web")])) == [
        "fact Announced",
        "transition new by Announced",
        "status scheduled",
        "event reboot by vm restart",
        "fact Completed",
        "transition started by Completed",
        "status completed",
    ]


def test_everything_that_there_is_is_expected() -> None:
    """A new kind of action, choice, fault or transition is a gap until a run reaches it."""
    expected = {name for names in EXPECTED.values() for name in names}

    assert {f"action {kind.__name__} {choice}" for kind in KINDS for choice in kind.choices} < expected
    assert {f"action {kind.__name__}" for kind in KINDS} < expected
    assert {f"append {fault}" for fault in AppendFault} < expected
    assert len(EXPECTED["transitions"]) == len(TRANSITIONS)
    assert {"event freeze by vm move", "event redeploy by vm move"} < expected


@pytest.mark.parametrize("part", EXPECTED)
def test_no_name_is_expected_twice(part: str) -> None:
    """The numbers of a report are numbers of different things."""
    assert len(set(EXPECTED[part])) == len(EXPECTED[part])


def test_runs_add_up() -> None:
    """Counts are sums, and every run counts."""
    coverage = Coverage()
    coverage.add(Counter(of_action(restart(1.0, "web-0", "k"))))
    coverage.add(Counter(name for action in large_plan().actions for name in of_action(action)))

    assert (coverage.runs, coverage.reached["action RequestVmOperation restart"]) == (2, 21)
    assert "action RequestVmOperation restart" not in coverage.never("commands")
    assert "action RequestVmOperation evict" in coverage.never("commands")


def test_pairs_are_those_of_one_run() -> None:
    """Two faults in two runs are no pair; a fault that was prepared counts when it happens."""
    apart, together = Coverage(), Coverage()
    apart.add(Counter({"append refused": 1}))
    apart.add(Counter({"action KillService": 1}))
    together.add(Counter({"append refused": 3, "action KillService": 2, "action FailAppends": 1}))

    assert not [name for name in apart.reached if name.startswith("pair")]
    assert [name for name in together.reached if name.startswith("pair")] == [
        "pair action KillService + append refused"
    ]
    assert "pair action KillService + append refused" in EXPECTED["pairs"]


def test_a_saved_coverage_is_loaded_and_merged(tmp_path: Path) -> None:
    """A longer run goes on where the last one ended."""
    coverage = Coverage()
    coverage.add(Counter({"disk full": 2}))
    path = tmp_path / "new" / "coverage.json"
    coverage.save(path)

    loaded = Coverage.load(path)
    loaded.merge(coverage)

    assert (loaded.runs, loaded.reached["disk full"]) == (2, 4)
    assert Coverage.load(tmp_path / "none.json").runs == 0


def test_a_report_names_what_was_never_reached() -> None:
    """The table counts; below it stand the gaps, or the first of them."""
    coverage = Coverage()
    coverage.add(Counter({f"status {status}": 1 for status in EventStatus}))
    report = coverage.report(longest=3)

    assert "reached by 1 runs" in report
    assert "statuses            5      5" in report
    assert "statuses never reached" not in report
    assert "  RequestVmOperation; RequestVmOperation restart; RequestVmOperation redeploy; and " in report
    assert "append unknown-written" in coverage.report(longest=None)
