"""Simulates an event for ``forewarn agent test``: runs the real agent against an emulated service in one process."""

import asyncio
import logging
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from forewarn.agent.decision.facts import AgentFact, CoordinatorConsulted
from forewarn.agent.observation.status import ApprovalState, EventStatusView, StepState, StepView
from forewarn.cli.output import print_json, print_table
from forewarn.cli.times import span
from forewarn.core.errors import BadInput
from forewarn.core.event_types import EVENT_TYPES
from forewarn.core.model import EventStatus, EventType
from forewarn.wire.event_json import show_status

if TYPE_CHECKING:
    from forewarn.agent.runtime.loop import Agent
    from forewarn.agent.settings import AgentSettings
    from forewarn.config.settings import NoticeSettings
    from forewarn.emulator.emulator import Emulator

_Answer = TypeVar("_Answer")

_POLL_INTERVAL = 0.05
_SCHEDULED = show_status(EventStatus.SCHEDULED)
_OPEN = (StepState.WAITING, StepState.RUNNING)
_AFTERWARDS = timedelta(minutes=30)
"""Longer than any emulated impact."""


class SimulationResult(msgspec.Struct):
    """Result of a simulation."""

    event: str
    dry_run: bool
    rule: str = ""
    approval: ApprovalState = ApprovalState.NOT_OURS
    approval_detail: str = ""
    steps: list[StepView] = []
    is_seen: bool = False
    has_started: bool = False
    is_over: bool = False
    is_declined: bool = False
    """Whether the coordinator refused: a simulation does not wait for its agreement."""
    gave_up: str = ""
    """What the simulation waited for at its timeout."""

    def note(self, view: EventStatusView) -> None:
        """Update from the agent's status; keep the results of ``do`` during ``undo``."""
        self.is_seen = True
        self.has_started = self.has_started or view.event.event_status != _SCHEDULED
        self.rule = view.rule
        if self.approval is not ApprovalState.SENT and not view.is_gone:
            self.approval, self.approval_detail = view.approval, view.approval_detail
        known = {(step.handler, step.direction): step for step in self.steps}
        known |= {(step.handler, step.direction): step for step in view.steps}
        self.steps = sorted(known.values(), key=lambda step: step.direction)

    @property
    def is_well(self) -> bool:
        """Whether all calls succeeded."""
        return self.is_over and all(step.state in (StepState.DONE, StepState.UNDONE) for step in self.steps)


def simulate_event(
    settings: "AgentSettings", event: str, notice: str | None, seconds: float, *, quiet: bool
) -> SimulationResult:
    """Run an agent with these settings until the event is over and undone, or the timeout."""
    from forewarn import logs
    from forewarn.agent.runtime.assembly import run
    from forewarn.emulator.emulator import Emulator

    least = _notice(event, notice)
    logs.set_up(sys.stderr, "error" if quiet else settings.log_level, settings.log_format)
    logging.getLogger("forewarn.facts").setLevel(logging.WARNING)  # only the agent's log is of interest
    name = settings.name or "this-vm"
    result = SimulationResult(event, dry_run=settings.dry_run)
    playing: list[asyncio.Task[None]] = []
    with (
        tempfile.TemporaryDirectory(prefix="forewarn-trial-") as state,
        Emulator(name, clock="system", notice=least) as emulator,
    ):
        trial = msgspec.structs.replace(
            settings, url=emulator.url_of(name), name=name, state=Path(state), socket=None, http=None
        )

        def begin(agent: "Agent") -> None:
            agent.clock_check = None  # the endpoint's clock is advanced
            agent.on_fact = partial(_note, agent, result, agent.on_fact)
            playing.append(
                asyncio.get_running_loop().create_task(_play_in_time(agent, emulator, name, result, seconds))
            )

        run(trial, begin)
        if playing[0].done() and not playing[0].cancelled() and (error := playing[0].exception()):
            raise error
    return result


def _note(agent: "Agent", result: SimulationResult, tell: Callable[[AgentFact], None], fact: AgentFact) -> None:
    """Update the result after each fact: the agent forgets an event as soon as it is undone."""
    tell(fact)
    result.is_declined = result.is_declined or (isinstance(fact, CoordinatorConsulted) and not fact.agreed)
    for view in agent.status().events:
        result.note(view)


async def _play_in_time(
    agent: "Agent", emulator: "Emulator", name: str, result: SimulationResult, seconds: float
) -> None:
    try:
        async with asyncio.timeout(seconds) as limit:
            await _play(agent, emulator, name, result)
    except TimeoutError:
        if not limit.expired():
            raise
        result.gave_up = f"gave up after {span(seconds)}, waiting for {_awaited(agent, result)}"
    finally:
        agent.stop()


async def _play(agent: "Agent", emulator: "Emulator", name: str, result: SimulationResult) -> None:
    from forewarn.emulator.verbs import verb_announcing

    while agent.status().incarnation is None:  # noqa: ASYNC110 - the agent has no signal for it
        await asyncio.sleep(_POLL_INTERVAL)
    event = await _call_in_thread(lambda: emulator.do(verb_announcing(EventType(result.event)), vm=name)[0])
    is_moved = False
    while not (await _call_in_thread(lambda: event.is_over) and result.is_seen and not agent.status().events):
        if not is_moved and _is_prepared(result):
            if EVENT_TYPES[EventType(result.event)].ends_vm:
                break  # the agent receives nothing more, and nothing is undone
            # Approved or not, the preparation is complete: start the event.
            is_moved = True
            await _call_in_thread(lambda: emulator.advance(_AFTERWARDS))
        await asyncio.sleep(_POLL_INTERVAL)
    result.is_over = True


async def _call_in_thread(call: Callable[[], _Answer]) -> _Answer:
    """Call in a daemon thread: the agent's event loop continues and handles signals."""
    answer: Future[_Answer] = Future()

    def run() -> None:
        answer.set_running_or_notify_cancel()
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is awaited
            answer.set_exception(error)

    threading.Thread(target=run, name="trial", daemon=True).start()
    return await asyncio.wrap_future(answer)


def _awaited(agent: "Agent", result: SimulationResult) -> str:
    """Return what an unfinished simulation waits for."""
    if agent.status().incarnation is None:
        return "the agent's first request"
    if not result.is_seen:
        return "the agent to see the event"
    running = [f"{step.handler} to {step.direction}" for step in result.steps if step.state is StepState.RUNNING]
    return " and ".join(running) or ("everything to be put back" if agent.status().events else "the event to end")


def _notice(event: str, given: str | None) -> "NoticeSettings | None":
    """Return the notice of events; None for Azure's."""
    from forewarn.config.durations import read_duration
    from forewarn.config.settings import NoticeSettings

    if given is None:
        return None
    if EVENT_TYPES[EventType(event)].notice is None:
        raise BadInput(f"a {event} is announced five minutes ahead; --notice is for the other events")
    try:
        return msgspec.structs.replace(NoticeSettings(), **{event: read_duration(given)})
    except ValueError:
        raise BadInput(f'--notice is a duration such as "20s" or "15m", and not {given!r}') from None


def _is_prepared(result: SimulationResult) -> bool:
    if not result.rule:
        return result.is_seen
    is_awaited = result.approval is ApprovalState.WAITING and not (
        result.dry_run or result.has_started or result.is_declined
    )
    return not is_awaited and not any(step.state in _OPEN for step in result.steps)


def print_result(result: SimulationResult, *, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    if not result.rule:
        click.echo(f"no rule fits a {result.event} of this VM: nothing was done")
        return
    click.echo()
    rows = [(step.handler, step.direction, step.state, _seconds(step), step.detail) for step in result.steps]
    print_table(
        ("HANDLER", "DOES", "STATE", "TOOK", "DETAIL"), rows, "the rule has no handlers", drop=("TOOK", "DOES")
    )
    click.echo(f"rule {result.rule}, {_approval(result)}")
    if result.gave_up:
        click.echo(result.gave_up)
    if not result.is_over:
        click.echo("stopped before it was over: put back by hand what was done")


def _approval(result: SimulationResult) -> str:
    if result.dry_run:
        return "dry run: nothing was approved"
    is_told = result.approval in (ApprovalState.WAITING, ApprovalState.HELD) and result.approval_detail
    return f"approval {result.approval}: {result.approval_detail}" if is_told else f"approval {result.approval}"


def _seconds(step: StepView) -> str:
    if step.began_at is None or step.ended_at is None:
        return ""
    return f"{(step.ended_at - step.began_at).total_seconds():.2f} s"
