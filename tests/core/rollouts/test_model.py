"""What records of rollouts mean that state nothing: the journal leaves these values out, so they never change."""

import msgspec
from msgspec.structs import asdict

from forewarn.core.rollouts.model import (
    HOST_ENDS,
    ConflictPolicy,
    FailurePolicy,
    HealthGate,
    HostRun,
    HostStep,
    RecordedLength,
    Rollout,
    RolloutOperation,
    RolloutOrder,
    RolloutResult,
    RolloutState,
    RolloutTerms,
    WindowClose,
)
from tests.core.harness import NOON

TERMS = RolloutTerms(operation=RolloutOperation.REBOOT)


def test_terms_that_are_not_stated() -> None:
    """One host at a time, no other limits, no waiting, a pause after the first failure."""
    assert asdict(TERMS) == {
        "operation": RolloutOperation.REBOOT,
        **dict.fromkeys(("hosts", "canary_hosts", "alerts", "windows"), ()),
        **dict.fromkeys(("selector", "command", "order_label", "prometheus", "opt_out", "asks", "description"), ""),
        **dict.fromkeys(("canary", "canary_settle", "settle", "lead", "expected"), 0),
        **dict.fromkeys(("host_limit", "every", "max_failures"), 0),
        "all_hosts": False,
        "command_timeout": 1800,
        "parallel": 1,
        "parallel_per": {},
        "fleet_share": 1.0,
        "group_share": 1.0,
        "order": RolloutOrder.NAME,
        "gate": None,
        "at_close": WindowClose.POSTPONE,
        "on_failure": FailurePolicy.PAUSE,
        "on_conflict": ConflictPolicy.REFUSE,
    }
    assert msgspec.to_builtins(TERMS) == {"operation": "reboot"}


def test_a_gate_that_states_no_time_has_half_a_minute() -> None:
    """And nothing else by itself."""
    empty = {"command": "", "url": "", "query": "", "threshold": "", "timeout": 30}
    assert asdict(HealthGate()) == empty


def test_a_rollout_of_which_nothing_is_recorded_has_not_begun() -> None:
    """It runs for the first time, and nothing is known of durations."""
    rollout = Rollout(name="k", id="1", by="ann", terms=TERMS, hosts=("h1",), started_at=NOON)
    given = {"name": "k", "id": "1", "by": "ann", "terms": TERMS, "hosts": ("h1",), "started_at": NOON}
    counts = ("canaries", "wave", "checked", "position", "done", "failed", "skipped", "forgiven")
    assert asdict(rollout) == given | {
        **dict.fromkeys(counts, 0),
        **dict.fromkeys(("reason", "blocked", "check_detail"), ""),
        **dict.fromkeys(("blocked_until", "check_after", "begins_at", "prediction"), None),
        **dict.fromkeys(("lasts", "command_lasts"), 0.0),
        "state": RolloutState.RUNNING,
        "active": (),
        "completed": {},
        "fleet_windows": (),
        "run": 1,
        "ends_as": RolloutResult.COMPLETED,
        "is_late": False,
    }
    assert RecordedLength() == RecordedLength(0.0, 0.0)


def test_a_host_of_which_nothing_is_recorded_has_no_events() -> None:
    """It was not cordoned, and no node runs a command on it."""
    run = HostRun("k", "h1", HostStep.COMMAND, 1, NOON, NOON)
    given = {"rollout": "k", "host": "h1", "step": HostStep.COMMAND, "wave": 1, "began_at": NOON, "at": NOON}
    assert asdict(run) == given | {
        **dict.fromkeys(("failure", "reason", "node"), ""),
        **dict.fromkeys(("until", "exit_status", "not_before"), None),
        **dict.fromkeys(("events", "completed"), ()),
        "then": HostStep.FAILED,
        "is_cordoned": False,
        "canceled": {},
        "term": 0,
    }


def test_a_host_ends_done_failed_or_skipped() -> None:
    """All other steps lead to one of these."""
    assert {HostStep.DONE, HostStep.FAILED, HostStep.SKIPPED} == HOST_ENDS
