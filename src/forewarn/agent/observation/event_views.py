"""Builds the view of each event in the agent's status, with what its approval waits for. Pure."""

from collections.abc import Collection
from datetime import datetime

import msgspec

from forewarn.agent.decision.actions import DecisionSettings
from forewarn.agent.decision.approval_turn import Approver, SendApproval, decide_turn, is_due
from forewarn.agent.decision.memory import AgentMemory, HandlerCall, HandlerStep, KnownEvent
from forewarn.agent.decision.reaction import is_in_the_way, is_settled
from forewarn.agent.decision.rules import ApprovalMode, EventRule, concerns
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.agent.observation.status import ApprovalState, EventStatusView, HoldView, StepState, StepView
from forewarn.client.names import find_name
from forewarn.wire.event_json import make_event_json


def make_event_views(
    memory: AgentMemory,
    decision_settings: DecisionSettings,
    now: datetime,
    approving: Collection[str] = (),
    waiting_calls: Collection[tuple[str, str]] = (),
) -> tuple[EventStatusView, ...]:
    """Return a view of each event; ``approving`` are the events with an approval under way.

    ``waiting_calls`` are the calls, by event and handler, that wait for an earlier call of the handler to return.
    """
    return tuple(
        _event(
            known,
            decision_settings,
            now,
            known.event.id in approving,
            [handler for event, handler in waiting_calls if event == known.event.id],
        )
        for known in memory.events.values()
    )


def _event(
    known: KnownEvent,
    decision_settings: DecisionSettings,
    now: datetime,
    is_on_its_way: bool,  # noqa: FBT001 - positional for map
    waiting: Collection[str],
) -> EventStatusView:
    rule = decision_settings.rule_of(known.event)
    names = dict.fromkeys((*(rule.handlers if rule else ()), *known.steps))
    on_its_way = ApprovalWait(ApprovalState.SENT, "the approval is being sent")
    found = on_its_way if is_on_its_way else describe_approval_wait(known, rule, decision_settings, now)
    return EventStatusView(
        event=make_event_json(known.event),
        concerns_me=concerns(known.event, decision_settings.vm),
        is_gone=known.is_gone,
        rule=rule.name if rule else "",
        steps=tuple(_step(name, known.steps.get(name, HandlerStep()), name in waiting) for name in names),
        approval=found.state,
        approval_detail=found.detail,
        waits_for=found.names,
        waits_until=found.until,
        holds=tuple(HoldView(holder=name, until=until) for name, until in known.holds.items() if until > now),
    )


def _step(name: str, step: HandlerStep, waits: bool) -> StepView:  # noqa: FBT001 - positional, private
    direction = Direction.UNDO if step.undo else Direction.DO
    call = step.undo or step.do
    state = StepState.LEFT_OUT if step.left_out and not step.undo else _state(call, direction)
    detail = step.left_out if state is StepState.LEFT_OUT else _detail(call)
    if waits:
        state, detail = StepState.WAITING, "waits until an earlier call of the handler has returned"
    return StepView(
        handler=name,
        direction=direction,
        state=state,
        detail=detail,
        began_at=call.began_at if call else None,
        ended_at=call.ended_at if call else None,
        attempt=call.attempt if call else 0,
    )


def _state(call: HandlerCall | None, direction: Direction) -> StepState:
    match call:
        case None:
            return StepState.WAITING
        case HandlerCall(result=HandlerDone()):
            return StepState.DONE if direction is Direction.DO else StepState.UNDONE
        case HandlerCall(result=HandlerFailed()):
            return StepState.FAILED
        case HandlerCall(is_cut_off=True):
            return StepState.WAITING
        case _:
            return StepState.RUNNING


def _detail(call: HandlerCall | None) -> str:
    match call:
        case HandlerCall(result=HandlerDone(detail=detail)):
            return detail
        case HandlerCall(result=HandlerFailed(reason=reason)):
            return reason
        case _:
            return ""


_NOT_BEFORE = "NotBefore"


class ApprovalWait(msgspec.Struct, frozen=True):
    """State of an approval, and what it waits for."""

    state: ApprovalState
    detail: str = ""
    """One sentence for the status output."""
    names: tuple[str, ...] = ()
    """Handlers, holders, VMs, ``coordinator``, ``endpoint`` or ``NotBefore``."""
    until: datetime | None = None


def describe_approval_wait(
    known: KnownEvent, rule: EventRule | None, decision_settings: DecisionSettings, now: datetime
) -> ApprovalWait:
    """Return what the approval of an event waits for."""
    event = known.event
    if known.approved_at:
        return ApprovalWait(ApprovalState.SENT, f"approved at {_clock(known.approved_at)}")
    if rule is None or (
        decision_settings.approver is not Approver.COORDINATOR and not concerns(event, decision_settings.vm)
    ):
        return ApprovalWait(
            ApprovalState.NOT_OURS, "no rule matches" if rule is None else "the affected VMs approve it"
        )
    if is_due(event, now):
        return ApprovalWait(ApprovalState.WAITING, "its NotBefore has passed: it starts without approval")
    if rule.approval is ApprovalMode.NEVER:
        said = f'rule {rule.name!r} has approval = "never"{_at_not_before(known)}'
        return ApprovalWait(ApprovalState.NEVER, said, (_NOT_BEFORE,), event.not_before)
    found = _handlers(known, rule, decision_settings, now) if rule.approval is ApprovalMode.WHEN_READY else None
    return found or _holders(known, now) or _turn(known, decision_settings, now)


def _handlers(
    known: KnownEvent, rule: EventRule, decision_settings: DecisionSettings, now: datetime
) -> ApprovalWait | None:
    steps, terms = known.steps, decision_settings.terms
    settled = {name: is_settled(steps.get(name), terms[name]) for name in rule.handlers}
    for name, is_over in settled.items():
        if is_over and is_in_the_way(steps.get(name), terms[name]):
            said = f"handler {name} failed or was left out, so the event is not approved{_at_not_before(known)}"
            return ApprovalWait(ApprovalState.HELD, said, (name,), known.event.not_before)
    waited_for = [name for name, is_over in settled.items() if not is_over]
    if not waited_for:
        return None
    ends: list[datetime] = []
    names: list[str] = []
    for name in waited_for:
        match steps[name].do if name in steps else None:
            case HandlerCall(is_running=True, began_at=began):
                ends.append(min(began + terms[name].timeout, known.event.not_before or began + terms[name].timeout))
                names.append(f"{name} (until {_clock(ends[-1])})")
            case HandlerCall(result=HandlerFailed(), ended_at=datetime() as ended) if (
                ended + terms[name].retry_after > now
            ):
                ends.append(ended + terms[name].retry_after)
                names.append(f"{name} (retry at {_clock(ends[-1])})")
            case _:
                names.append(name)
    until = max(ends, default=known.event.not_before)
    return ApprovalWait(ApprovalState.WAITING, f"waits for {_list(names)}", tuple(waited_for), until)


def _holders(known: KnownEvent, now: datetime) -> ApprovalWait | None:
    held = {name: until for name, until in known.holds.items() if until > now}
    if not held:
        return None
    holders = [f"{name} until {_clock(until)} at most" for name, until in held.items()]
    return ApprovalWait(ApprovalState.HELD, f"held by {_list(holders)}", tuple(held), max(held.values()))


def _turn(known: KnownEvent, decision_settings: DecisionSettings, now: datetime) -> ApprovalWait:
    next_step = decide_turn(known, decision_settings.vm, decision_settings.approver, decision_settings.takeover, now)
    at = next_step if isinstance(next_step, datetime) else None
    if known.consulted and not known.consulted.agreed:
        said = f"the coordinator does not agree yet: {known.consulted.detail}".rstrip(": ")
        said += f"; it is asked again at {_clock(at)}" if at else ""
        return ApprovalWait(ApprovalState.WAITING, said, ("coordinator",), at)
    if known.not_approved:
        said = f"the approval failed: {known.not_approved.reason}"
        said += f"; it is sent again at {_clock(at)}" if at else ""
        return ApprovalWait(ApprovalState.WAITING, said, ("endpoint",), at)
    if at:
        resources = known.event.resources
        before = resources[
            : next(rank for rank, name in enumerate(resources) if find_name(decision_settings.vm, (name,)))
        ]
        said = f"waits for {_list(before)}, which approves first; this VM takes over at {_clock(at)}"
        return ApprovalWait(ApprovalState.WAITING, said, tuple(before), at)
    if next_step is not None and not isinstance(next_step, SendApproval):
        return ApprovalWait(ApprovalState.WAITING, "waits for the coordinator", ("coordinator",))
    return ApprovalWait(ApprovalState.WAITING)


def _at_not_before(known: KnownEvent) -> str:
    not_before = known.event.not_before
    return f"; it starts at its NotBefore, {_clock(not_before)}" if not_before else ""


def _clock(when: datetime) -> str:
    return f"{when:%H:%M:%S} UTC"


def _list(names: "list[str] | tuple[str, ...]") -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
