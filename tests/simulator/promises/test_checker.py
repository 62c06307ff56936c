"""Each promise: exchanges that keep it are accepted, and exchanges that break it are reported."""

from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from forewarn.simulator.actions.environment_faults import DelayRequests
from forewarn.simulator.actions.fleet_requests import EditFleetFile, RequestFleetChange
from forewarn.simulator.actions.host_requests import RequestHostOperation
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.environment.clock import EPOCH
from forewarn.simulator.exchanges import (
    AgentStep,
    ClockChange,
    ControlExchange,
    DiskFault,
    Exchange,
    MachineOperation,
    MachineState,
    ProcessState,
    VmExchange,
)
from forewarn.simulator.plan import Plan, PlannedGroup, PlannedVm
from forewarn.simulator.promises.checker import Promises

E1 = "11111111-1111-4111-8111-111111111111"
E2 = "22222222-2222-4222-8222-222222222222"
OPERATION = "99999999-9999-4999-8999-999999999999"
NEWEST = "2020-07-01"
SERVING = ProcessState("serving", 0.0)


def plan_of(*actions: PlannedAction) -> Plan:
    """Two groups; hurry 60, so that a Reboot has 15 s of notice, a Redeploy 10 s and a Preempt half a second."""
    vms = (
        PlannedVm("web-0", "web", "h1", 0, 0, "10.0.0.1"),
        PlannedVm("web-1", "web", "h2", 1, 1, "10.0.0.2"),
        PlannedVm("web-2", "web", "h1", 0, 0, "10.0.0.3"),
        PlannedVm("db-0", "db", "h1", 0, 0, "10.0.0.4"),
    )
    groups = (PlannedGroup("web", "availability-set"), PlannedGroup("db", "standalone"))
    return Plan(1, 60.0, ("h1", "h2"), groups, vms, {"olga": ("web",)}, actions, 100.0)


def problems_of(*exchanges: Exchange, actions: tuple[PlannedAction, ...] = (), now: float = 1000.0) -> list[str]:
    promises = Promises(plan_of(*actions))
    for exchange in exchanges:
        promises.see(exchange)
    promises.settle(now)
    return promises.problems


def wire_event(
    id_: str = E1,
    status: str = "Scheduled",
    not_before: float = 20.0,
    *,
    type_: str = "Reboot",
    vms: tuple[str, ...] = ("web-0",),
    source: str = "User",
    **more: object,
) -> dict[str, Any]:
    shown = f"{EPOCH + timedelta(seconds=not_before):%a, %d %b %Y %H:%M:%S} GMT" if status == "Scheduled" else ""
    return {
        "EventId": id_.upper(),
        "EventStatus": status,
        "EventType": type_,
        "ResourceType": "VirtualMachine",
        "Resources": list(vms),
        "NotBefore": shown,
        "Description": "",
        "EventSource": source,
        "DurationInSeconds": -1,
        **more,
    }


def document(
    incarnation: int, *events: dict[str, Any], at: float, vm: str = "web-0", group: str = "web", sent: float = 0.0
) -> VmExchange:
    body = msgspec.json.encode({"DocumentIncarnation": incarnation, "Events": events})
    target = f"/metadata/scheduledevents?api-version={NEWEST}"
    tag = {"etag": f'"{group}-{incarnation}"'}
    return VmExchange(vm, "GET", target, b"", sent or at - 0.1, at, 200, body, tag)


def approval(vm: str, at: float, id_: str = E1, status: int = 200, key: str = "StartRequests") -> VmExchange:
    body = msgspec.json.encode({key: [{"EventId": id_}]})
    target = f"/metadata/scheduledevents?api-version={NEWEST}"
    response = b'{ "error": "Bad request" }' if status >= 400 else b""
    return VmExchange(vm, "POST", target, body, at - 0.1, at, status, response, {})


def asked(
    method: str,
    path: str,
    body: object = None,
    answer: object = None,
    *,
    at: float,
    who: str = "ann",
    key: str = "",
    status: int = 200,
    groups: tuple[str, ...] | None = None,
    sent: float = 0.0,
) -> ControlExchange:
    sends = b"" if body is None else msgspec.json.encode(body)
    answers = b"" if answer is None else msgspec.json.encode(answer)
    return ControlExchange(who, method, path, sends, key, sent or at - 0.1, at, status, answers, groups)


def refused(status: int, detail: str = "the rules do not allow this") -> dict[str, object]:
    return {"type": "urn:forewarn:problem:refused", "title": "Refused", "status": status, "detail": detail}


def view(id_: str = E1, status: str = "Scheduled", not_before: float = 20.0, **more: object) -> dict[str, object]:
    when = EPOCH + timedelta(seconds=not_before) if status == "Scheduled" else None
    return {"id": id_.upper(), "type": "Reboot", "status": status, "not_before": when, "resources": ["web-0"], **more}


def announced(id_: str = E1, operation: str = OPERATION, without_notice: str = "", **more: Any) -> dict[str, object]:
    each = {"event": view(id_, **more), "group": "web", "without_notice": without_notice}
    return {"operation": operation, "announcements": [each]}


def restart(at: float = 2.0, **more: Any) -> ControlExchange:
    more.setdefault("answer", announced())
    return asked("POST", "/v1/vms/web-0/operations", {"operation": "restart"}, at=at, **{"key": "k1", **more})


def operation(at: float, *, event: str = E1, who: str = "ann", status: int = 200) -> ControlExchange:
    """The operation of ``restart``, as it is shown by its id."""
    answer = announced(event) if status == 200 else refused(status)
    groups = ("web",) if who == "olga" else None
    return asked("GET", f"/v1/operations/{OPERATION}", None, answer, at=at, who=who, status=status, groups=groups)


def timeline(
    status: str,
    *steps: tuple[float, str] | tuple[float, str, str],
    at: float,
    id_: str = E1,
    notice: str = "",
    operation: str = "vm restart",
    by: str = "",
    **more: Any,
) -> ControlExchange:
    """Return a response with the record of an event that was announced at second 2."""
    recorded = [
        {"at": EPOCH + timedelta(seconds=step[0]), "what": step[1], "by": by, "detail": "".join(step[2:])}
        for step in ((2.0, "Scheduled", notice), *steps)
    ]
    answer = {
        **view(id_, status),
        "source": "User",
        "group": "web",
        "operation": operation,
        "description": "",
        "duration": -1,
        "announced_at": EPOCH + timedelta(seconds=2),
        "steps": recorded,
        **more,
    }
    return asked("GET", f"/v1/events/{id_}", answer=answer, at=at)


first = partial(document, 1)
scheduled = wire_event()
started = wire_event(status="Started")

Story = tuple[Exchange, ...]
COMPLETED = timeline("Completed", (21.0, "Started"), (25.0, "Completed"), at=990.0)
LIFE: Story = (
    SERVING,
    first(at=1.0),
    restart(),
    document(2, scheduled, at=3.0),
    document(2, scheduled, at=19.0, vm="web-1"),
    document(3, started, at=21.5),
    MachineOperation("web-0", "reboot", E1, 22.0),
    document(4, at=26.0),
    COMPLETED,
)


def test_a_whole_life_keeps_all_promises() -> None:
    """An event that is announced, shown, started, carried out and recorded breaks nothing."""
    assert problems_of(*LIFE) == []


BOTH = ("web-0", "web-2")
SHARED = (
    first(at=1.0),
    document(2, wire_event(vms=BOTH), at=3.0),
    timeline("Scheduled", at=4.0, resources=BOTH),
)
SHARED_START = wire_event(status="Started", vms=BOTH)
AUTOMATIC = "approved automatically by the group's policy"
FROZEN: dict[str, Any] = {"type": "Freeze", "source": "Platform", "operation": "vm freeze"}
FREEZE = (
    first(at=0.5),
    document(2, wire_event(type_="Freeze", source="Platform"), at=3.0),
    document(3, wire_event(status="Started", type_="Freeze", source="Platform"), at=180.9),
)


def terms(at: float = 0.4, key: str = "terms", **changed: object) -> ControlExchange:
    return asked("PATCH", "/v1/groups/web", changed, {"name": "web"}, at=at, key=key)


def ended(id_: str, vm: str, started_at: float, ended_at: float) -> ControlExchange:
    steps = (started_at, "Started"), (ended_at, "Completed")
    return timeline("Completed", *steps, at=50.0, id_=id_, resources=[vm], **FROZEN)


def recorded(
    id_: str,
    vm: str,
    not_before: int,
    started_at: float,
    ended_at: float,
    *between: tuple[float, str, str],
    status: str = "Completed",
    **more: Any,
) -> ControlExchange:
    """Return the record of an event that was announced at second 2, with its NotBefore."""
    detail = f"it, not before {EPOCH + timedelta(seconds=not_before):%Y-%m-%dT%H:%M:%SZ} (15s of notice)"
    steps: list[tuple[float, str] | tuple[float, str, str]] = [*between, (started_at, "Started"), (ended_at, status)]
    return timeline(status, *steps, at=90.0, id_=id_, resources=[vm], notice=detail, **more)


def postponed(*not_before: int) -> ControlExchange:
    times = (f"{EPOCH + timedelta(seconds=each):%Y-%m-%dT%H:%M:%SZ}" for each in not_before)
    steps = [(5.0, "postponed", f"now not before {time}") for time in times]
    return recorded(E1, "web-0", 20, not_before[-1] + 0.1, not_before[-1] + 5.0, *steps)


def operated(host: str, operation: str, at: float, status: int = 201) -> ControlExchange:
    return asked("POST", f"/v1/hosts/{host}/operations", {"operation": operation}, at=at, status=status)


def switched(vm: str, operation: str, at: float) -> ControlExchange:
    return asked("POST", f"/v1/vms/{vm}/operations", {"operation": operation}, at=at, status=201)


def approve(at: float) -> ControlExchange:
    return asked("POST", f"/v1/events/{E1}/approve", at=at)


def hosts(at: float, **more: object) -> ControlExchange:
    items = [{"name": "h2", "vms": 0, "state": "up", "cordoned": False, **more}]
    return asked("GET", "/v1/hosts", answer={"items": items}, at=at)


def vms(at: float, *, host: str = "h1", deallocated: bool = False, **more: object) -> ControlExchange:
    items = [{"name": "web-0", "group": "web", "host": host, "deallocated": deallocated, **more}]
    return asked("GET", "/v1/vms", answer={"items": items}, at=at)


def labelled(value: str, at: float, status: int = 200) -> ControlExchange:
    return asked("PATCH", "/v1/vms/web-0", {"labels": {"tier": value}}, at=at, status=status)


def changed(at: float, status: int = 200, **keys: object) -> ControlExchange:
    return asked("PATCH", "/v1/vms/web-0", keys, at=at, status=status)


def bulk(operation: str, selected: list[str], refused: dict[str, str], at: float) -> ControlExchange:
    body = {"operation": operation, "select": {"names": ["web-*"]}}
    return asked("POST", "/v1/vms/operations", body, {"selected": selected, "refused": refused}, at=at, status=201)


FRONT = {"labels": {"tier": "front"}}


def selected(what: str, operation: str, names: list[str], at: float, **more: object) -> ControlExchange:
    """Return an operation on all hosts or VMs that a label selects."""
    body = {"operation": operation, "select": {"label": "tier!=back"}, **more}
    return asked("POST", f"/v1/{what}/operations", body, {"selected": names}, at=at, status=201)


def tried(id_: str, *, says_so: bool = True) -> ControlExchange:
    event = {"id": id_, "type": "Freeze", "status": "Scheduled", "resources": ["web-0"]}
    answer = {"dry_run": says_so, "announcements": [{"event": event, "group": "web"}]}
    return asked("POST", "/v1/vms/operations?dry_run=true", {}, answer, at=2.0, status=201)


def change(change: object, at: float) -> ControlExchange:
    return asked("PATCH", "/v1/fleet", change, at=at)


def waiting(incarnation: int, at: float, status: int = 200) -> VmExchange:
    shown = document(incarnation, at=at, vm="web-1", sent=1.5)
    return msgspec.structs.replace(shown, status=status, waits=True)


def roaming(sent_at: float) -> VmExchange:
    """A long poll that a node answers which has been behind since second 2."""
    shown = document(2, at=8.0, vm="web-1", sent=sent_at)
    return msgspec.structs.replace(shown, waits=True, as_of=2.0)


def by_token(token: str, at: float, status: int = 200, path: str = "/v1/tokens") -> ControlExchange:
    answer = {"items": []} if status < 400 else refused(status)
    exchange = asked("GET", path, answer=answer, at=at, who="olga", status=status, groups=("web",))
    return msgspec.structs.replace(exchange, token=token)


def rotated(overlap: int) -> ControlExchange:
    path = f"/v1/tokens/ab12/rotate?overlap={overlap}"
    return asked("POST", path, answer={"id": "ab12", "token": "fw"}, at=5.0, key="k1", status=201)


def passing(seconds: int) -> ControlExchange:
    body = {"name": "olga", "role": "owner", "groups": ["web"], "lasts": seconds}
    return asked("POST", "/v1/tokens", body, {"id": "ab12", "token": "fw"}, at=5.0, status=201)


def cordoned(selected: tuple[str, ...], refused_: dict[str, str]) -> ControlExchange:
    body = {"operation": "cordon", "select": {"names": ["*"]}}
    return asked("POST", "/v1/hosts/operations", body, {"selected": selected, "refused": refused_}, at=5.0)


def grouped(method: str, at: float) -> ControlExchange:
    if method == "DELETE":
        return asked(method, "/v1/groups/g8", at=at)
    return asked(method, "/v1/groups", {"name": "g8", "kind": "availability-set"}, at=at, status=201)


def groups(at: float, *names: str) -> ControlExchange:
    return asked("GET", "/v1/groups", answer={"items": [{"name": name} for name in names]}, at=at)


USED = "this Idempotency-Key was used for another request"
EVICTED: dict[str, Any] = {"type": "Preempt", "source": "Platform", "operation": "vm evict"}
CRASHED: dict[str, Any] = {
    "type": "Redeploy",
    "source": "Platform",
    "operation": "vm fail",
    "notice": "vm fail; no notice is owed: hardware failed",
}
FAILED: dict[str, Any] = {"type": "Redeploy", "source": "Platform", "operation": "host fail"}
WITHOUT_NOTICE = "host fail; no notice is owed: hardware failed"
RULE_OF_ALL = terms(approval="all")
QUORUM = terms(approval="quorum", quorum=2)

CANCELED = timeline("Canceled", (5.0, "Canceled", "vm evict web-0"), at=50.0)


def ending(path: str, operation: str, type_: str, vm: str = "web-0") -> ControlExchange:
    """Return an operation that announces the end of a VM, or its redeployment."""
    status, reason = ("Started", "hardware failed") if operation == "fail" else ("Scheduled", "")
    answer = announced(E2, without_notice=reason, type=type_, status=status, resources=[vm])
    return asked("POST", f"/v1/{path}/operations", {"operation": operation}, answer, at=5.0, key="k2", status=201)


def group(incarnation: int = 1, **shown: object) -> ControlExchange:
    answer = {"name": "web", "incarnation": incarnation, "members": ["web-0"], "upcoming": [], **shown}
    return asked("GET", "/v1/groups/web", answer=answer, at=200.0)


def switch(what: str, at: float) -> MachineOperation:
    return MachineOperation("web-0", what, "", at, "h1")


FREEZES = [
    wire_event(id_, vms=(vm,), type_="Freeze", source="Platform") for id_, vm in ((E1, "web-0"), (E2, "web-1"))
]
START = switched("web-0", "start", 4.0)
TWO = wire_event(E2, vms=("web-1",))
ENDED = recorded(E1, "web-0", 20, 20.0, 25.0)
AT_ONCE = timeline("Completed", (2.0, "Started", "at once: the group is off"), (9.0, "Completed"), at=90.0)
LATER = document(2, scheduled, at=9.0)
EVICT, FAIL = ending("vms/web-0", "evict", "Preempt"), ending("hosts/h1", "fail", "Redeploy")
UNFINISHED = "of web-0 was unfinished before and after the "

KEPT_AND_BROKEN: dict[str, tuple[Story, Story, str]] = {
    "events are shown by announcement": (
        (document(2, scheduled, at=3.0), document(2, scheduled, at=4.0), document(3, scheduled, TWO, at=5.0)),
        (document(2, scheduled, at=3.0), document(2, scheduled, at=4.0), document(3, TWO, scheduled, at=5.0)),
        "Reboot 22222222 of web is shown before Reboot 11111111 of web, which was announced before it",
    ),
    "events keep their order": (
        (document(2, TWO, scheduled, at=3.0), document(3, TWO, scheduled, at=5.0)),
        (document(2, TWO, scheduled, at=3.0), document(3, scheduled, TWO, at=5.0)),
        "is shown before Reboot 22222222 of web, which was announced before it",
    ),
    "the VMs of an event share their update domain": (
        (document(2, wire_event(vms=("web-0", "web-2")), at=3.0),),
        (document(2, wire_event(vms=("web-0", "web-1")), at=3.0),),
        "is about VMs of the domains [(0, 0), (1, 1)]",
    ),
    "a VM may approve what its group is shown": (
        (document(2, scheduled, at=3.0), approval("web-1", 5.0, status=400)),
        (document(2, scheduled, at=3.0), approval("web-1", 5.0, status=400), LATER),
        "web-1 was not let approve Reboot 11111111 of web",
    ),
    "a VM may not approve what is of another group": (
        (document(2, scheduled, at=3.0), approval("db-0", 5.0, status=400), LATER),
        (document(2, scheduled, at=3.0), approval("web-0", 5.0, status=400), LATER),
        "web-0 was not let approve",
    ),
    "an incarnation rises by one with each visible change": (
        (ENDED, group(4)),
        (ENDED, group(5)),
        "web has incarnation 5, and 3 visible changes",
    ),
    "an event that starts at once is one visible change": (
        (AT_ONCE, group(3)),
        (AT_ONCE, group(4)),
        "web has incarnation 4, and 2 visible changes",
    ),
    "an incarnation rises with postponements, and with nothing else": (
        (recorded(E1, "web-0", 20, 20.0, 25.0, (5.0, "postponed", ""), (6.0, "approved", "")), group(5)),
        (recorded(E1, "web-0", 20, 20.0, 25.0, (5.0, "postponed", ""), (6.0, "approved", "")), group(4)),
        "web has incarnation 4, and 4 visible changes",
    ),
    "the terms of a group are shown as they were set": (
        (terms(approval="all", terminate_notice=300), group(approval="all", terminate_notice="PT5M")),
        (terms(approval="all", terminate_notice=300), group(approval="all", terminate_notice="PT15M")),
        "web is shown with terminate_notice 900, and 300 was set",
    ),
    "a request that is repeated does not set its terms again": (
        (terms(approval="all"), terms(at=5.0, key="t2", approval="any"), terms(at=9.0, approval="all"), group()),
        (terms(approval="all"), terms(at=5.0, approval="all"), group()),
        "web is shown with approval 'any', and 'all' was set",
    ),
    "a term that was not set is the default": (
        (terms(approval="all"), group(approval="all", policy={})),
        (terms(approval="all"), group(approval="all", policy={"postpone_limit": 60})),
        "web is shown with postpone_limit 60, and 0 was set",
    ),
    "the keys that were set for a VM are shown": (
        (changed(5.0, update_domain=1, spot=True), vms(6.0, update_domain=1, spot=True)),
        (changed(5.0, update_domain=1, spot=True), vms(6.0, update_domain=1, spot=False)),
        "web-0 is shown with spot False, and True was set",
    ),
    "keys that may not have been set need not be shown": (
        (changed(5.0, fault_domain=2, status=0), vms(6.0)),
        (changed(5.0, fault_domain=2), vms(6.0)),
        "web-0 is shown with fault_domain 0, and 2 was set",
    ),
    "a VM that was removed is not shown": (
        (change({"removed_vms": ["web-0"]}, 5.0), change({"vms": [{"name": "web-0"}]}, 6.0), vms(7.0)),
        (change({"removed_vms": ["web-0"]}, 5.0), vms(7.0)),
        "web-0 is shown, and was removed",
    ),
    "a VM that was added is shown": (
        (change({"vms": [{"name": "web-3", "group": "web"}]}, 5.0), switched("web-3", "delete", 6.0), vms(7.0)),
        (change({"vms": [{"name": "web-3", "group": "web"}]}, 5.0), vms(7.0)),
        "web-3 is not shown, and was added",
    ),
    "a start ends": (
        (ProcessState("starting", 1.0), ProcessState("serving", 50.0)),
        (ProcessState("starting", 1.0), ProcessState("serving", 70.0)),
        "the service took 69 s to start",
    ),
    "a VM that a bulk deletion refused is still to be shown": (
        (change({"vms": [{"name": "web-3"}]}, 5.0), bulk("delete", ["web-3"], {}, 6.0), vms(7.0)),
        (change({"vms": [{"name": "web-3"}]}, 5.0), bulk("delete", ["web-3"], {"web-3": "no"}, 6.0), vms(7.0)),
        "web-3 is not shown, and was added",
    ),
    "turns are kept as long as the clock is right": (
        (
            recorded(E1, "web-0", 20, 50.0, 60.0, **FROZEN),
            ClockChange(55.0, 9.0, 0.0),
            recorded(E2, "web-1", 25, 40.0, 50.0, **FROZEN),
        ),
        (
            document(1, *FREEZES, at=3.0),
            document(2, at=61.0),
            ClockChange(62.0, 9.0, 0.0),
            recorded(E1, "web-0", 20, 50.0, 60.0, **FROZEN),
            recorded(E2, "web-1", 25, 40.0, 50.0, **FROZEN),
        ),
        "overtook Freeze 11111111 of web, which was due at 20 s",
    ),
    "a VM is not started again unless it is asked for": (
        (SERVING, START, switch("start", 5.0), switched("web-0", "start", 30.0), switch("start again", 31.0)),
        (SERVING, START, switch("start", 5.0), switch("start again", 31.0)),
        "machine web-0: start again, first at 5.000 s, as nobody asked",
    ),
    "a VM is started again by a process that does not know": (
        (SERVING, switch("stop", 5.0), ProcessState("ended", 9.0), switch("stop again", 31.0)),
        (SERVING, switch("stop", 5.0), switch("stop again", 31.0)),
        "machine web-0: stop again",
    ),
    "an eviction cancels what is Scheduled for its VM alone": (
        (EVICT, CANCELED),
        (EVICT, recorded(E1, "web-0", 20, 20.0, 25.0)),
        UNFINISHED + "evict or delete that was acknowledged at 5.000 s",
    ),
    "what an eviction cancels is not shown any more": (
        (ClockChange(1.0, 9.0, 0.0), document(2, scheduled, at=3.0), EVICT),
        (ClockChange(1.0, 9.0, 0.0), document(2, scheduled, at=3.0), EVICT, document(2, scheduled, at=6.0)),
        UNFINISHED + "evict or delete",
    ),
    "a deletion leaves what has started, and what is announced later": (
        (ending("vms/web-0", "delete", "Terminate"), recorded(E1, "web-0", 20, 3.0, 25.0)),
        (ending("vms/web-0", "delete", "Terminate"), recorded(E1, "web-0", 20, 7.0, 25.0)),
        UNFINISHED + "evict or delete",
    ),
    "a deallocation cancels what is Scheduled for its VM alone, but a deletion": (
        (switched("web-0", "deallocate", 5.0), recorded(E1, "web-0", 20, 20.0, 25.0, type="Terminate")),
        (switched("web-0", "deallocate", 5.0), recorded(E1, "web-0", 20, 20.0, 25.0)),
        UNFINISHED + "deallocate",
    ),
    "a deallocation of several VMs leaves those that it refuses": (
        (bulk("deallocate", ["web-0"], {"web-0": "no"}, 5.0), recorded(E1, "web-0", 20, 20.0, 25.0)),
        (bulk("deallocate", ["web-0"], {}, 5.0), recorded(E1, "web-0", 20, 20.0, 25.0)),
        UNFINISHED + "deallocate",
    ),
    "a host that fails ends what has started": (
        (FAIL, recorded(E1, "web-0", 3, 3.0, 5.0, status="Failed")),
        (FAIL, recorded(E1, "web-0", 3, 3.0, 25.0)),
        UNFINISHED + "host fail",
    ),
    "a host that fails cancels what is Scheduled there": (
        (FAIL, recorded(E1, "web-1", 20, 20.0, 25.0)),
        (FAIL, recorded(E1, "web-0", 20, 20.0, 25.0)),
        UNFINISHED + "host fail",
    ),
    "a group's incarnation never falls": (
        (document(3, at=1.0), document(2, at=1.05, vm="web-1", sent=0.5)),
        (document(3, at=1.0), document(2, at=2.0, vm="web-1")),
        "incarnation of web fell from 3 to 2",
    ),
    "a group's incarnation never falls in the control API either": (
        (
            document(2, at=1.0),
            asked(
                "GET",
                "/v1/groups/web",
                at=2.0,
                answer={"name": "web", "incarnation": 3, "members": ["web-0"], "upcoming": []},
            ),
        ),
        (
            document(2, at=1.0),
            asked(
                "GET",
                "/v1/groups/web",
                at=2.0,
                answer={"name": "web", "incarnation": 1, "members": ["web-0"], "upcoming": []},
            ),
        ),
        "fell from 2 to 1",
    ),
    "the incarnation that a VM is shown does not fall when it changes groups": (
        (document(3, at=1.0, vm="web-3"), document(4, at=2.0, group="db", vm="web-3")),
        (document(3, at=1.0, vm="web-3"), document(1, at=2.0, group="db", vm="web-3")),
        "web-3 is shown fell from 3 to 1",
    ),
    "an incarnation shows the same events": (
        (document(2, scheduled, at=3.0), document(2, scheduled, at=4.0, vm="web-1")),
        (document(2, scheduled, at=3.0), document(2, wire_event(not_before=25.0), at=4.0, vm="web-1")),
        "two documents of incarnation 2",
    ),
    "a status does not go back": (
        (document(2, scheduled, at=3.0), approval("web-0", 3.5), document(3, started, at=4.0)),
        (approval("web-0", 2.0), document(2, started, at=3.0), document(3, scheduled, at=4.0)),
        "is Scheduled in the document of web-0, but was Started",
    ),
    "what is gone does not come back": (
        (document(2, scheduled, at=3.0), document(3, at=4.0)),
        (document(2, scheduled, at=3.0), document(3, at=4.0), document(4, scheduled, at=5.0)),
        "but was gone before",
    ),
    "what is acknowledged as canceled is not shown": (
        (document(2, scheduled, at=3.0), asked("POST", f"/v1/events/{E1}/cancel", at=4.0, answer={"canceled": [E1]})),
        (asked("POST", f"/v1/events/{E1}/cancel", at=4.0, answer={"canceled": [E1]}), document(2, scheduled, at=5.0)),
        "but was gone before",
    ),
    "an event keeps its fields": (
        (document(2, scheduled, at=3.0), approval("web-0", 3.5), document(3, started, at=4.0)),
        (document(2, scheduled, at=3.0), document(3, wire_event(vms=("web-0", "web-2")), at=4.0)),
        "its resources was ('web-0',)",
    ),
    "an event stays in one group": (
        (restart(), document(2, scheduled, at=3.0)),
        (restart(), timeline("Scheduled", at=3.0, group="db")),
        "is told to be of group db",
    ),
    "an event that started is not canceled": (
        (document(2, scheduled, at=3.0), timeline("Canceled", (4.0, "Canceled"), at=5.0)),
        (approval("web-0", 2.0), document(2, started, at=3.0), timeline("Canceled", (4.0, "Canceled"), at=5.0)),
        "and was canceled",
    ),
    "NotBefore moves later by a postponement only": (
        (
            document(2, scheduled, at=3.0),
            approval("web-0", 3.5, key="PostponeRequests"),
            document(3, wire_event(not_before=40.0), at=4.0),
        ),
        (document(2, scheduled, at=3.0), document(3, wire_event(not_before=40.0), at=4.0)),
        "nobody had postponed it",
    ),
    "NotBefore does not move earlier by itself": (
        (document(2, scheduled, at=3.0), document(2, scheduled, at=4.0)),
        (document(2, scheduled, at=3.0), document(3, wire_event(not_before=18.0), at=4.0)),
        "moved 2 s earlier",
    ),
    "notice is not below the minimum": (
        (restart(), timeline("Scheduled", at=3.0)),
        (restart(at=8.0), timeline("Scheduled", at=9.0)),
        "with at most 12.1 s of notice, not 15.0 s",
    ),
    "notice counts from a document without the event": (
        (first(at=1.0), document(2, scheduled, at=3.0), timeline("Scheduled", at=4.0)),
        (first(at=7.0), document(2, scheduled, at=8.0), timeline("Scheduled", at=9.0)),
        "of notice, not 15.0 s",
    ),
    "a user operation on a group that was asked for has notice": (
        (restart(answer=announced(without_notice="the group is off: none of its VMs asks", status="Started")),),
        (first(at=1.0), restart(answer=announced(without_notice="the group is off: none asks", status="Started"))),
        "although a VM of its group asked at 1.000 s",
    ),
    "only some operations owe no notice": (
        (timeline("Started", (2.0, "Started"), at=3.0, notice="vm restart; no notice is owed: the group is off"),),
        (
            timeline(
                "Started",
                (2.0, "Started"),
                at=3.0,
                operation="vm freeze",
                notice="vm freeze; no notice is owed: the group is off",
            ),
        ),
        "although vm freeze owes it",
    ),
    "no start before NotBefore without an approval": (
        (restart(), document(2, scheduled, at=3.0), approval("web-1", 5.0, status=0), document(3, started, at=6.0)),
        (restart(), document(2, scheduled, at=3.0), document(3, started, at=6.0)),
        "was Started 14.0 s before NotBefore",
    ),
    "no start before the notice has really passed": (
        (restart(), document(3, started, at=20.5)),
        (
            ClockChange(1.9, 100.0, 0.0),
            restart(answer=announced(not_before=120.0)),
            ClockChange(3.0, 200.0, 0.0),
            document(3, started, at=6.0),
        ),
        "before its notice had passed",
    ),
    "an approval that is refused does not count": (
        (restart(), document(2, scheduled, at=3.0), approval("web-1", 5.0), document(3, started, at=6.0)),
        (restart(), document(2, scheduled, at=3.0), approval("web-1", 5.0, status=400), document(3, started, at=6.0)),
        "without sufficient approval",
    ),
    "a rule that asks all VMs is satisfied by all": (
        (RULE_OF_ALL, *SHARED, approval("web-0", 5.0), approval("web-2", 6.0), document(3, SHARED_START, at=7.0)),
        (RULE_OF_ALL, *SHARED, approval("web-0", 5.0), approval("web-1", 6.0), document(3, SHARED_START, at=7.0)),
        "without sufficient approval",
    ),
    "a quorum is satisfied by so many VMs": (
        (QUORUM, *SHARED, approval("web-0", 5.0), approval("web-1", 6.0), document(3, SHARED_START, at=7.0)),
        (QUORUM, *SHARED, approval("web-0", 5.0), approval("web-0", 6.0), document(3, SHARED_START, at=7.0)),
        "without sufficient approval",
    ),
    "a policy approves automatically if it says so": (
        (terms(approve_user_reboot=True), restart(answer=announced(without_notice=AUTOMATIC, status="Started"))),
        (restart(answer=announced(without_notice=AUTOMATIC, status="Started")),),
        "and no policy says so",
    ),
    "maintenance does not start in quiet hours": (
        (terms(quiet_hours=["08:01-08:03"]), *FREEZE, timeline("Started", (180.0, "Started"), at=181.0, **FROZEN)),
        (terms(quiet_hours=["08:01-08:03"]), *FREEZE, timeline("Started", (179.0, "Started"), at=181.0, **FROZEN)),
        "in the quiet hours",
    ),
    "an eviction waits for a Started event of its VM only": (
        (recorded(E1, "web-0", 20, 20.0, 30.0, **FROZEN), recorded(E2, "web-0", 25, 30.0, 32.0, **EVICTED)),
        (recorded(E1, "web-0", 20, 40.0, 45.0, **FROZEN), recorded(E2, "web-0", 25, 45.0, 46.0, **EVICTED)),
        "could start at 25.0 s and waited for 20.0 s without a cause",
    ),
    "an event that is approved starts": (
        (restart(), recorded(E1, "web-0", 40, 12.0, 15.0, (12.0, "approved", ""), by="web-0")),
        (restart(), recorded(E1, "web-0", 40, 30.0, 35.0, (12.0, "approved", ""), by="web-0")),
        "could start at 12.0 s",
    ),
    "only the VMs of an event approve it where all must": (
        (RULE_OF_ALL, restart(), recorded(E1, "web-0", 40, 12.0, 15.0, (12.0, "approved", ""), by="web-0")),
        (RULE_OF_ALL, restart(), recorded(E1, "web-0", 40, 41.0, 45.0, (12.0, "approved", ""), by="web-1")),
        "the approval of web-1 counts for Reboot 11111111 of web",
    ),
    "maintenance that waits is not overtaken": (
        (recorded(E1, "web-0", 30, 30.0, 40.0, **FROZEN), recorded(E2, "web-1", 35, 40.0, 50.0, **FROZEN)),
        (recorded(E1, "web-0", 20, 50.0, 60.0, **FROZEN), recorded(E2, "web-1", 25, 40.0, 50.0, **FROZEN)),
        "overtook Freeze 11111111 of web, which was due at 20 s",
    ),
    "maintenance waits for a failure in another domain": (
        (
            timeline("Completed", (2.0, "Started"), (20.0, "Completed"), at=50.0, notice=WITHOUT_NOTICE, **FAILED),
            recorded(E2, "web-1", 20, 20.0, 30.0, **FROZEN),
        ),
        (
            timeline("Completed", (2.0, "Started"), (30.0, "Completed"), at=50.0, notice=WITHOUT_NOTICE, **FAILED),
            recorded(E2, "web-1", 20, 20.0, 30.0, **FROZEN),
        ),
        "started 10.000 s before Redeploy",
    ),
    "a VM is not deleted twice at once": (
        (recorded(E1, "web-0", 20, 20.0, 30.0), recorded(E2, "web-1", 20, 20.0, 30.0)),
        (recorded(E1, "web-0", 20, 20.0, 30.0), recorded(E2, "web-0", 20, 30.0, 40.0)),
        "of web-0 were unfinished together",
    ),
    "a postponement keeps to the limit": (
        (terms(postpone_limit=60), restart(), postponed(50, 80)),
        (terms(postpone_limit=60), restart(), postponed(50, 81)),
        "was postponed by 61 s in all, and the limit is 60 s",
    ),
    "the end of a VM is not postponed": (
        (recorded(E1, "web-0", 20, 20.0, 25.0, **EVICTED),),
        (
            recorded(
                E1, "web-0", 20, 30.0, 35.0, (5.0, "postponed", "now not before 2024-01-01T08:00:30Z"), **EVICTED
            ),
        ),
        "was postponed, and ends a VM",
    ),
    "an event that was postponed does not start at its old time": (
        (
            restart(),
            document(2, scheduled, at=3.0),
            approval("web-0", 5.0, key="PostponeRequests"),
            document(3, wire_event(not_before=40.0), at=6.0),
            document(4, started, at=40.5),
        ),
        (
            restart(),
            document(2, scheduled, at=3.0),
            approval("web-0", 5.0, key="PostponeRequests"),
            document(3, wire_event(not_before=40.0), at=6.0),
            timeline("Started", (21.0, "Started"), at=22.0),
            document(4, started, at=21.5),
        ),
        "started 19.000 s before NotBefore",
    ),
    "a cordon that was acknowledged stands": (
        (operated("h2", "cordon", 5.0), operated("h2", "uncordon", 6.0, status=0), hosts(7.0)),
        (operated("h2", "cordon", 5.0), hosts(7.0)),
        "host h2 is shown with cordoned False, and True was set",
    ),
    "a label that was acknowledged stands": (
        (labelled("back", 5.0), labelled("front", 6.0, status=0), vms(7.0)),
        (labelled("front", 5.0), vms(7.0)),
        "web-0 is shown with label none, and front was set",
    ),
    "a host that was added is shown": (
        (asked("POST", "/v1/hosts", {"name": "h8"}, at=5.0), asked("DELETE", "/v1/hosts/h8", at=6.0), hosts(7.0)),
        (asked("POST", "/v1/hosts", {"name": "h8"}, at=5.0), hosts(7.0)),
        "host h8 is not shown, and was added",
    ),
    "a host that enters maintenance is shown so": (
        (operated("h2", "enter-maintenance", 5.0), hosts(7.0, state="in-maintenance", cordoned=True)),
        (operated("h2", "enter-maintenance", 5.0), hosts(7.0, cordoned=True)),
        "host h2 is shown with state up, and in-maintenance was set",
    ),
    "a bulk operation is done to those that were not refused": (
        (bulk("deallocate", ["web-0"], {"web-0": "why"}, 5.0), vms(7.0)),
        (bulk("deallocate", ["web-0"], {}, 5.0), vms(7.0)),
        "web-0 is shown with deallocated False, and True was set",
    ),
    "an event of a dry run is never shown": (
        (tried(E2), document(2, wire_event(), at=3.0)),
        (tried(E1), document(2, wire_event(), at=3.0)),
        "was announced by a dry run",
    ),
    "a dry run says that it is one": (
        (tried(E2),),
        (tried(E2, says_so=False),),
        "POST /v1/vms/operations?dry_run=true does not say that it is a dry run",
    ),
    "an operation that was acknowledged is found": (
        (restart(), operation(5.0), operation(1.0, status=404), operation(6.0, status=404, who="olga")),
        (restart(), operation(5.0, status=404)),
        f"operation {OPERATION} of the operators was acknowledged, and is not found",
    ),
    "an operation has the same events ever after": (
        (restart(), operation(5.0)),
        (restart(), operation(5.0, event=E2)),
        f"operation {OPERATION} had",
    ),
    "an operation is shown to who asked for it": (
        (restart(), operation(5.0)),
        (restart(), operation(5.0, who="olga")),
        f"olga was shown the operation {OPERATION} of the operators",
    ),
    "the state of a host stands": (
        (operated("h2", "fail", 5.0), hosts(7.0, state="failed")),
        (operated("h2", "fail", 5.0), hosts(7.0)),
        "host h2 is shown with state up, and failed was set",
    ),
    "nothing moves to a cordoned host": (
        (
            MachineOperation("web-0", "redeploy", E1, 22.0, "h2"),
            recorded(E1, "web-0", 20, 21.0, 30.0),
            operated("h2", "cordon", 21.5),
        ),
        (
            operated("h2", "cordon", 5.0),
            MachineOperation("web-0", "redeploy", E1, 22.0, "h2"),
            recorded(E1, "web-0", 20, 21.0, 30.0),
        ),
        "machine web-0 was moved to h2, which is cordoned",
    ),
    "no VM is added on a failed host": (
        (change({"vms": [{"name": "new", "host": "h2"}]}, 4.0), operated("h2", "fail", 5.0)),
        (operated("h2", "fail", 5.0), change({"vms": [{"name": "new", "host": "h2"}]}, 6.0)),
        "new was added on h2, which has failed",
    ),
    "no VM is let to move to a failed host": (
        (operated("h2", "fail", 5.0), asked("POST", "/v1/vms/web-0/move", {"host": "h1"}, at=6.0)),
        (operated("h2", "fail", 5.0), asked("POST", "/v1/vms/web-0/move", {"host": "h2"}, at=6.0)),
        "web-0 was let to move to h2, which has failed",
    ),
    "no VM starts on a cordoned host": (
        (
            switched("web-0", "start", 4.0),
            operated("h2", "cordon", 5.0),
            MachineOperation("web-0", "start", "", 6.0, "h2"),
        ),
        (
            operated("h2", "cordon", 5.0),
            switched("web-0", "start", 6.0),
            MachineOperation("web-0", "start", "", 7.0, "h2"),
        ),
        "web-0 was started on h2, which is cordoned",
    ),
    "a VM that is deallocated is shown so": (
        (switched("web-0", "deallocate", 5.0), vms(6.0, deallocated=True)),
        (switched("web-0", "deallocate", 5.0), vms(6.0)),
        "web-0 is shown with deallocated False, and True was set",
    ),
    "a VM that is deallocated reads nothing": (
        (switched("web-0", "deallocate", 5.0), first(at=4.0)),
        (switched("web-0", "deallocate", 5.0), first(at=6.0)),
        "web-0 is deallocated, and was answered GET",
    ),
    "a VM that is deallocated is not operated on": (
        (switched("web-0", "deallocate", 5.0), MachineOperation("web-0", "stop", "", 6.0)),
        (switched("web-0", "deallocate", 5.0), MachineOperation("web-0", "reboot", E1, 6.0)),
        "machine web-0 was operated on (reboot), though it is deallocated",
    ),
    "a start that was under way when a stop failed is carried out, and the stop is not tried again": (
        (
            SERVING,
            switched("web-0", "deallocate", 5.0),
            MachineOperation("web-0", "stop failed", "", 6.0),
            MachineOperation("web-0", "start", "", 6.5),
            asked("POST", "/v1/vms/web-0/operations", {"operation": "start"}, sent=5.9, at=6.6, status=201),
        ),
        (
            SERVING,
            asked("POST", "/v1/vms/web-0/operations", {"operation": "deallocate"}, sent=4.9, at=6.1, status=201),
            MachineOperation("web-0", "stop failed", "", 6.0),
            MachineOperation("web-0", "stop", "", 6.5),
        ),
        "machine web-0: stop, after that had failed, and nobody asked again",
    ),
    "a stop that failed is not tried again by itself": (
        (
            SERVING,
            switched("web-0", "deallocate", 5.0),
            MachineOperation("web-0", "stop failed", "", 6.0),
            switched("web-0", "deallocate", 7.0),
            MachineOperation("web-0", "stop", "", 8.0),
        ),
        (
            SERVING,
            switched("web-0", "deallocate", 5.0),
            MachineOperation("web-0", "stop failed", "", 6.0),
            MachineOperation("web-0", "stop", "", 8.0),
        ),
        "machine web-0: stop, after that had failed, and nobody asked again",
    ),
    "a VM is not told to stand on a host that failed before it arrived": (
        (
            MachineOperation("web-0", "redeploy", E1, 22.0, "h2"),
            recorded(E1, "web-0", 20, 20.0, 30.0),
            operated("h2", "fail", 31.0),
            vms(40.0, host="h2"),
        ),
        (
            MachineOperation("web-0", "redeploy", E1, 22.0, "h2"),
            operated("h2", "fail", 25.0),
            recorded(E1, "web-0", 20, 20.0, 30.0),
            vms(40.0, host="h2"),
        ),
        "web-0 arrived at 30.0 s on h2 and is told to stand there, which had failed",
    ),
    "what a VM shares with others outlives it": (
        (timeline("Canceled", (5.0, "Canceled", "vm evict web-0"), at=6.0),),
        (timeline("Canceled", (5.0, "Canceled", "vm evict web-0"), at=6.0, resources=["web-0", "web-2"]),),
        "was canceled, which is about web-2 too: vm evict web-0",
    ),
    "nothing is announced for a VM that is off": (
        (switched("web-0", "deallocate", 5.0), CANCELED),
        (switched("web-0", "deallocate", 0.9), timeline("Scheduled", at=6.0)),
        "was announced for web-0, which was deallocated",
    ),
    "a VM that another manager starts is left to it": (
        (timeline("Started", (2.0, "Started"), at=3.0, **CRASHED),),
        (terms(restart_after_crash=False), timeline("Started", (2.0, "Started"), at=3.0, **CRASHED)),
        "started a VM that crashed, and its group does not want that",
    ),
    "an eviction deletes where the terms say so": (
        (recorded(E1, "web-0", 20, 20.0, 25.0, **EVICTED), vms(40.0)),
        (terms(eviction="delete"), recorded(E1, "web-0", 20, 20.0, 25.0, **EVICTED), vms(40.0)),
        "deletes, and web-0 is still there",
    ),
    "an approval that was acknowledged lets an event start": (
        (restart(), approve(5.0), recorded(E1, "web-0", 40, 5.0, 9.0)),
        (restart(), approve(5.0), recorded(E1, "web-0", 40, 40.0, 45.0)),
        "could start at 5.0 s and waited for 35.0 s without a cause",
    ),
    "an approval that was acknowledged is on record": (
        (restart(), approval("web-0", 5.0), recorded(E1, "web-0", 40, 5.0, 9.0)),
        (restart(), approval("web-0", 5.0), recorded(E1, "web-0", 40, 40.0, 45.0)),
        "by web-0 was acknowledged at 5.000 s, and is not on record",
    ),
    "a quorum is of the VMs that run": (
        (QUORUM, restart(), recorded(E1, "web-0", 40, 40.0, 45.0, (12.0, "approved", ""), by="web-0")),
        (
            QUORUM,
            restart(),
            switched("web-1", "deallocate", 5.0),
            switched("web-2", "deallocate", 6.0),
            recorded(E1, "web-0", 40, 40.0, 45.0, (12.0, "approved", ""), by="web-0"),
        ),
        "could start at 12.0 s",
    ),
    "no VM is deallocated under a Started event": (
        (recorded(E1, "web-0", 20, 20.0, 30.0), switched("web-0", "deallocate", 30.5)),
        (recorded(E1, "web-0", 20, 20.0, 30.0), switched("web-0", "deallocate", 25.0)),
        "web-0 was deallocated while Reboot 11111111 of web was Started",
    ),
    "a machine runs as was asked for": (
        (switched("web-0", "deallocate", 5.0), MachineState("web-0", "h1", is_running=False, exists=True, at=9.0)),
        (switched("web-0", "deallocate", 5.0), MachineState("web-0", "h1", is_running=True, exists=True, at=9.0)),
        "machine web-0 runs, though it was asked not to",
    ),
    "a VM is told to stand where its machine is": (
        (vms(6.0), MachineState("web-0", "h1", is_running=True, exists=True, at=9.0)),
        (vms(6.0), MachineState("web-0", "h2", is_running=True, exists=True, at=9.0)),
        "web-0 is told to stand on h1, and its machine stands on h2",
    ),
    "who waits for a change is told of it": (
        (first(at=1.0), document(2, at=5.0), waiting(1, 6.0, 304)),
        (first(at=1.0), document(2, at=5.0), waiting(1, 8.0, 304)),
        "web-1 waited for a change of web and was shown 1",
    ),
    "who waits for a change is told of it at once": (
        (first(at=1.0), document(2, at=5.0), waiting(2, 6.0)),
        (first(at=1.0), document(2, at=5.0), waiting(2, 8.0)),
        "web-1 waited for a change of web and was shown 2 late",
    ),
    "how long one waits counts from its own request, however far its node was behind": (
        (first(at=1.0), document(2, at=5.0), roaming(7.5)),
        (first(at=1.0), document(2, at=5.0), roaming(1.5)),
        "web-1 waited for a change of web and was shown 2 late",
    ),
    "a VM that joined another group is shown nothing of the old one": (
        (change({"vms": [{"name": "web-1", "group": "db"}]}, 5.0), document(1, at=6.0, vm="web-1")),
        (change({"vms": [{"name": "web-1", "group": "db"}]}, 5.0), document(1, at=8.0, vm="web-1")),
        "web-1 was shown the document of web, and has joined db",
    ),
    "a VM that was removed may be added to another group again": (
        (
            change({"vms": [{"name": "web-1", "group": "db"}]}, 5.0),
            change({"removed_vms": ["web-1"]}, 6.0),
            document(1, at=8.0, vm="web-1"),
        ),
        (
            change({"vms": [{"name": "web-1", "group": "db"}]}, 5.0),
            change({"removed_vms": ["web-2"]}, 6.0),
            document(1, at=8.0, vm="web-1"),
        ),
        "web-1 was shown the document of web, and has joined db",
    ),
    "an old api-version shows what it knows": (
        (
            first(at=1.0),
            msgspec.structs.replace(
                document(2, wire_event(type_="Reboot"), at=3.0),
                target="/metadata/scheduledevents?api-version=2017-08-01",
            ),
        ),
        (
            first(at=1.0),
            msgspec.structs.replace(
                document(2, wire_event(type_="Preempt"), at=3.0),
                target="/metadata/scheduledevents?api-version=2017-08-01",
            ),
        ),
        "in 2017-08-01, which has no Preempt",
    ),
    "a token that was rotated has another secret": (
        (rotated(0), by_token("ab12 before k1", 6.0, 401), by_token("ab12", 6.0)),
        (rotated(0), by_token("ab12 before k1", 6.0)),
        "GET /v1/tokens of olga was let through with a token that has another secret now",
    ),
    "an old secret is valid as long as was asked for": (
        (rotated(10), by_token("ab12 before k1", 6.0), by_token("ab12 before k1", 16.0, 401)),
        (rotated(10), by_token("ab12 before k1", 6.0, 401)),
        "GET /v1/tokens of olga was refused with an old secret, which was to be valid until 14 s",
    ),
    "an old secret expires with its token": (
        (passing(10), rotated(60), by_token("ab12 before k1", 20.0, 401)),
        (rotated(60), by_token("ab12 before k1", 20.0, 401)),
        "GET /v1/tokens of olga was refused with an old secret, which was to be valid until 64 s",
    ),
    "an old secret is revoked with its token": (
        (rotated(10), asked("DELETE", "/v1/tokens/ab12", at=5.5), by_token("ab12 before k1", 6.0, 401)),
        (rotated(10), asked("DELETE", "/v1/tokens/ab12", at=5.5), by_token("ab12 before k1", 6.0)),
        "GET /v1/tokens of olga was let through with a revoked token",
    ),
    "a token that has expired is refused": (
        (passing(10), by_token("ab12", 14.0), by_token("ab12", 20.0, 401)),
        (passing(10), by_token("ab12", 20.0)),
        "GET /v1/tokens of olga was let through with a token that has expired",
    ),
    "a viewer changes nothing": (
        (restart(who="vic", status=403, answer=refused(403)), asked("GET", "/v1/vms", answer={"items": []}, at=6.0)),
        (restart(who="vic"),),
        "POST /v1/vms/web-0/operations of vic was let through, although a viewer changes nothing",
    ),
    "a label of a host that was acknowledged stands": (
        (asked("PATCH", "/v1/hosts/h2", {"labels": {"tier": "back"}}, at=5.0), hosts(7.0, labels={"tier": "back"})),
        (asked("PATCH", "/v1/hosts/h2", {"labels": {"tier": "back"}}, at=5.0), hosts(7.0)),
        "host h2 is shown with label none, and back was set",
    ),
    "what was done to several hosts stands": (
        (cordoned(("h1", "h2"), {"h2": "it is gone"}), hosts(7.0)),
        (cordoned(("h1", "h2"), {"h1": "it is gone"}), hosts(7.0)),
        "host h2 is shown with cordoned False, and True was set",
    ),
    "a cancellation of several events announces none of those that it names": (
        (asked("POST", "/v1/events/cancel", {"group": "web"}, announced(), at=19.0, key="k2"), COMPLETED),
        (restart(at=19.0, key="k2"), COMPLETED),
        "was announced after 18.900 s with at most",
    ),
    "a group that was added is shown": (
        (grouped("POST", 5.0), groups(6.0, "web", "g8"), grouped("DELETE", 7.0), groups(8.0, "web")),
        (grouped("POST", 5.0), groups(6.0, "web")),
        "group g8 is not shown, and was added",
    ),
    "a group that was removed is not shown": (
        (grouped("DELETE", 5.0), groups(6.0, "web")),
        (grouped("DELETE", 5.0), groups(6.0, "web", "g8")),
        "group g8 is shown, and was removed",
    ),
    "a token that was revoked is refused": (
        (asked("DELETE", "/v1/tokens/ab12", at=5.0), by_token("ab12", 6.0, 401), by_token("cd34", 6.0)),
        (asked("DELETE", "/v1/tokens/ab12", at=5.0), by_token("ab12", 6.0)),
        "GET /v1/tokens of olga was let through with a revoked token",
    ),
    "what is public needs no token": (
        (asked("DELETE", "/v1/tokens/ab12", at=5.0), by_token("ab12", 6.0, path="/v1/health/live")),
        (asked("DELETE", "/v1/tokens/ab12", at=5.0), by_token("ab12", 6.0, path="/v1/me")),
        "GET /v1/me of olga was let through with a revoked token",
    ),
    "several hosts are labelled": (
        (selected("hosts", "set", ["h2"], 5.0, set=FRONT), hosts(6.0, labels={"tier": "front"})),
        (selected("hosts", "set", ["h2"], 5.0, set=FRONT), hosts(6.0)),
        "host h2 is shown with label none, and front was set",
    ),
    "several hosts are removed": (
        (selected("hosts", "remove", ["h1"], 5.0), hosts(6.0)),
        (selected("hosts", "remove", ["h2"], 5.0), hosts(6.0)),
        "host h2 is shown, and was removed",
    ),
    "several VMs are labelled": (
        (selected("vms", "set", ["web-1"], 5.0, set=FRONT), vms(6.0)),
        (selected("vms", "set", ["web-0"], 5.0, set=FRONT), vms(6.0)),
        "web-0 is shown with label none, and front was set",
    ),
    "no VM of several is let to move to a cordoned host": (
        (operated("h2", "cordon", 5.0), selected("vms", "move", ["web-0"], 8.0, to="h1")),
        (operated("h2", "cordon", 5.0), selected("vms", "move", ["web-0"], 8.0, to="h2")),
        "web-0 was let to move to h2, which is cordoned",
    ),
    "a VM whose group was set is shown nothing of the old one": (
        (asked("PATCH", "/v1/vms/web-1", {"group": "db"}, at=5.0), document(1, at=6.0, vm="web-1")),
        (asked("PATCH", "/v1/vms/web-1", {"group": "db"}, at=5.0), document(1, at=8.0, vm="web-1")),
        "web-1 was shown the document of web, and has joined db",
    ),
    "a key is refused only to who used it": (
        (
            restart(at=2.0),
            asked("POST", "/v1/vms/web-1/operations", {}, refused(409, USED), at=4.0, key="k1", status=409),
        ),
        (
            restart(at=2.0),
            asked(
                "POST", "/v1/vms/web-1/operations", {}, refused(409, USED), at=4.0, key="k1", status=409, who="bob"
            ),
        ),
        "was refused for the key of somebody else",
    ),
    "maintenance takes turns in its record": (
        (ended(E1, "web-0", 20.0, 25.0), ended(E2, "web-1", 25.0, 30.0)),
        (ended(E1, "web-0", 20.0, 25.0), ended(E2, "web-1", 24.0, 30.0)),
        "started 1.000 s before",
    ),
    "maintenance goes one domain at a time": (
        (
            document(
                2,
                wire_event(E1, "Started", source="Platform", vms=("web-0",)),
                wire_event(E2, "Started", source="Platform", vms=("web-2",)),
                at=3.0,
            ),
        ),
        (
            document(
                2,
                wire_event(E1, "Started", source="Platform", vms=("web-0",)),
                wire_event(E2, "Started", source="Platform", vms=("web-1",)),
                at=3.0,
            ),
        ),
        "are Started together",
    ),
    "no VM is under two Started events": (
        (document(2, wire_event(E1, "Started"), wire_event(E2, "Started", vms=("web-1",)), at=3.0),),
        (document(2, wire_event(E1, "Started"), wire_event(E2, "Started", type_="Redeploy"), at=3.0),),
        "web-0 of web is under",
    ),
    "a VM is shown no other group": (
        (document(2, scheduled, at=3.0, vm="web-1"),),
        (document(2, wire_event(vms=("db-0",)), at=3.0, vm="web-1"),),
        "about db-0, which never belonged",
    ),
    "a VM cannot approve an event of another group": (
        (document(2, scheduled, at=3.0), approval("db-0", 4.0, status=400)),
        (document(2, scheduled, at=3.0), approval("db-0", 4.0)),
        "db-0 approved Reboot 11111111 of web, which is not of its group",
    ),
    "an owner is told no names of others": (
        (
            asked("GET", "/v1/vms", at=3.0, who="olga", groups=("web",), answer={"items": []}),
            asked(
                "GET",
                "/v1/vms/db-0",
                at=3.0,
                who="olga",
                groups=("web",),
                status=404,
                answer=refused(404, "there is no VM 'db-0'"),
            ),
        ),
        (asked("GET", "/v1/history", at=3.0, who="olga", groups=("web",), answer={"items": ["moved db-0."]}),),
        "olga of web was told of db-0",
    ),
    "an owner does not learn of events of others": (
        (
            document(2, wire_event(vms=("db-0",)), at=3.0, vm="db-0", group="db"),
            asked(
                "POST",
                f"/v1/events/{E1}/approve",
                at=4.0,
                who="olga",
                groups=("web",),
                status=404,
                answer=refused(404),
            ),
        ),
        (
            document(2, wire_event(vms=("db-0",)), at=3.0, vm="db-0", group="db"),
            asked("POST", f"/v1/events/{E1}/approve", at=4.0, who="olga", groups=("web",), answer={}),
        ),
        "was let at Reboot 11111111 of db",
    ),
    "what was shown is found": (
        (document(2, scheduled, at=3.0), asked("GET", f"/v1/events/{E2}", at=4.0, status=404, answer=refused(404))),
        (document(2, scheduled, at=3.0), asked("GET", f"/v1/events/{E1}", at=4.0, status=404, answer=refused(404))),
        "was shown at 3.000 s, and is not found",
    ),
    "what was acknowledged is listed": (
        (restart(), asked("GET", "/v1/events", at=3.0, answer={"items": [view()]}), document(2, scheduled, at=4.0)),
        (restart(), asked("GET", "/v1/events", at=3.0, answer={"items": []}), document(2, scheduled, at=4.0)),
        "but was gone before",
    ),
    "a key has one result": (
        (restart(), restart(at=5.0)),
        (restart(), restart(at=5.0, answer=announced(E2))),
        "and when repeated",
    ),
    "a key that was acknowledged is not forgotten": (
        (restart(), restart(at=5.0, status=503, answer=refused(503)), ProcessState("killed", 6.0), restart(at=9.0)),
        (restart(), restart(at=5.0, status=409, answer=refused(409))),
        "was done, and when repeated answered 409",
    ),
    "a key stands for one request": (
        (
            restart(),
            asked(
                "POST",
                "/v1/vms/web-1/operations",
                {"operation": "restart"},
                refused(409),
                at=5.0,
                key="k1",
                status=409,
            ),
        ),
        (
            restart(),
            asked("POST", "/v1/vms/web-1/operations", {"operation": "restart"}, announced(), at=5.0, key="k1"),
        ),
        "although the key was used for /v1/vms/web-0/operations",
    ),
    "a key belongs to one principal": (
        (restart(), restart(at=5.0, who="olga", groups=("web",), answer=announced(E2, "OP-2"))),
        (restart(), restart(at=5.0, who="olga", groups=("web",))),
        "olga (key 'k1') was given the result of the operators",
    ),
    "no machine is operated on twice for an event": (
        LIFE,
        (*LIFE, MachineOperation("web-0", "reboot", E1, 40.0)),
        "machine web-0 was operated on twice for Reboot 11111111 of web, first at 22.000 s",
    ),
    "no machine is operated on for a Scheduled event": (
        LIFE,
        (restart(), MachineOperation("web-0", "reboot", E1, 2.5), document(2, scheduled, at=4.0)),
        "which was still Scheduled afterwards",
    ),
    "no machine is operated on for an event that did not start": (
        LIFE,
        (MachineOperation("web-0", "reboot", E1, 2.5), timeline("Scheduled", at=3.0)),
        "has not started by its record",
    ),
    "no machine is operated on for a canceled event": (
        LIFE,
        (timeline("Canceled", (3.0, "Canceled"), at=4.0), MachineOperation("web-0", "reboot", E1, 5.0)),
        "which was canceled",
    ),
    "no machine is operated on for an event of others": (
        LIFE,
        (*LIFE[:-3], MachineOperation("web-1", "reboot", E1, 22.0), *LIFE[-2:]),
        "which is not about it",
    ),
    "a start succeeds": (
        (ProcessState("failed to start", 0.5, "the fleet file is wrong"), ProcessState("serving", 1.0)),
        (SERVING, ProcessState("failed to start", 5.0, "the fleet file is wrong")),
        "the service did not start: the fleet file is wrong",
    ),
    "the control API makes no mistakes": (
        (asked("GET", "/v1/vms/x", at=3.0, status=404, answer=refused(404)),),
        (asked("GET", "/v1/vms", at=3.0, status=500, answer=refused(500, "internal error; see the log")),),
        "answered 500: internal error",
    ),
    "the control API refuses with problem details": (
        (asked("GET", "/v1/vms/x", at=3.0, status=404, answer=refused(404)),),
        (asked("GET", "/v1/vms/x", at=3.0, status=404, answer="no"),),
        "without problem details",
    ),
    "the service is available while its disk works": (
        (SERVING, restart(at=40.0, status=503, answer=refused(503)), ProcessState("stopped", 41.0)),
        (SERVING, restart(at=40.0, status=503, answer=refused(503))),
        "answered 503 although the disk worked",
    ),
    "every request ends": (
        (SERVING, restart(at=50.0, sent=1.0), ProcessState("killed", 51.0)),
        (SERVING, restart(at=70.0, sent=1.0)),
        "of ann took 69 s",
    ),
    "a service that is there responds": (
        (SERVING, ProcessState("killed", 39.95), restart(at=40.0, status=0, answer=None)),
        (SERVING, restart(at=40.0, status=0, answer=None)),
        "had no response although the service was there",
    ),
    "every event ends": (
        (*LIFE[:-1], COMPLETED),
        (*LIFE[:-2], timeline("Started", (21.0, "Started"), at=990.0)),
        "is Started and does not end",
    ),
    "every event that is due starts": (
        (
            restart(answer=announced(not_before=995.0)),
            timeline("Scheduled", at=990.0, not_before=EPOCH + timedelta(seconds=995)),
        ),
        (restart(), timeline("Scheduled", at=990.0)),
        "is due and does not start",
    ),
    "an agent that approves has prepared": (
        (
            document(2, scheduled, at=3.0),
            AgentStep("web-0", "prepared", E1, 4.0),
            AgentStep("web-0", "approved", E1, 5.0),
        ),
        (
            document(2, scheduled, at=3.0),
            AgentStep("web-0", "approved", E1, 4.0),
            AgentStep("web-0", "prepared", E1, 5.0),
        ),
        "approved Reboot 11111111 of web before it had prepared",
    ),
    "an agent undoes what it prepared": (
        (*LIFE, AgentStep("web-0", "prepared", E1, 5.0), AgentStep("web-0", "undone", E1, 27.0)),
        (*LIFE, AgentStep("web-0", "prepared", E1, 5.0)),
        "did not undo its preparations",
    ),
    "an agent does not undo too early": (
        (document(2, scheduled, at=3.0), AgentStep("web-0", "prepared", E1, 4.0)),
        (
            AgentStep("web-0", "prepared", E1, 1.0),
            AgentStep("web-0", "approved", E1, 1.5),
            AgentStep("web-0", "undone", E1, 2.0),
            document(2, scheduled, at=3.0),
        ),
        "undid its preparations",
    ),
}


KEPT_UNTIL = {"every event ends": 1000.0, "every event that is due starts": 1000.0}
"""When a story is settled, where it is not soon after its last exchange."""


@pytest.mark.parametrize("promise", KEPT_AND_BROKEN)
def test_a_promise_that_is_kept_is_not_reported(promise: str) -> None:
    """A false alarm costs more than a missed one."""
    kept, _, _ = KEPT_AND_BROKEN[promise]
    assert problems_of(*kept, now=KEPT_UNTIL.get(promise, 60.0)) == []


@pytest.mark.parametrize("promise", KEPT_AND_BROKEN)
def test_a_promise_that_is_broken_is_reported(promise: str) -> None:
    """Each promise is checked."""
    _, broken, report = KEPT_AND_BROKEN[promise]
    assert [problem for problem in problems_of(*broken) if report in problem]


BUSY = (SERVING, restart(at=40.0, status=503, answer=refused(503)))
FORWARD = (document(2, scheduled, at=3.0), document(3, wire_event(not_before=18.0), at=4.0))
JOINED = (document(2, wire_event(vms=("db-0",)), at=3.0),)
SLOW = (SERVING, restart(at=70.0, sent=1.0))
NOT_STARTED = (SERVING, ProcessState("failed to start", 5.0, "the journal cannot be read"))
EXCUSED: dict[str, tuple[Story, PlannedAction]] = {
    "a host that degrades": (
        FORWARD,
        RequestHostOperation(at=3.0, who="ann", operation="degrade", host="h1", key="k9"),
    ),
    "a VM that joins": (
        JOINED,
        RequestFleetChange(at=1.0, who="ann", change='{"vms":[{"name":"db-0","group":"web"}]}', key="k"),
    ),
    "a VM whose entry in the fleet file changes": (
        (change({"removed_vms": ["web-0"]}, 5.0), vms(7.0)),
        EditFleetFile(at=6.0, edit="remove-host", subject="h1", value="-"),
    ),
    "a host that degrades, of which nobody was shown": (
        (
            restart(at=2.0, answer=announced(not_before=80.0)),
            recorded(E1, "web-0", 80, 60.0, 65.0, (40.0, "advanced", "now not before 2024-01-01T08:01:00Z")),
            MachineOperation("web-0", "reboot", E1, 60.1),
        ),
        RequestHostOperation(at=40.0, who="ann", operation="degrade", host="h1", key="k9"),
    ),
    "a network that is slow": (SLOW, DelayRequests(at=0.0, delay=5.0, seconds=100.0)),
}


UNDER_WAY = {
    "a start": (
        switched("web-0", "deallocate", 5.0),
        document(1, at=6.0),
        asked("POST", "/v1/vms/web-0/operations", {"operation": "start"}, sent=5.5, at=7.0, status=201),
    ),
    "a change of the group": (
        change({"vms": [{"name": "web-1", "group": "db"}]}, 5.0),
        document(1, at=8.0, vm="web-1"),
        asked("PATCH", "/v1/fleet", {"vms": [{"name": "web-1", "group": "web"}]}, sent=5.5, at=9.0),
    ),
}


@pytest.mark.parametrize("request_", UNDER_WAY)
def test_a_request_under_way_explains(request_: str) -> None:
    """A request may have had its effect before it is answered; without it, the same is reported."""
    story = UNDER_WAY[request_]
    assert problems_of(*story[:2])
    assert problems_of(*story, now=60.0) == []


@pytest.mark.parametrize("excuse", EXCUSED)
def test_the_plan_explains(excuse: str) -> None:
    """What the plan does may look like a broken promise; without that part of the plan it is reported."""
    story, action = EXCUSED[excuse]
    assert problems_of(*story)
    assert problems_of(*story, actions=(action,), now=60.0) == []


@pytest.mark.parametrize("story", [BUSY, NOT_STARTED], ids=["refused to write", "could not be read"])
def test_a_disk_that_failed_explains(story: Story) -> None:
    """A refusal soon after the disk failed is no broken promise; long after it, it is."""
    first, *rest = story
    assert problems_of(first, DiskFault("disk full", 4.9), DiskFault("disk full", 39.0), *rest, now=60.0) == []
    assert any("the disk worked" in problem or "did not start" in problem for problem in problems_of(*story))


def test_a_repetition_may_tell_how_an_event_stood_then() -> None:
    """The response to a repeated command is as old as the first one."""
    assert problems_of(*LIFE, restart(at=995.0), now=1000.0) == []


def test_a_lost_response_does_not_shorten_the_notice() -> None:
    """Notice counts from the first of the requests with one key."""
    lost = restart(at=3.0, status=0, answer=None)
    repeated = restart(at=15.0, answer=announced(not_before=18.0))
    story = (SERVING, lost, ProcessState("killed", 3.0), repeated, timeline("Scheduled", at=16.0))
    assert problems_of(*story, now=20.0) == []


def test_a_step_of_the_clock_leaves_the_start_unjudged() -> None:
    """After a restart and a step of the clock nobody can tell how much time has passed."""
    story = (restart(), document(2, scheduled, at=3.0), ProcessState("killed", 4.0), ClockChange(5.0, 50.0, 0.0))
    assert problems_of(*story, document(3, started, at=6.0), now=7.0) == []


@pytest.mark.parametrize("is_moved", [False, True])
def test_the_vms_of_an_event_share_their_host(*, is_moved: bool) -> None:
    """A VM that was moved may stand on the host of the other one."""
    vms = (PlannedVm("web-0", "web", "h1", 0, 0, "10.0.0.1"), PlannedVm("web-1", "web", "h2", 0, 0, "10.0.0.2"))
    promises = Promises(msgspec.structs.replace(plan_of(), vms=vms))
    if is_moved:
        promises.see(MachineOperation("web-1", "redeploy", E2, 2.0, "h1"))
    promises.see(document(2, wire_event(vms=("web-0", "web-1")), at=3.0))
    assert any("is about VMs on the hosts h1, h2" in problem for problem in promises.problems) is not is_moved


@pytest.mark.parametrize(("state", "is_reported"), [("serving", False), ("failed to start", True), ("killed", True)])
def test_the_service_serves_at_the_end(state: str, *, is_reported: bool) -> None:
    """Before the end of the plan it may be down."""
    story = (SERVING, DiskFault("disk unreadable", 5.0), ProcessState(state, 6.0))
    assert not any("does not serve" in problem for problem in problems_of(*story, now=60.0))
    assert any("does not serve" in problem for problem in problems_of(*story)) is is_reported


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_standalone_group_goes_with_its_vm(*, is_removed: bool) -> None:
    """One that returns with the VM has the terms of the fleet file."""
    answer = {"name": "db", "incarnation": 1, "members": ["db-0"], "upcoming": []}
    set_ = asked("PATCH", "/v1/groups/db", {"eviction": "delete"}, {"name": "db"}, at=0.4, key="terms")
    story = (set_, asked("GET", "/v1/groups/db", answer=answer, at=200.0))
    removal = RequestFleetChange(at=1.0, who="ann", change='{"removed_vms":["db-0"]}', key="k")
    problems = problems_of(*story, actions=(removal,) if is_removed else ())
    assert any("db is shown with eviction" in problem for problem in problems) is not is_removed


def test_the_questions_are_about_every_event_that_was_shown_and_every_group() -> None:
    """An id that was only asked for need not exist."""
    promises = Promises(plan_of())
    promises.see(document(2, scheduled, at=3.0))
    promises.see(approval("web-0", 4.0, E2, status=0))
    assert promises.questions() == [f"/v1/events/{E1}", "/v1/groups/web", "/v1/groups/db"]


def test_the_repetitions_are_all_that_was_acknowledged_with_a_key() -> None:
    """What was refused may be answered otherwise later."""
    promises = Promises(plan_of())
    for each in (restart(), restart(at=5.0), restart(at=6.0, key="k2", status=409, answer=refused(409))):
        promises.see(each)
    assert promises.repetitions() == [restart()]


def test_a_broken_promise_is_reported_once() -> None:
    """A promise that stays broken does not fill the report."""
    falling = [document(3 + second % 2, at=float(second)) for second in range(1, 5)]
    assert problems_of(*falling) == [
        "2.000 s: the incarnation that web-0 is shown fell from 4 to 3",
        "2.000 s: incarnation of web fell from 4 to 3, seen by web-0",
    ]


def test_a_start_applies_what_it_can_of_the_fleet_file() -> None:
    """A host that was added to the file is there after the next start, if the disk worked."""
    added = EditFleetFile(at=5.0, edit="add-host", subject="h5", value="-")
    restarted = ProcessState("starting", 10.0), ProcessState("serving", 11.0)

    assert (
        "h5 was added to the fleet file, and no start brought it"
        in problems_of(*restarted, hosts(50.0), actions=(added,))[0]
    )
    assert problems_of(*restarted, hosts(50.0, name="h5"), actions=(added,)) == []
    assert problems_of(hosts(50.0), actions=(added,)) == []
    spoilt = EditFleetFile(at=6.0, edit="spoil", subject="-", value="-")
    assert problems_of(*restarted, hosts(50.0), actions=(added, spoilt)) == []
    assert problems_of(DiskFault("disk full", 9.0), *restarted, hosts(50.0), actions=(added,)) == []


def test_a_node_that_starts_beside_a_leader_applies_no_fleet_file() -> None:
    """Of several nodes, only one that begins to lead applies its file."""
    added = EditFleetFile(at=5.0, edit="add-host", subject="h5", value="-")
    promises = Promises(msgspec.structs.replace(plan_of(added), nodes=3))
    for each in (ProcessState("starting", 10.0, node="n2"), ProcessState("serving", 11.0, node="n2"), hosts(50.0)):
        promises.see(each)
    promises.settle(1000.0)
    assert promises.problems == []


def test_users_have_no_more_scheduled_than_may_be() -> None:
    """The record tells how many were Scheduled when one was announced, and when one was refused."""
    both = recorded(E1, "web-0", 20, 20.0, 30.0), recorded(E2, "web-1", 21, 21.0, 30.0)
    detail = "too many user-initiated events are Scheduled: 2, and the limit is 2"
    one_more = restart(at=5.0, status=409, answer=refused(409, detail))

    def judge(limit: int, *exchanges: Exchange) -> list[str]:
        promises = Promises(msgspec.structs.replace(plan_of(), user_limit=limit))
        for exchange in exchanges:
            promises.see(exchange)
        promises.settle(100.0)
        return [problem for problem in promises.problems if "the limit is" in problem]

    assert judge(2, *both, one_more) == []
    assert "as one of 2 of users, and the limit is 1" in judge(1, *both)[0]
    assert "refused with 2 Scheduled, and the limit is 3" in judge(3, *both, one_more)[0]
