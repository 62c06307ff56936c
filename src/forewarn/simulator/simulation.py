"""One simulation: joins the parts, lets a plan happen, and has every exchange checked."""

import asyncio
import contextvars
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from random import Random

import msgspec

from forewarn import randomness
from forewarn.core.errors import ForewarnError
from forewarn.core.facts import Announced, Entry, StartedAtOnce
from forewarn.core.fleet import Fleet
from forewarn.core.model import EventType, ObservationKind
from forewarn.journal.port import Journal
from forewarn.simulator import actions as act
from forewarn.simulator import coverage
from forewarn.simulator.actions import PlannedAction
from forewarn.simulator.actors.fleet_files import FleetFile
from forewarn.simulator.actors.guests import Guests
from forewarn.simulator.actors.operators import Operators
from forewarn.simulator.environment.clock import SimulatedClock
from forewarn.simulator.environment.journal import AppendFault, SimulatedDisk, SimulatedJournal
from forewarn.simulator.environment.loop import SimulatedLoop
from forewarn.simulator.environment.machines import DriverBehaviour, Machines
from forewarn.simulator.environment.network import Network
from forewarn.simulator.environment.receivers import Receivers
from forewarn.simulator.environment.service import Service, settings_of
from forewarn.simulator.environment.sqlite_disk import SqliteDisk
from forewarn.simulator.exchanges import (
    ClockChange,
    ControlExchange,
    DiskFault,
    Exchange,
    MachineOperation,
    ProcessState,
    VmExchange,
)
from forewarn.simulator.plan import Plan
from forewarn.simulator.promises.checker import Promises
from forewarn.simulator.transcript import Transcript

_RESTART_PAUSE = 2.0
"""Seconds after which a supervisor starts a service that has ended."""
_SETTLE_STEP = 30.0


class SimulationReport(msgspec.Struct):
    """What came of a simulation."""

    plan: Plan
    problems: list[str]
    """Promises that were broken; empty if all were kept."""
    steps: int
    """Exchanges and actions that were checked."""
    seconds: float
    """Simulated time."""
    lines: list[str]
    """The transcript; empty unless it was wanted."""
    digest: str
    """Equal for equal runs: a hash over every exchange."""
    reached: Counter[str]
    """What happened, for the coverage."""


class Simulation:
    """A system, its machines, guests and operators, for one plan."""

    def __init__(self, plan: Plan, directory: Path, *, has_transcript: bool = False, app: object = None) -> None:
        """``app``: the control API's application of an earlier simulation in this process; making one takes long."""
        self._plan = plan
        self._directory = directory
        random = Random(f"{plan.seed}/run")  # noqa: S311 - it is to be repeatable
        self._random = random
        self._loop = loop = SimulatedLoop(random)
        self._network = loop.network = Network(loop, random)
        self._clock = SimulatedClock(loop)
        self._disk = SqliteDisk(directory, random) if plan.has_sqlite else SimulatedDisk()
        self._machines = Machines(loop)
        self._behaviour = DriverBehaviour()
        self._behaviour.on_fault = self._count
        self._receivers = Receivers(loop)
        self._receivers.on_received = self._see
        self._promises = Promises(plan)
        self.transcript = Transcript(is_wanted=has_transcript)
        self._fleet_file = FleetFile(directory / "fleet.toml", plan)
        settings = settings_of(directory, hurry=plan.hurry, fleet=self._fleet_file.path)
        self._service = Service(
            loop,
            self._network,
            self._clock,
            self._machines,
            self._behaviour,
            self._journal,
            settings,
            self._receivers,
            random,
        )
        self._service.app = app
        self._service.moves_live, self._service.large_changes = plan.moves_live, plan.large_changes
        self._service.on_change = self._on_service_change
        self._service.on_commit = self._on_commit
        self._operators = Operators(plan, loop, self._service, self._see)
        self._guests = Guests(plan, loop, self._network, self._clock, directory, random, self._see)
        self._machines.on_operation = self._on_operation
        self._disk.on_crash = self._service.kill
        self._disk.on_fault = self._on_disk_fault
        self._steps = 0
        self._hash = hashlib.sha256()
        self._reached = Counter(coverage.of_plan(plan))
        self._logged: list[str] = []
        self._is_serving = asyncio.Event()
        self._context = contextvars.copy_context()

    @property
    def app(self) -> object:
        """The application, for the next simulation in this process."""
        return self._service.app

    def run(self) -> SimulationReport:
        """Let the plan happen; everything that is simulated is gone afterwards."""
        randomness.use_source(self._random.randbytes)
        asyncio.set_event_loop(self._loop)
        with _logged_errors(self._logged.append):
            try:
                self._loop.run_until_complete(self._story())
            finally:
                self._end()
        problems = [
            *self._promises.problems,
            *self._disk.wrong,
            *self._machines.wrong,
            *self._guests.wrong,
            *self._loop.failures,
            *self._logged,
        ]
        return SimulationReport(
            self._plan,
            list(dict.fromkeys(problems)),
            self._steps,
            self._loop.time(),
            self.transcript.lines,
            self._hash.hexdigest(),
            self._reached,
        )

    async def _story(self) -> None:
        self._start_service()
        await self._is_serving.wait()
        await self._operators.prepare()
        for vm in self._plan.vms:
            self._guests.start(vm.name)
        for action in self._plan.actions:
            self._loop.call_at(action.at, self._do, action)
        await asyncio.sleep(max(self._plan.ends_at + 1.0 - self._loop.time(), 0.0))
        await self._settle()

    async def _settle(self) -> None:
        """Stop all faults, and wait until everything that is due has completed."""
        disk, network = self._disk, self._network
        disk.is_full = disk.is_unreadable = False
        disk.next_faults.clear()
        network.loses, network.delay = 0.0, 0.002
        self._behaviour.next_faults.clear()
        self._receivers.is_down = False
        self._clock.drift(0.0)
        self._see(self._clock_change())
        self._fleet_file.edit("mend", "-", "-")
        self._guests.quieten()
        self.transcript.note(self._loop.time(), "all faults stop")
        await self._wait_for_the_end_of_events()
        ask = self._operators.ask
        names = (each.name for each in self._plan.actions if isinstance(each, act.RequestSubscription))
        for name in dict.fromkeys(names):
            await ask("ann", "POST", f"/v1/subscriptions/{name}/test", "", f"test-{name}")  # it sends what waits, too
        await asyncio.sleep(_SETTLE_STEP)
        await self._operators.read_everything("ann")
        for path in self._promises.questions():
            await ask("ann", "GET", path)
        for asked in tuple(self._promises.repetitions()):
            await ask(asked.who, asked.method, asked.path, asked.body.decode(), asked.key)
        self._promises.settle(self._loop.time())

    async def _wait_for_the_end_of_events(self) -> None:
        ends = self._loop.time() + self._promises.seconds_to_settle()
        while self._loop.time() < ends:
            await asyncio.sleep(_SETTLE_STEP)
            if self._service.is_serving and self._operators.is_idle:
                listed = await self._operators.ask("ann", "GET", "/v1/events")
                if listed.status == 200 and b'"items":[]' in listed.response:
                    break

    def _do(self, action: PlannedAction) -> None:
        self._steps += 1
        self._reached.update(coverage.of_action(action))
        self.transcript.action(self._loop.time(), str(action))
        match action:
            case act.KillService(callbacks=callbacks):
                if self._service.process is not None:
                    self._service.process.kill_after = callbacks
            case act.RestartService():
                self._service.stop()
            case act.FailAppends(count=count, fault=fault):
                self._disk.next_faults += [AppendFault(fault)] * count
            case act.FillDisk(seconds=seconds):
                self._for(seconds, lambda on: setattr(self._disk, "is_full", on))
            case act.HideDisk(seconds=seconds):
                self._for(seconds, lambda on: setattr(self._disk, "is_unreadable", on))
            case act.DamageDriverRecord():
                self._tear_driver_record()
            case act.FailDriver(count=count, fault=fault):
                self._behaviour.next_faults += [fault] * count
            case act.BefallMachine(vm=vm, what=what, host=host):
                self._machines.befall(vm, ObservationKind(what), host.strip("-"))
                self._let_guest_follow(vm, boots=what == ObservationKind.REBOOTED)
            case act.StepClock(seconds=seconds):
                self._clock.step(timedelta(seconds=seconds))
                self._see(self._clock_change())
            case act.DriftClock(rate=rate):
                self._clock.drift(rate)
                self._see(self._clock_change())
            case act.LoseRequests(chance=chance, seconds=seconds):
                self._for(seconds, lambda on: setattr(self._network, "loses", chance if on else 0.0))
            case act.DelayRequests(delay=delay, seconds=seconds):
                self._for(seconds, lambda on: setattr(self._network, "delay", delay if on else 0.002))
            case act.RefuseNotifications(seconds=seconds):
                self._for(seconds, lambda on: setattr(self._receivers, "is_down", on))
            case act.RebootGuest(vm=vm, seconds=seconds):
                self._guests.kill(vm)
                self._loop.call_later(seconds, self._guests.start, vm)
            case act.DamageMemory(vm=vm, how=how):
                self._guests.damage_memory(vm, how)
            case act.EditFleetFile(edit=edit, subject=subject, value=value):
                self._fleet_file.edit(edit, subject, value)
            case act.ApplyFleetFile():
                self._service.apply_fleet_file()
            case _:
                self._operators.do(action)

    def _for(self, seconds: float, set_: Callable[[bool], None]) -> None:
        set_(True)
        self._loop.call_later(seconds, set_, False)

    def _tear_driver_record(self) -> None:
        records = sorted((self._directory / "driver").glob("*"))
        if records and not self._service.is_alive:
            with records[-1].open("ab") as file:
                file.write(b'\n{"line":"step","na')

    def _on_service_change(self) -> None:
        """Note what became of the service; when it has ended, a supervisor starts it again."""
        service = self._service
        if service.is_serving:
            self._is_serving.set()
            state = "serving"
        else:
            state = "failed to start" if service.start_failure else "ended"
            self._loop.call_later(_RESTART_PAUSE, self._start_service, context=self._context)
        self._see(ProcessState(state, self._loop.time(), self._reason()))

    def _start_service(self) -> None:
        if not self._service.is_alive:
            self._see(ProcessState("starting", self._loop.time()))
            self._service.start()

    def _reason(self) -> str:
        excuse = "unreadable disk: " if self._disk.is_unreadable else ""
        return excuse + self._service.start_failure

    def _clock_change(self) -> ClockChange:
        return ClockChange(self._loop.time(), self._clock.error.total_seconds(), self._clock.rate)

    def _on_operation(self, vm: str, what: str, event: str) -> None:
        self._reached[f"machine {what}"] += 1
        self._see(MachineOperation(vm, what, event, self._loop.time()))
        self._let_guest_follow(vm, boots=what in (EventType.REBOOT, EventType.REDEPLOY))

    def _let_guest_follow(self, vm: str, *, boots: bool) -> None:
        """Let a guest end, boot or go on, as its machine does."""
        if machine := self._machines.all.get(vm):
            if boots:
                self._guests.kill(vm)
            self._guests.set_running(vm, machine.is_running and machine.exists)

    def _count(self, what: str) -> None:
        self._reached[what] += 1

    def _on_disk_fault(self, what: str) -> None:
        self._count(what)
        self._see(DiskFault(what, self._loop.time()))

    def _on_commit(self, at: float, entry: Entry, fleet: Fleet) -> None:
        self._reached.update(coverage.of_facts(entry.facts))
        for fact in entry.facts:
            if isinstance(fact, Announced | StartedAtOnce):
                self._operators.labels.give(fact.event.id)
        self.transcript.facts(at, entry, fleet)

    def _see(self, exchange: Exchange) -> None:
        self._steps += 1
        self.transcript.see(exchange)
        if isinstance(exchange, VmExchange):
            self._reached[f"vm {exchange.guest} {exchange.method} {exchange.status}"] += 1
        elif isinstance(exchange, ControlExchange):
            self._reached[f"control {exchange.method} {_route(exchange.path)} {exchange.status}"] += 1
        self._hash.update(repr(exchange).replace(str(self._directory), "/simulation").encode())
        known = len(self._promises.problems)
        self._promises.see(exchange)
        for problem in self._promises.problems[known:]:
            self.transcript.problem(self._loop.time(), problem)

    def _journal(self) -> Journal:
        return self._disk.open() if isinstance(self._disk, SqliteDisk) else SimulatedJournal(self._disk)

    def _end(self) -> None:
        """Let go of everything; code of killed processes that still runs its ``finally`` reaches nothing any more."""
        asyncio.set_event_loop(None)
        randomness.use_source(os.urandom)
        self._guests.close()
        self._service.forget()
        self._loop.dispose()
        if isinstance(self._disk, SqliteDisk):
            self._disk.close()


def _route(path: str) -> str:
    parts = path.partition("?")[0].strip("/").split("/")
    return "/".join([*parts[:2], *(["…"] if len(parts) > 2 else []), *parts[3:]])


@contextmanager
def _logged_errors(note: Callable[[str], None]) -> Iterator[None]:
    """Note what the product logs with a traceback: code that failed."""

    class ErrorHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1] is not None:
                error = record.exc_info[1]
                if not isinstance(error, ForewarnError) and "simulated" not in str(error):
                    note(f"logged: {record.getMessage()}: {type(error).__name__}: {error}")

    handler = ErrorHandler(logging.ERROR)
    logger = logging.getLogger("forewarn")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
        with suppress(Exception):
            handler.close()
