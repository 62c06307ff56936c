"""What a simulated event makes of the agent's status."""

from pathlib import Path

import pytest

from forewarn.agent.handler import Direction
from forewarn.agent.observation.status import ApprovalState, EventStatusView, StepState, StepView
from forewarn.agent.settings import AgentSettings
from forewarn.cli.agent_simulation import SimulationResult, simulate_event
from forewarn.wire.event_json import EventJson

EVENT = EventJson(
    event_id="1",
    event_status="Scheduled",
    event_type="Reboot",
    resources=("web-0",),
    not_before="",
    description="",
    event_source="Platform",
    duration_in_seconds=-1,
)


def view(approval: ApprovalState, detail: str = "", *steps: StepView, is_gone: bool = False) -> EventStatusView:
    return EventStatusView(
        event=EVENT, concerns_me=True, approval=approval, approval_detail=detail, steps=steps, is_gone=is_gone
    )


def test_the_last_state_of_the_approval_is_kept() -> None:
    """Until it is sent, or the event is gone: what the agent tells afterwards says nothing about it."""
    result = SimulationResult("reboot", dry_run=False)
    result.note(view(ApprovalState.WAITING, "waits for drain"))
    assert (result.approval, result.approval_detail) == (ApprovalState.WAITING, "waits for drain")

    result.note(view(ApprovalState.NOT_OURS, is_gone=True))
    assert (result.approval, result.approval_detail) == (ApprovalState.WAITING, "waits for drain")

    result.note(view(ApprovalState.SENT))
    result.note(view(ApprovalState.NOT_OURS))
    assert result.approval is ApprovalState.SENT


def test_the_results_of_do_are_kept_during_undo() -> None:
    """Each handler has one line for each direction, ``do`` first; the last state counts."""
    running = StepView(handler="drain", direction=Direction.DO, state=StepState.RUNNING)
    done = StepView(handler="drain", direction=Direction.DO, state=StepState.DONE)
    undone = StepView(handler="drain", direction=Direction.UNDO, state=StepState.UNDONE)
    result = SimulationResult("reboot", dry_run=False)
    result.note(view(ApprovalState.WAITING, "", running))
    result.note(view(ApprovalState.SENT, "", done))
    assert result.steps == [done]

    result.note(view(ApprovalState.SENT, "", undone, is_gone=True))
    assert result.steps == [done, undone]


def test_the_emulated_service_goes_by_the_real_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers take real time, which must count against the notice."""
    given: dict[str, object] = {}

    class Made(Exception):
        """The emulator was asked for."""

    def emulator(*names: str, **options: object) -> None:
        given.update(options)
        raise Made(*names)

    monkeypatch.setattr("forewarn.emulator.emulator.Emulator", emulator)
    monkeypatch.setattr("forewarn.logs.set_up", lambda *_: None)
    with pytest.raises(Made, match="web-0"):
        simulate_event(AgentSettings(name="web-0", state=Path()), "reboot", None, 1.0, quiet=True)

    assert given == {"clock": "system", "notice": None}
