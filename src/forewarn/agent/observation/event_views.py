"""Builds the view of each event in the agent's status, with what its approval waits for. Pure."""

from collections.abc import Collection
from datetime import datetime

from forewarn.agent.decision.memory import AgentMemory, HandlerCall, HandlerStep, KnownEvent
from forewarn.agent.decision.reaction import DecisionSettings
from forewarn.agent.decision.rules import concerns
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.agent.observation.approval_wait import ApprovalWait, describe_approval_wait
from forewarn.agent.observation.status import ApprovalState, EventStatusView, HoldView, StepState, StepView
from forewarn.wire.event_json import make_event_json


def make_event_views(
    memory: AgentMemory, decision_settings: DecisionSettings, now: datetime, approving: Collection[str] = ()
) -> tuple[EventStatusView, ...]:
    """Return a view of each event; ``approving`` are the events with an approval under way."""
    return tuple(
        _event(known, decision_settings, now, known.event.id in approving) for known in memory.events.values()
    )


def _event(
    known: KnownEvent,
    decision_settings: DecisionSettings,
    now: datetime,
    is_on_its_way: bool,  # noqa: FBT001 - positional for map
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
        steps=tuple(_step(name, known.steps.get(name, HandlerStep())) for name in names),
        approval=found.state,
        approval_detail=found.detail,
        waits_for=found.names,
        waits_until=found.until,
        holds=tuple(HoldView(holder=name, until=until) for name, until in known.holds.items() if until > now),
    )


def _step(name: str, step: HandlerStep) -> StepView:
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
