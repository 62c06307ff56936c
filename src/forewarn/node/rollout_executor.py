"""Lets rollouts go on: after every commit that concerns one, and when its time has come.

It decides nothing. Each round is an ``AdvanceRollout``; what only the outside can do (``actions_due``) has a task of
its own, and its result is a command. After a crash all of it is derived from the fleet again, and a driver is asked
for the outcome of a command before it is called to run it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from math import ceil
from typing import Any

from forewarn.clocks import Timer, call_when_due, sleep, sleep_until
from forewarn.core.commands import Command
from forewarn.core.errors import ForewarnError, PlanOutdated, Unavailable
from forewarn.core.facts import Announced, ClockStepped, EventEnded, HostFact
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE
from forewarn.core.rollouts.actions import RolloutAction, RolloutActionKind, actions_due
from forewarn.core.rollouts.active_hosts import limit_of
from forewarn.core.rollouts.advance import is_due_again, wake_at
from forewarn.core.rollouts.commands import (
    AdvanceRollout,
    DrainRolloutHost,
    HostCommandPurpose,
    ReportHostCommand,
    ReportRolloutCheck,
)
from forewarn.core.rollouts.facts import RolloutEnded, RolloutFact, RolloutHostChanged
from forewarn.core.rollouts.host_steps import run_of
from forewarn.core.rollouts.model import HOST_ENDS, HostRun, Rollout, RolloutState
from forewarn.core.rollouts.planning import predict_run
from forewarn.core.rollouts.sentences import name_of
from forewarn.core.terms import LONGEST_LINE
from forewarn.node.backoff import WorkBackoffs
from forewarn.node.drain_plans import DrainPlanMaker
from forewarn.node.driver import (
    Driver,
    HostCommand,
    HostCommandEnded,
    HostCommandOutcome,
    ImpactFailed,
    ImpactNotBegun,
    ImpactUnderway,
    ImpactUnknown,
    SupportsCapacity,
    can_run_commands,
    is_immediate,
)
from forewarn.node.driver_calls import call_on_host
from forewarn.node.feed import Commit
from forewarn.node.node import Node
from forewarn.node.rollout_checks import RolloutChecker
from forewarn.node.rollout_experience import ExperienceReader, compute_from
from forewarn.randomness import new_id
from forewarn.threads import THREADS

log = logging.getLogger(__name__)

_PLAN_ATTEMPTS = 3
_SOONEST = timedelta(milliseconds=200)


class RolloutExecutor:
    """Submits what makes rollouts go on, and does for them what the rules cannot."""

    def __init__(
        self, node: Node, driver: Driver, checker: RolloutChecker, may_call: Callable[[], bool] = lambda: True
    ) -> None:
        """``may_call`` tells whether the driver may be called now; it is called from any thread."""
        self._node = node
        self._term = node.term
        self._may_call = may_call
        self._driver = driver
        self._checker = checker
        self._drains = DrainPlanMaker(node.replica, driver if isinstance(driver, SupportsCapacity) else None)
        self._events: dict[str, str] = {}
        """The rollouts of unfinished events, by the event's id."""
        self._stirred: dict[str, None] = {}
        """The rollouts for which a round is to be tried."""
        self._rounds: dict[str, asyncio.Task[None]] = {}
        self._actions: dict[RolloutAction, asyncio.Task[None]] = {}
        self._backoffs = WorkBackoffs[RolloutAction | str](node.clock.seconds)
        """Of the actions, and of the rounds by the rollout's name, that ended with an error."""
        self._timers: dict[str, tuple[datetime, Timer]] = {}
        self._asleep = 0
        self._experience = ExperienceReader(node)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for nothing but the clock and new facts."""
        return not self._rounds and len(self._actions) == self._asleep

    def load(self, fleet: Fleet) -> None:
        self._drains.forget()
        self._events = {id_: run.rollout for run in fleet.rollout_hosts.values() for id_ in run.events}
        for name in fleet.rollouts:
            self._stir(name)

    def publish(self, commit: Commit) -> None:
        fleet = commit.fleet
        if not (fleet.rollouts or self._timers or self._events):
            return
        self._drains.note(commit)
        stirred: dict[str, None] = {}
        for fact in (fact for entry in commit.entries for fact in entry.facts):
            match fact:
                case Announced(event=event) if event.rollout:
                    self._events[event.id] = event.rollout
                case ClockStepped():
                    stirred.update(dict.fromkeys(fleet.rollouts))
                case _ if isinstance(fact, EventEnded):
                    if name := self._events.pop(fact.event, ""):
                        stirred[name] = None
                case _ if isinstance(fact, RolloutFact):
                    stirred[name_of(fact)] = None
                    if isinstance(fact, RolloutEnded) or _ends_host(fact):
                        stirred.update(dict.fromkeys(_waiting(fleet)))
                case _ if isinstance(fact, HostFact):
                    stirred.update(dict.fromkeys(_waiting(fleet)))
        for name in stirred:
            self._stir(name)

    def stir_all(self) -> None:
        """Try a round of every rollout: the rules have changed."""
        for name in self._node.replica.fleet.rollouts:
            self._stir(name)

    async def stop(self) -> None:
        """Let go of everything; the next leader derives from the fleet what is left to do."""
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._stirred.clear()
        tasks = [*self._rounds.values(), *self._actions.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _stir(self, name: str) -> None:
        self._stirred[name] = None
        if name not in self._rounds:
            task = asyncio.create_task(self._advance(name))
            self._rounds[name] = task
            task.add_done_callback(partial(self._advanced, name))

    def _advanced(self, name: str, task: "asyncio.Task[None]") -> None:
        del self._rounds[name]
        if name in self._stirred and not task.cancelled():  # after its last round, and before this call
            self._stir(name)

    async def _advance(self, name: str) -> None:
        """Try rounds until nothing has happened to the rollout since the last one."""
        tried_at = self._node.clock.now()
        while name in self._stirred:
            del self._stirred[name]
            tried_at = self._node.clock.now()
            try:
                await self._node.submit(
                    AdvanceRollout(
                        id=new_id(),
                        by=NODE,
                        rollout=name,
                        live=self._driver.moves_live,
                        node=self._node.name,
                        term=self._term,
                        driver=self._node.driver_name,
                        **await self._expected(name, tried_at),
                    )
                )
            except ForewarnError as error:
                is_first = isinstance(error, Unavailable) or self._backoffs.fail(name, str(error))
                if is_first:
                    fields = {"rollout": name, "reason": str(error)}
                    log.warning("a rollout waits to go on", extra={"fields": fields})
                pause = timedelta(seconds=1) + self._backoffs.pause_after(name, self._retry_after)
                self._set_timer(name, self._node.clock.now() + pause)
                return
            self._backoffs.succeed(name)
        self._arrange(name, tried_at)

    async def _expected(self, name: str, now: datetime) -> dict[str, Any]:
        """Return how long a run is expected to take that begins now; another driver may do it than the last time."""
        fleet = self._node.replica.fleet
        rollout = fleet.rollouts.get(name)
        if rollout is None or not is_due_again(rollout, now + _SOONEST):
            return {}
        terms, rules, live = rollout.terms, self._node.writer.rules, self._driver.moves_live
        expected: dict[str, Any] = {}
        with suppress(ForewarnError):  # it begins all the same; that it has no hosts, the round will find
            experience = await self._experience.read()
            expected["recorded"] = experience.length_of(terms.operation)
            expected["prediction"] = await compute_from(
                fleet, lambda fleet: predict_run(fleet, terms, now, rules, experience, live=live)
            )
        return expected

    @property
    def _retry_after(self) -> timedelta:
        return self._node.writer.retry_after

    def _arrange(self, name: str, tried_at: datetime) -> None:
        """Begin what is to be done outside, and set the timer of the next round.

        What came due since ``tried_at`` was not yet due for the last round: its timer rings at once.
        """
        fleet = self._node.replica.fleet
        rollout = fleet.rollouts.get(name)
        if rollout is None:
            self._set_timer(name, None)
            self._forget(name)
            return
        for action in actions_due(fleet, rollout, tried_at):
            if action not in self._actions:
                task = asyncio.create_task(self._act(action))
                self._actions[action] = task
                task.add_done_callback(partial(self._acted, action))
        self._set_timer(name, wake_at(fleet, rollout, tried_at, self._node.writer.rules))

    def _acted(self, action: RolloutAction, task: "asyncio.Task[None]") -> None:
        self._actions.pop(action, None)
        if self._is_gone(action.rollout):
            self._forget(action.rollout)
        elif not task.cancelled():
            self._stir(action.rollout)

    def _is_gone(self, name: str) -> bool:
        return name not in self._node.replica.fleet.rollouts

    def _forget(self, name: str) -> None:
        for work in self._backoffs:
            if name == (work.rollout if isinstance(work, RolloutAction) else work):
                self._backoffs.succeed(work)

    def _set_timer(self, name: str, when: datetime | None) -> None:
        before = self._timers.pop(name, None)
        if before:
            before[1].cancel()
        if when:
            self._timers[name] = when, call_when_due(self._node.clock, when, partial(self._ring, name))

    def _ring(self, name: str) -> None:
        if before := self._timers.pop(name, None):
            before[1].cancel()
            self._stir(name)

    async def _act(self, action: RolloutAction) -> None:
        """Do what is due. After an error it is not done again before a pause, whatever is committed meanwhile."""
        try:
            await self._do(action)
        except Exception as error:
            if self._backoffs.fail(action, str(error)):
                fields = {"rollout": action.rollout, "host": action.host, "reason": str(error)}
                log.exception("a step of a rollout failed, and is tried again", extra={"fields": fields})
            await self._sleep(sleep(self._node.clock, self._backoffs.pause_after(action, self._retry_after)))
        else:
            self._backoffs.succeed(action)

    async def _do(self, action: RolloutAction) -> None:
        fleet = self._node.replica.fleet
        rollout = fleet.rollouts.get(action.rollout)
        if rollout is None:
            return
        work: Coroutine[Any, Any, None]
        if action.kind is RolloutActionKind.CHECK:
            work = self._check(rollout, action.wave)
        else:
            run = run_of(fleet, rollout, action.host)
            if run is None or action.host not in fleet.hosts:
                return
            plans = action.kind is RolloutActionKind.PLAN
            work = self._plan(run) if plans else self._run_command(rollout, run, action.kind)
        await work

    async def _check(self, rollout: Rollout, wave: int) -> None:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(THREADS, self._checker.check, rollout.terms)
        await self._report(
            ReportRolloutCheck(
                id=new_id(),
                by=NODE,
                rollout=rollout.name,
                wave=wave,
                passed=found.passed,
                detail=found.detail,
                firing=found.firing,
            )
        )

    async def _plan(self, run: HostRun) -> None:
        drains = partial(DrainRolloutHost, by=NODE, rollout=run.rollout, host=run.host, live=self._driver.moves_live)
        for attempt in range(_PLAN_ATTEMPTS):
            try:
                plan, _ = await self._drains.plan(run.host)
                command = drains(id=new_id(), placements=plan.placements, left=plan.left, cold=plan.cold)
            except ForewarnError as error:
                command = drains(id=new_id(), failure=str(error)[:LONGEST_LINE])
            try:
                await self._report(command)
            except PlanOutdated as error:
                if attempt == _PLAN_ATTEMPTS - 1:
                    await self._report(drains(id=new_id(), failure=str(error)[:LONGEST_LINE]))
            else:
                return

    async def _run_command(self, rollout: Rollout, run: HostRun, kind: RolloutActionKind) -> None:
        is_ask = kind is RolloutActionKind.ASK
        command = HostCommand(
            _command_id(rollout, run, kind),
            self._node.replica.fleet.hosts[run.host],
            rollout.terms.asks if is_ask else rollout.terms.command,
            self._timeout_of(rollout, run),
            run.at,
            self._term,
        )
        outcome = await self._outcome_of(command, run)
        status, detail = _result_of(outcome)
        purpose = HostCommandPurpose.ASK if is_ask else HostCommandPurpose.RUN
        await self._report(
            ReportHostCommand(
                id=new_id(),
                by=NODE,
                rollout=rollout.name,
                host=run.host,
                purpose=purpose,
                exit_status=status,
                detail=detail[:LONGEST_LINE],
                live=self._driver.moves_live,
            )
        )

    def _timeout_of(self, rollout: Rollout, run: HostRun) -> int:
        """Return the seconds that a command on a host may take: no more than the host has left of its limit."""
        limit = limit_of(self._node.replica.fleet, rollout, run, self._node.writer.rules)
        if limit is None:
            return rollout.terms.command_timeout
        left = (limit - self._node.clock.now()).total_seconds()
        return min(rollout.terms.command_timeout, max(1, ceil(left)))

    async def _outcome_of(self, command: HostCommand, run: HostRun) -> HostCommandOutcome:
        """Run a command that was not begun, and wait until it has ended.

        What another node was to run it may have begun; only that node's machine has the record of it. What this node
        was to run in an earlier term, a call that was delayed may still begin.
        """
        is_own = not run.node or is_immediate(self._driver) or (run.node, run.term) == (self._node.name, self._term)
        if not is_own and run.node != self._node.name:
            return ImpactUnknown(f"node {run.node} may have begun it, and has been replaced")
        if not can_run_commands(self._driver):
            return ImpactFailed("the driver cannot run commands on hosts any more; see the settings of the driver")
        outcome = await self._call("outcome_on_host", command)
        is_begun = False
        while isinstance(outcome, ImpactUnderway | ImpactNotBegun):
            if isinstance(outcome, ImpactNotBegun):
                if is_begun:
                    return outcome
                if not is_own:
                    return ImpactUnknown(f"this node may have begun it in term {run.term}, and has no record of it")
                outcome = await self._call("run_on_host", command)
                is_begun = isinstance(outcome, ImpactNotBegun)
                continue
            until = max(outcome.check_at, self._node.clock.now() + _SOONEST)
            await self._sleep(sleep_until(self._node.clock, until))
            outcome = await self._call("outcome_on_host", command)
        return outcome

    async def _call(self, name: str, command: HostCommand) -> HostCommandOutcome:
        return await call_on_host(self._driver, name, command, self._may_call)

    async def _report(self, command: Command) -> None:
        while True:
            try:
                await self._node.submit(command)
            except Unavailable as error:
                log.warning("the result of a step of a rollout waits", extra={"fields": {"reason": str(error)}})
                await self._sleep(sleep(self._node.clock, self._retry_after))
            else:
                return

    async def _sleep(self, sleeping: Awaitable[None]) -> None:
        self._asleep += 1
        try:
            await sleeping
        finally:
            self._asleep -= 1


def _waiting(fleet: Fleet) -> list[str]:
    """Return the rollouts that something else may hold up: those queued, and those whose next wave is blocked."""
    return [each.name for each in fleet.rollouts.values() if each.blocked or each.state is RolloutState.QUEUED]


def _ends_host(fact: RolloutFact) -> bool:
    return isinstance(fact, RolloutHostChanged) and fact.step in HOST_ENDS


def _command_id(rollout: Rollout, run: HostRun, kind: RolloutActionKind) -> str:
    """Return an id that is the same after a crash, and another one when the host is tried again."""
    words = "/".join((rollout.id, str(rollout.run), run.host, str(run.wave), kind))
    return sha256(words.encode()).hexdigest()[:32]


def _result_of(outcome: HostCommandOutcome) -> tuple[int | None, str]:
    match outcome:
        case HostCommandEnded(exit_status=status, output=output):
            return status, output
        case ImpactFailed(reason=reason):
            return None, reason
        case ImpactUnknown(reason=reason):
            return None, f"unknown outcome, not repeated: {reason}" if reason else "unknown outcome, not repeated"
        case _:
            return None, "the driver did not begin"
