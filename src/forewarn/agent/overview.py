"""What the agent knows, as others are told it. Pure."""

from collections.abc import Collection
from datetime import datetime

from forewarn.agent.awaited import Awaited, awaited
from forewarn.agent.handler import Direction, Done, Failed
from forewarn.agent.memory import Call, Known, Memory, Step
from forewarn.agent.reaction import Agenda
from forewarn.agent.rules import concerns
from forewarn.agent.status import ApprovalState, EventStatusView, HoldView, StepState, StepView
from forewarn.wire.shown import shown_event


def overview(
    memory: Memory, agenda: Agenda, now: datetime, approving: Collection[str] = ()
) -> tuple[EventStatusView, ...]:
    """Say of each event how far the agent has come with it; ``approving`` are those whose approval is on its way."""
    return tuple(_event(known, agenda, now, known.event.id in approving) for known in memory.events.values())


def _event(known: Known, agenda: Agenda, now: datetime, is_on_its_way: bool) -> EventStatusView:  # noqa: FBT001 - as told above
    rule = agenda.rule_of(known.event)
    names = dict.fromkeys((*(rule.handlers if rule else ()), *known.steps))
    on_its_way = Awaited(ApprovalState.SENT, "on its way")
    found = on_its_way if is_on_its_way else awaited(known, rule, agenda, now)
    return EventStatusView(
        event=shown_event(known.event),
        concerns_me=concerns(known.event, agenda.vm),
        is_gone=known.is_gone,
        rule=rule.name if rule else "",
        steps=tuple(_step(name, known.steps.get(name, Step())) for name in names),
        approval=found.state,
        approval_detail=found.detail,
        waits_for=found.names,
        waits_until=found.until,
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
