"""What the agent knows, as others are told it. Pure."""

from collections.abc import Collection
from datetime import datetime

from forewarn.agent.approving import Approver, is_due
from forewarn.agent.handler import Direction, Done, Failed
from forewarn.agent.memory import Call, Known, Memory, Step
from forewarn.agent.reaction import Agenda, is_in_the_way, is_settled
from forewarn.agent.rules import Approval, Rule, choose, concerns
from forewarn.agent.status import ApprovalState, EventStatusView, HoldView, StepState, StepView
from forewarn.wire.shown import shown_event


def overview(
    memory: Memory, agenda: Agenda, now: datetime, approving: Collection[str] = ()
) -> tuple[EventStatusView, ...]:
    """Say of each event how far the agent has come with it; ``approving`` are those whose approval is on its way."""
    return tuple(_event(known, agenda, now, known.event.id in approving) for known in memory.events.values())


def _event(known: Known, agenda: Agenda, now: datetime, is_on_its_way: bool) -> EventStatusView:  # noqa: FBT001 - as told above
    rule = choose(agenda.rules, known.event, agenda.vm)
    names = dict.fromkeys((*(rule.handlers if rule else ()), *known.steps))
    state, detail = (ApprovalState.SENT, "on its way") if is_on_its_way else _approval(known, rule, agenda, now)
    return EventStatusView(
        event=shown_event(known.event),
        concerns_me=concerns(known.event, agenda.vm),
        is_gone=known.is_gone,
        rule=rule.name if rule else "",
        steps=tuple(_step(name, known.steps.get(name, Step())) for name in names),
        approval=state,
        approval_detail=detail,
        holds=tuple(HoldView(holder=name, until=until) for name, until in known.holds.items() if until > now),
    )


def _step(name: str, step: Step) -> StepView:
    direction = Direction.UNDO if step.undo else Direction.DO
    call = step.undo or step.do
    state = StepState.LEFT_OUT if step.left_out and not step.undo else _state(call, direction)
    return StepView(
        handler=name,
        direction=direction,
        state=state,
        detail=step.left_out if state is StepState.LEFT_OUT else _detail(call),
        began_at=call.began_at if call else None,
        ended_at=call.ended_at if call else None,
        attempt=call.attempt if call else 0,
    )


def _state(call: Call | None, direction: Direction) -> StepState:
    match call:
        case None:
            return StepState.WAITING
        case Call(result=Done()):
            return StepState.DONE if direction is Direction.DO else StepState.UNDONE
        case Call(result=Failed()):
            return StepState.FAILED
        case Call(is_cut_off=True):
            return StepState.WAITING
        case _:
            return StepState.RUNNING


def _detail(call: Call | None) -> str:
    match call:
        case Call(result=Done(detail=detail)):
            return detail
        case Call(result=Failed(reason=reason)):
            return reason
        case _:
            return ""


def _approval(known: Known, rule: Rule | None, agenda: Agenda, now: datetime) -> tuple[ApprovalState, str]:
    if known.approved_at:
        return ApprovalState.SENT, f"approved at {known.approved_at:%H:%M:%S} UTC"
    if rule is None or (agenda.approver is not Approver.COORDINATOR and not concerns(known.event, agenda.vm)):
        return ApprovalState.NOT_OURS, "no rule fits" if rule is None else "it is for the VMs that it happens to"
    if is_due(known.event, now):
        return ApprovalState.WAITING, "its time has come: it begins without"
    if rule.approval is Approval.NEVER:
        return ApprovalState.NEVER, f"the rule {rule.name!r} says never"
    if rule.approval is Approval.WHEN_READY:
        for name in rule.handlers:
            step, terms = known.steps.get(name), agenda.terms[name]
            if is_settled(step, terms) and is_in_the_way(step, terms):
                return ApprovalState.HELD, f"{name} is not ready, and without it the event is not approved"
    if held := {name: until for name, until in known.holds.items() if until > now}:
        name, until = max(held.items(), key=lambda hold: hold[1])
        return ApprovalState.HELD, f"held by {name} until {until:%H:%M:%S} UTC at most"
    if known.consulted and not known.consulted.agreed:
        return ApprovalState.WAITING, f"the coordinator does not agree yet: {known.consulted.detail}".rstrip(": ")
    if known.not_approved:
        return ApprovalState.WAITING, f"not taken yet: {known.not_approved.reason}"
    return ApprovalState.WAITING, ""
