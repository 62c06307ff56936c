"""The promises about rollouts: a history that keeps them is accepted, and one that breaks one is reported."""

from datetime import timedelta

import msgspec
import pytest

from forewarn.simulator.environment.clock import EPOCH
from forewarn.simulator.exchanges import ControlExchange, Exchange, HostCommandRun, MachineOperation
from forewarn.simulator.plan import Plan, PlannedGroup, PlannedVm
from forewarn.simulator.promises.checker import Promises

E1 = "11111111-1111-4111-8111-111111111111"
TERMS: dict[str, object] = {"operation": "reboot", "hosts": ["h1", "h2"]}
Told = tuple[str, str]
"""A fact and its sentence, or an event."""
STARTS: Told = ("rollout-started", "rollout r1 starts: reboot of 2 hosts")
PAUSES: Told = ("rollout-paused", "rollout r1 pauses: paused by ann")
RESUMES: Told = ("rollout-resumed", "rollout r1 goes on: resumed by ann")
STOPS: Told = ("rollout-stopping", "rollout r1 stops: canceled by ann")
ENDS: Told = ("rollout-ended", "rollout r1 is completed: 2 hosts done, 0 failed, 0 skipped, 0 not begun")
ANNOUNCED, STARTED, COMPLETED = ("announced", E1), ("started", E1), ("completed", E1)


def wave(number: int, hosts: str) -> Told:
    return "rollout-wave-started", f"rollout r1: wave {number} begins: {hosts}"


def host(name: str, step: str) -> Told:
    return "rollout-host-changed", f"rollout r1: host {name} {step}"


DONE_1 = (wave(1, "h1"), ANNOUNCED, host("h1", "is announced"), STARTED, COMPLETED, host("h1", "is done"))


def asked(
    method: str, path: str, body: object, answer: object, status: int = 200, groups: tuple[str, ...] | None = None
) -> ControlExchange:
    sends, answers = msgspec.json.encode(body), msgspec.json.encode(answer)
    return ControlExchange("ann", method, path, sends if body else b"", "", 4.9, 5.0, status, answers, groups)


def history(*facts: Told, at: float = 10.0) -> ControlExchange:
    """Return what the history is read as; what stands behind an announcement is of the same entry."""
    items: list[dict[str, object]] = []
    revision = 1
    for fact, said in facts:
        is_event = not fact.startswith("rollout-")
        revision += not (items and items[-1]["fact"] == "announced")
        detail = {} if is_event else {"rollout": said.split()[1].rstrip(":"), "said": said}
        when = EPOCH + timedelta(seconds=at)
        items.append(
            {"revision": revision, "at": when, "fact": fact, "event": said if is_event else "", "detail": detail}
        )
    return asked("GET", "/v1/history?order=oldest&limit=1000", None, {"items": items})


def listed(state: str, *, reason: str = "", blocked: str = "") -> ControlExchange:
    item = {"name": "r1", "state": state, "reason": reason, "blocked": blocked}
    return asked("GET", "/v1/rollouts?finished=1000", None, {"items": [item]})


def problems_of(*exchanges: Exchange, **terms: object) -> list[str]:
    vms = (PlannedVm("web-0", "web", "h1", 0, 0, "10.0.0.1"),)
    plan = Plan(1, 60.0, ("h1", "h2"), (PlannedGroup("web", "availability-set"),), vms, {"bob": ("web",)}, (), 100.0)
    promises = Promises(plan)
    promises.see(asked("POST", "/v1/rollouts", {"name": "r1", "terms": TERMS | terms}, {}, 201))
    for exchange in exchanges:
        promises.see(exchange)
    promises.settle(1000.0)
    return promises.problems


KEPT_AND_BROKEN: dict[str, tuple[tuple[Told, ...], tuple[Told, ...], dict[str, object], str]] = {
    "hosts in parallel": (
        (STARTS, *DONE_1, wave(2, "h2")),
        (STARTS, wave(1, "h1"), wave(2, "h2")),
        {},
        "more than allowed at once",
    ),
    "selected hosts": ((STARTS, wave(1, "h1")), (STARTS, wave(1, "h3")), {}, "which was not selected"),
    "no host twice": (
        (STARTS, wave(1, "h1"), host("h1", "waits for a wave again: x"), wave(2, "h1"), host("h1", "is done")),
        (STARTS, *DONE_1, wave(2, "h1")),
        {},
        "which had begun before",
    ),
    "what is done stays done": (
        (STARTS, *DONE_1),
        (STARTS, *DONE_1, host("h1", "is skipped: x")),
        {},
        "host h1 of rollout r1, which is done, is skipped",
    ),
    "a pause announces nothing": (
        (STARTS, *DONE_1, PAUSES, RESUMES, wave(2, "h2")),
        (STARTS, *DONE_1, PAUSES, wave(2, "h2")),
        {},
        "began while it was paused",
    ),
    "no announcement after a pause": (
        (STARTS, wave(1, "h1"), PAUSES, host("h1", "waits for a wave again: x")),
        (STARTS, wave(1, "h1"), PAUSES, ANNOUNCED, host("h1", "is announced")),
        {},
        "announced events on h1 while it was paused",
    ),
    "too many failures": (
        (STARTS, wave(1, "h1"), host("h1", "failed: x"), PAUSES, RESUMES, wave(2, "h2")),
        (STARTS, wave(1, "h1"), host("h1", "failed: x"), wave(2, "h2")),
        {},
        "began after 1 hosts had failed",
    ),
    "failures that are tolerated": (
        (STARTS, wave(1, "h1, h2"), host("h1", "failed: x")),
        (STARTS, wave(1, "h1, h2"), host("h1", "failed: x"), host("h2", "failed: x"), wave(2, "h3")),
        {"parallel": 2, "max_failures": 1, "hosts": ["h*"]},
        "began after 2 hosts had failed",
    ),
    "the gate": (
        (STARTS, ("rollout-checked", "rollout r1: wave 1 may begin: well"), wave(1, "h1")),
        (STARTS, ("rollout-checked", "rollout r1: wave 1 may not begin: ill"), wave(1, "h1")),
        {"gate": {"url": "http://gate"}},
        "began without its gate",
    ),
    "a canceled rollout starts nothing": (
        (STARTS, *DONE_1[:3], STARTED, STOPS, COMPLETED),
        (STARTS, *DONE_1[:3], STOPS, STARTED),
        {},
        "started while the rollout was stopping",
    ),
    "a host that was withdrawn": (
        (STARTS, *DONE_1[:3], ("canceled", E1), host("h1", "is skipped: x")),
        (STARTS, *DONE_1[:3], host("h1", "is skipped: x"), STARTED),
        {},
        "after its host had left the wave",
    ),
    "the windows": (
        (STARTS, *DONE_1),
        (STARTS, *DONE_1),
        {"windows": ["08:00-08:02"]},
        "outside its windows 08:00-08:02",
    ),
    "the end": (
        (STARTS, *DONE_1, wave(2, "h2"), host("h2", "is done"), ENDS),
        (STARTS, *DONE_1, wave(2, "h2"), ENDS),
        {},
        "ended with h2 active",
    ),
    "what was acknowledged": ((STARTS,), (), {}, "was acknowledged, and the history lacks it"),
}


@pytest.mark.parametrize("promise", KEPT_AND_BROKEN)
def test_a_history_is_judged(promise: str) -> None:
    """What keeps the promise is accepted, and what breaks it is reported."""
    kept, broken, terms, report = KEPT_AND_BROKEN[promise]
    assert problems_of(history(*kept), **terms) == []
    later = 200.0 if "windows" in terms else 10.0
    assert [problem for problem in problems_of(history(*broken, at=later), **terms) if report in problem]


def test_a_host_is_in_one_rollout_at_a_time() -> None:
    """A wave of another rollout waits."""
    other = [(fact, said.replace("r1", "r2")) for fact, said in (STARTS, wave(1, "h1"))]
    assert "is in a wave of rollout r1" in problems_of(history(STARTS, wave(1, "h1"), *other))[0]


@pytest.mark.parametrize(
    ("shown", "report"),
    [
        (listed("paused", reason="paused by ann"), ""),
        (listed("running", blocked="2 of 3 hosts are unavailable"), ""),
        (listed("completed"), ""),
        (listed("paused"), "paused without a reason"),
        (listed("running"), "running and does not go on"),
        (listed("queued"), "queued and does not go on"),
        (listed("stopping"), "stopping and does not go on"),
    ],
)
def test_a_rollout_ends_or_says_why(shown: ControlExchange, report: str) -> None:
    """Once no fault happens any more, nothing stays without a reason."""
    problems = problems_of(history(STARTS), shown)
    assert report in problems[0] if report else problems == []


def test_a_command_runs_on_a_host_without_vms() -> None:
    """The host was drained before."""
    assert problems_of(history(STARTS), HostCommandRun("h1", (), 6.0)) == []
    assert "where web-0 runs" in problems_of(history(STARTS), HostCommandRun("h1", ("web-0",), 6.0))[0]


@pytest.mark.parametrize(("end", "is_reported"), [("failed", False), ("completed", True)])
def test_where_a_failed_event_has_left_a_vm_nobody_knows(end: str, *, is_reported: bool) -> None:
    """A driver that moved a VM and then said that it had failed tells no new host."""
    moved = MachineOperation("web-0", "redeploy", E1, 5.5, "h1")
    problems = problems_of(history(STARTS, (end, E1)), moved, HostCommandRun("h1", ("web-0",), 6.0))
    assert any("where web-0 runs" in problem for problem in problems) is is_reported


def test_an_owner_is_not_let_at_rollouts() -> None:
    """They are about hosts, which owners do not see."""
    assert (
        "was let at rollouts"
        in problems_of(history(STARTS), asked("GET", "/v1/rollouts", None, {"items": []}, groups=("web",)))[0]
    )
