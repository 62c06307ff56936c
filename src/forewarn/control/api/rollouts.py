"""Rollouts: plan, start, list, show, pause, resume, cancel, edit, retry and skip hosts."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from litestar import Router, patch
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec.structs import asdict, replace

from forewarn.control.api.context import ApiContext, ContextDependency
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.routing import reads, writes
from forewarn.control.bodies import (
    PauseRolloutBody,
    ResultPage,
    RetryHostsBody,
    RolloutBody,
    RolloutEditBody,
    SkipHostBody,
)
from forewarn.control.rollout_views import (
    RolloutDetail,
    RolloutPlanView,
    RolloutView,
    detail_rollout,
    summarize,
    view_rollout,
)
from forewarn.core.access import Action
from forewarn.core.commands import Command
from forewarn.core.errors import Refused, Unknown
from forewarn.core.facts import Entry
from forewarn.core.rollouts.commands import (
    CancelRollout,
    EditRollout,
    PauseRollout,
    ResumeRollout,
    RetryHosts,
    SkipHost,
    StartRollout,
)
from forewarn.core.rollouts.model import RolloutState
from forewarn.core.rollouts.planning import PlannedWave, RolloutPlan, check_saved
from forewarn.core.rollouts.steering import find_rollout

_MOST_ENDED = 1_000
_Finished = Annotated[
    int,
    QueryParameter(ge=0, le=_MOST_ENDED, description="Number of ended rollouts, the newest ones, at the beginning."),
]


@reads("/", Action.READ_HOSTS, summary="List rollouts")
async def list_rollouts(context: ContextDependency, finished: _Finished = 0) -> ResultPage[RolloutView]:
    """List the rollouts that have not ended, in the order in which they started; ended ones if requested."""
    fleet, now = context.fleet, context.now()
    ended = await context.rollouts.latest_ended(finished)
    return ResultPage((*ended, *(view_rollout(fleet, each, now) for each in fleet.rollouts.values())))


@reads("/{name:str}", Action.READ_HOSTS, summary="Show a rollout")
async def show_rollout(context: ContextDependency, name: FromPath[str]) -> RolloutDetail:
    """Return a rollout: how far it is, its current wave, and what it waits for; also one that has ended."""
    return await _detail(context, name)


async def _detail(context: ApiContext, name: str) -> RolloutDetail:
    rollout = context.fleet.rollouts.get(name)
    if rollout is None:
        return (await context.rollouts.ended(name)).detail
    detail = detail_rollout(context.fleet, rollout, context.now())
    if rollout.state is RolloutState.RESTING:
        with suppress(Unknown):  # it is no longer in the journal
            return replace(detail, last_run=summarize((await context.rollouts.ended(name)).detail))
    return detail


async def _detail_again(context: ApiContext, given: Mapping[str, Any], entry: Entry) -> RolloutDetail:
    """Return the present rollout in response to a repetition."""
    return await _detail(context, given["name"] if "name" in given else given["data"].name)


@writes("/plan", Action.MAINTAIN_HOSTS, summary="Plan a rollout", status_code=200, is_streamed=True, previews=False)
async def plan_rollout(context: ContextDependency, data: JSONBody[RolloutBody]) -> RolloutPlanView:
    """Return the waves of a rollout, when they are expected, and everything it cannot do; nothing is changed."""
    plan = await context.rollouts.plan(data.name, data.terms.terms)
    return RolloutPlanView(**{key: value for key, value in asdict(plan).items() if key != "recorded"})


_steers = partial(writes, action=Action.MAINTAIN_HOSTS, replay=_detail_again)


@_steers("/", summary="Start a rollout")
async def start_rollout(
    context: ContextDependency, data: JSONBody[RolloutBody], key: IdempotencyKey
) -> RolloutDetail:
    """Start a rollout. What cannot be done is refused before anything is announced.

    With `planned`, the waves of a saved plan, it is refused if the fleet has changed so that they would be others.
    """
    terms = data.terms.terms
    present = await context.rollouts.plan(data.name, terms)
    if data.planned is not None:
        check_saved(_saved(data, present), present)
    if present.problems:
        raise Refused("; ".join(present.problems[:5]))
    command = StartRollout(
        id=key.id,
        by=key.by,
        name=data.name,
        terms=terms,
        prediction=present.prediction,
        recorded=present.recorded,
        runs_commands=context.rollouts.runs_commands,
    )
    await context.operations.record(command, key)
    return await _detail(context, data.name)


def _saved(data: RolloutBody, present: RolloutPlan) -> RolloutPlan:
    now = present.prediction.made_at if present.prediction else None
    waves = tuple(PlannedWave(hosts, now, now) for hosts in data.planned or ()) if now else ()
    return RolloutPlan(name=data.name, terms=present.terms, waves=waves)


@_steers("/{name:str}", summary="Edit a rollout", method=patch)
async def edit_rollout(
    context: ContextDependency, name: FromPath[str], data: JSONBody[RolloutEditBody], key: IdempotencyKey
) -> RolloutDetail:
    """Change what a rollout does from its next wave on; its operation and its hosts cannot be changed."""
    terms = data.applied_to(find_rollout(context.fleet, name).terms)
    await context.rollouts.try_gate(terms)
    runs_commands = context.rollouts.runs_commands
    command = EditRollout(id=key.id, by=key.by, name=name, terms=terms, runs_commands=runs_commands)
    return await _steered(context, command, key)


@_steers("/{name:str}/pause", summary="Pause a rollout")
async def pause_rollout(
    context: ContextDependency, name: FromPath[str], data: JSONBody[PauseRolloutBody], key: IdempotencyKey
) -> RolloutDetail:
    """Announce nothing more; what is Scheduled stays, or is withdrawn. Started events finish."""
    command = PauseRollout(id=key.id, by=key.by, name=name, withdraw=data.withdraw)
    return await _steered(context, command, key)


@_steers("/{name:str}/resume", summary="Resume a rollout")
async def resume_rollout(context: ContextDependency, name: FromPath[str], key: IdempotencyKey) -> RolloutDetail:
    """Continue a paused rollout exactly where it stopped."""
    return await _steered(context, ResumeRollout(id=key.id, by=key.by, name=name), key)


@_steers("/{name:str}/cancel", summary="Cancel a rollout")
async def cancel_rollout(context: ContextDependency, name: FromPath[str], key: IdempotencyKey) -> RolloutDetail:
    """Withdraw what is Scheduled; the rollout ends when its Started events have ended."""
    return await _steered(context, CancelRollout(id=key.id, by=key.by, name=name), key)


@_steers("/{name:str}/retry", summary="Retry hosts of a rollout")
async def retry_hosts(
    context: ContextDependency, name: FromPath[str], data: JSONBody[RetryHostsBody], key: IdempotencyKey
) -> RolloutDetail:
    """Let failed or skipped hosts wait for a wave again: those named, or all that failed."""
    return await _steered(context, RetryHosts(id=key.id, by=key.by, name=name, hosts=data.hosts), key)


@_steers("/{name:str}/skip", summary="Skip a host of a rollout")
async def skip_host(
    context: ContextDependency, name: FromPath[str], data: JSONBody[SkipHostBody], key: IdempotencyKey
) -> RolloutDetail:
    """Leave a host out of a rollout, and withdraw what is Scheduled there."""
    return await _steered(context, SkipHost(id=key.id, by=key.by, name=name, host=data.host), key)


async def _steered(context: ApiContext, command: Command, key: IdempotencyKey) -> RolloutDetail:
    await context.operations.record(command, key)
    return await _detail(context, command.name)  # type: ignore[attr-defined]  # all commands here have a name


rollouts = Router(
    "/rollouts",
    tags=["Rollouts"],
    route_handlers=[
        list_rollouts,
        show_rollout,
        plan_rollout,
        start_rollout,
        edit_rollout,
        pause_rollout,
        resume_rollout,
        cancel_rollout,
        retry_hosts,
        skip_host,
    ],
)
