"""One simulation: joins the parts, lets a plan happen, and has every exchange checked."""

import asyncio
import contextvars
import hashlib
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random

import msgspec

from forewarn import randomness
from forewarn.config.settings import Settings
from forewarn.core.errors import ForewarnError
from forewarn.core.facts import Announced, Entry, StartedAtOnce
from forewarn.core.fleet import Fleet
from forewarn.core.model import EventType, ObservationKind
from forewarn.journal.port import Journal
from forewarn.simulator import coverage
from forewarn.simulator.actions import (
    environment_faults,
    fleet_requests,
    rollout_requests,
    service_faults,
    subscription_requests,
)
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.actors.fleet_files import FleetFile
from forewarn.simulator.actors.guests import Guests
from forewarn.simulator.actors.operators import Operators
from forewarn.simulator.environment.clock import SimulatedClock
from forewarn.simulator.environment.gates import SimulatedGates
from forewarn.simulator.environment.journal import AppendFault, SimulatedDisk, SimulatedJournal
from forewarn.simulator.environment.loop import SimulatedLoop
from forewarn.simulator.environment.machines import DriverBehaviour, Machine, Machines
from forewarn.simulator.environment.network import Network
from forewarn.simulator.environment.receivers import Receivers
from forewarn.simulator.environment.service import ENDPOINT, Service, settings_of
from forewarn.simulator.environment.sqlite_disk import SqliteDisk
from forewarn.simulator.exchanges import (
    ClockChange,
    ControlExchange,
    DiskFault,
    Exchange,
    HostCommandRun,
    MachineOperation,
    MachineState,
    ProcessState,
    VmExchange,
)
from forewarn.simulator.node_faults import NodeFaults
from forewarn.simulator.plan import Plan
from forewarn.simulator.promises.checker import Promises
from forewarn.simulator.shown_state import OF_HOSTS, read_state, tell_difference
from forewarn.simulator.transcript import Transcript

_RESTART_PAUSE = 2.0
"""Seconds after which a supervisor starts a service that has ended."""
_SETTLE_STEP = 30.0
_LONGEST_RESTART = 60.0
_GOES_ON = re.compile(rb'"state":"(?:running|stopping)"')


class _ListedVm(msgspec.Struct):
    name: str
    host: str


class _ListedVms(msgspec.Struct):
    items: list[_ListedVm]


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

    def __init__(
        self, plan: Plan, directory: Path, *, has_transcript: bool = False, apps: Sequence[object] = ()
    ) -> None:
        """``apps``: the control API's applications of earlier simulations in this process; making one takes long."""
        self._plan = plan
        self._directory = directory
        self._place = bytes(directory)
        random = Random(f"{plan.seed}/run")  # noqa: S311 - it is to be repeatable
        self._random = random
        self._loop = loop = SimulatedLoop(random)
        self._network = loop.network = Network(loop, random)
        self._clock = SimulatedClock(loop)
        self._disk = SqliteDisk(directory, random) if plan.has_sqlite else SimulatedDisk()
        self._machines = Machines(loop)
        self._machines.slowness = plan.slowness
        for vm in plan.vms:
            self._machines.all[vm.name] = Machine(vm.name, vm.host)
        self._planned_kills: dict[str, int] = {}
        self._tears_record = False
        """Whether a record of the driver is damaged at the next end of a service."""
        self._behaviour = DriverBehaviour()
        self._behaviour.on_fault = self._count
        self._gates = SimulatedGates()
        self._gates.on_fault = self._count
        self._receivers = Receivers(loop)
        self._receivers.on_received = self._see
        self._promises = Promises(plan)
        self.transcript = Transcript(is_wanted=has_transcript)
        self._fleet_file = FleetFile(directory / "fleet.toml", plan)
        settings = settings_of(
            directory, hurry=plan.hurry, fleet=self._fleet_file.path, user_operation_limit=plan.user_limit
        )
        self._nodes = NodeFaults(plan, loop, self._network, random, self._on_node_fault) if plan.nodes else None
        self._services = self._make_services(settings)
        self._apps = apps
        self._revision = 0
        """The newest that is told of in the transcript."""
        for number, service in enumerate(self._services):
            self._configure(service, number)
        self._service = self._services[0]
        nodes = self._nodes.nodes if self._nodes else None
        self._told: set[str] = set()
        """The problems that the transcript has."""
        if nodes:
            nodes.on_leader = lambda node: self.transcript.note(loop.time(), f"node {node} leads")
            nodes.on_wrong = self._tell_problem
            self._machines.holds_lease = nodes.database.holds_lease
        request = nodes.request if nodes else self._service.request
        as_of = nodes.as_of if nodes else None
        self._operators = Operators(plan, loop, request, self._see, as_of, self._fleet_file.path)
        self._guests = Guests(plan, loop, self._network, self._clock, directory, random, self._see, nodes)
        self._machines.on_operation = self._on_operation
        self._machines.on_host_command = self._on_host_command
        self._disk.on_crash = self._service.kill
        self._disk.on_fault = self._on_disk_fault
        self._steps = 0
        self._hash = hashlib.sha256()
        self._reached = Counter(coverage.of_plan(plan))
        self._logged: list[str] = []
        self._wrong: list[str] = []
        """What differs after the last restart."""
        self._is_serving = asyncio.Event()
        self._context = contextvars.copy_context()

    def _make_services(self, settings: Settings) -> Sequence[Service]:
        parts = self._machines, self._behaviour
        more = self._receivers, self._random
        if self._nodes:
            return self._nodes.make(self._directory, settings, parts, more)
        return [Service(self._loop, self._network, self._clock, *parts, self._journal, settings, *more)]

    def _configure(self, service: Service, number: int) -> None:
        plan = self._plan
        service.app = self._apps[number] if number < len(self._apps) else None
        service.moves_live, service.large_changes = plan.moves_live, plan.large_changes
        service.driver = plan.driver
        service.workers = 0 if plan.has_sqlite or plan.nodes else plan.workers
        service.site.on_fault = self._count
        service.gates = self._gates
        service.planned_kills, service.on_fault = self._planned_kills, self._count
        service.on_change = partial(self._on_service_change, service)
        service.on_commit = self._on_commit

    @property
    def apps(self) -> Sequence[object]:
        """The applications of all services, for the next simulation in this process."""
        return [*(service.app for service in self._services), *self._apps[len(self._services) :]]

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
            *([] if self._has_lost_entries else self._broken_promises()),
            *(self._nodes.wrong if self._nodes else ()),
            *self._wrong,
            *self._loop.failures,
            *self._logged,
        ]
        for problem in problems:  # those that were noticed only at the end, or by no exchange
            self._tell_problem(problem)
        return SimulationReport(
            self._plan,
            list(dict.fromkeys(problems)),
            self._steps,
            self._loop.time(),
            self.transcript.lines,
            self._hash.hexdigest(),
            self._reached,
        )

    @property
    def _has_lost_entries(self) -> bool:
        """Whether a standby took over without the last entries: then nodes report it, and promise nothing else."""
        return self._nodes is not None and self._nodes.nodes.database.lost > 0

    def _broken_promises(self) -> list[str]:
        sites = [wrong for service in self._services for wrong in service.site.wrong]
        return [*self._promises.problems, *self._disk.wrong, *self._machines.wrong, *self._guests.wrong, *sites]

    async def _story(self) -> None:
        for service in self._services:
            self._start_service(service)
        await self._is_serving.wait()
        if self._nodes:
            await self._nodes.begin()
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
        self._planned_kills.clear()
        self._tears_record = False
        self._service.site.has_faults = False
        for service in self._nodes.nodes.all if self._nodes else (self._service,):
            if service.process is not None:
                service.process.kill_after = None
        if self._nodes:
            self._nodes.mend()
        self._receivers.is_down = False
        self._gates.state = ""
        self._clock.drift(0.0)
        self._see(self._clock_change())
        self._fleet_file.edit("mend", "-", "-")
        self._guests.quieten()
        self.transcript.note(self._loop.time(), "all faults stop")
        for each in self._plan.actions:  # what recurs would never end
            if (
                isinstance(each, rollout_requests.RequestRollout | rollout_requests.RequestRolloutEdit)
                and '"every"' in each.terms
            ):
                await self._operators.ask("ann", "POST", f"/v1/rollouts/{each.rollout}/cancel", "", f"end-{each.key}")
        await self._wait_for_the_end_of_events()
        ask = self._operators.ask
        if self._has_rollouts:
            await self._read_rollouts()
        names = (
            each.name for each in self._plan.actions if isinstance(each, subscription_requests.RequestSubscription)
        )
        for name in dict.fromkeys(names):
            await ask("ann", "POST", f"/v1/subscriptions/{name}/test", "", f"test-{name}")  # it sends what waits, too
        await asyncio.sleep(_SETTLE_STEP)
        self.transcript.note(
            self._loop.time(), "the checker reads everything and repeats all requests, as who sent them"
        )
        await self._operators.read_everything("ann")
        await ask("ann", "GET", "/v1/events?finished=1000")
        for machine in self._machines.all.values():
            state = MachineState(machine.name, machine.host, machine.is_running, machine.exists, self._loop.time())
            self._see(state)
        for path in self._promises.questions():
            await ask("ann", "GET", path)
        for asked in tuple(self._promises.repetitions()):
            await ask(asked.who, asked.method, asked.path, asked.body.decode(), asked.key)
        if self._nodes:
            await self._nodes.compare_documents()
        self._promises.settle(self._loop.time())
        if not self._nodes and not any(isinstance(each, fleet_requests.EditFleetFile) for each in self._plan.actions):
            await self._compare_after_restart()

    async def _compare_after_restart(self) -> None:
        """Restart the service once more: what it shows is the same, byte for byte."""
        before = await self._read_state()
        self._is_serving.clear()
        self._service.stop()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_serving.wait(), _LONGEST_RESTART)
        after = await self._read_state()
        if not before.get("/v1/vms") or not after.get("/v1/vms"):
            self._wrong.append("the service does not serve at the end")
            return
        if b'"status":"Started"' in before["/v1/events?finished=1000"]:
            return  # a start asks the driver what became of it
        listed = msgspec.json.decode(before["/v1/vms"], type=_ListedVms).items
        known = self._machines.all
        is_found = all(vm.name not in known or vm.host == known[vm.name].host for vm in listed)
        for what in before:
            if before[what] != after[what] and (is_found or what not in OF_HOSTS):
                self._wrong.append(f"after a restart {what} differs: {tell_difference(before[what], after[what])}")

    async def _read_state(self) -> dict[str, bytes]:
        """Return what the service shows; nothing where it does not serve."""
        if not self._service.is_serving:
            return {}
        addresses = [vm.address for vm in self._plan.vms]
        return await read_state(self._loop, self._service.request, addresses, ENDPOINT[0])

    @property
    def _has_rollouts(self) -> bool:
        return any(isinstance(each, rollout_requests.RequestRollout) for each in self._plan.actions)

    async def _read_rollouts(self) -> None:
        """Read how rollouts stand, and all that is recorded of them."""
        await self._operators.ask("ann", "GET", "/v1/rollouts?finished=1000")
        path, cursor = "/v1/history?order=oldest&limit=1000", ""
        while path:
            page = await self._operators.ask("ann", "GET", f"{path}{cursor}")
            following = msgspec.json.decode(page.response).get("next") if page.status == 200 else None
            cursor = f"&cursor={following}"
            path = path if following else ""

    async def _is_at_rest(self) -> bool:
        """Return whether no event is unfinished, and no rollout goes on by itself."""
        listed = await self._operators.ask("ann", "GET", "/v1/events")
        is_over = listed.status == 200 and b'"items":[]' in listed.response
        if is_over and self._has_rollouts:
            listed = await self._operators.ask("ann", "GET", "/v1/rollouts")
            return listed.status == 200 and not _GOES_ON.search(listed.response)
        return is_over

    async def _wait_for_the_end_of_events(self) -> None:
        ends = self._loop.time() + self._promises.seconds_to_settle()
        while self._loop.time() < ends:
            await asyncio.sleep(_SETTLE_STEP)
            is_ready = any(service.is_serving for service in self._services) and self._operators.is_idle
            if is_ready and await self._is_at_rest():
                break

    def _do(self, action: PlannedAction) -> None:
        self._steps += 1
        self._reached.update(coverage.of_action(action))
        self.transcript.action(self._loop.time(), str(action))
        if self._nodes and self._nodes.do(action):
            return
        service = self._nodes.nodes.named("leader") if self._nodes else self._service
        match action:
            case service_faults.KillService(callbacks=callbacks):
                if service.process is not None:
                    service.process.kill_after = callbacks
            case service_faults.KillServiceDuring(callbacks=callbacks, phase=phase):
                self._planned_kills[phase] = callbacks
            case service_faults.LosePower():
                service.program.lose_power()
                service.kill()
            case service_faults.RestartService():
                service.stop()
            case service_faults.FailAppends(count=count, fault=fault):
                self._disk.next_faults += [AppendFault(fault)] * count
            case service_faults.FillDisk(seconds=seconds):
                self._for(seconds, lambda on: setattr(self._disk, "is_full", on))
            case service_faults.HideDisk(seconds=seconds):
                self._for(seconds, lambda on: setattr(self._disk, "is_unreadable", on))
            case environment_faults.DamageDriverRecord():
                self._tears_record = True
            case environment_faults.FailDriver(count=count, fault=fault):
                self._behaviour.next_faults += [fault] * count
            case environment_faults.BefallMachine(vm=vm, what=what, host=host):
                self._machines.befall(vm, ObservationKind(what), host.strip("-"))
                self._let_guest_follow(vm, boots=what == ObservationKind.REBOOTED)
            case service_faults.StepClock(seconds=seconds):
                self._clock.step(timedelta(seconds=seconds))
                self._see(self._clock_change())
            case service_faults.DriftClock(rate=rate):
                self._clock.drift(rate)
                self._see(self._clock_change())
            case environment_faults.LoseRequests(chance=chance, seconds=seconds):
                self._for(seconds, lambda on: setattr(self._network, "loses", chance if on else 0.0))
            case environment_faults.DelayRequests(delay=delay, seconds=seconds):
                self._for(seconds, lambda on: setattr(self._network, "delay", delay if on else 0.002))
            case environment_faults.RefuseNotifications(seconds=seconds):
                self._for(seconds, lambda on: setattr(self._receivers, "is_down", on))
            case environment_faults.FailGate(state=state, seconds=seconds):
                self._for(seconds, lambda on: setattr(self._gates, "state", state if on else ""))
            case environment_faults.RebootGuest(vm=vm, seconds=seconds):
                self._guests.kill(vm)
                self._loop.call_later(seconds, self._guests.start, vm)
            case environment_faults.DamageMemory(vm=vm, how=how):
                self._guests.damage_memory(vm, how)
            case fleet_requests.EditFleetFile(edit=edit, subject=subject, value=value):
                self._fleet_file.edit(edit, subject, value)
            case fleet_requests.ApplyFleetFile():
                service.apply_fleet_file()
            case _:
                self._operators.do(action)

    def _for(self, seconds: float, set_: Callable[[bool], None]) -> None:
        set_(True)
        self._loop.call_later(seconds, set_, False)

    def _tear_driver_record(self, service: Service) -> None:
        """Damage a record of the driver of a service that has ended, unless another node still writes there."""
        is_shared = any(
            each.is_alive and each.driver_directory == service.driver_directory for each in self._services
        )
        if self._tears_record and not is_shared and service.tear_driver_record():
            self._tears_record = False
            self._count("driver record torn")

    def _on_service_change(self, service: Service) -> None:
        """Note what became of a service; when it has ended, a supervisor starts it again."""
        if service.is_serving:
            self._is_serving.set()
            state = "serving"
        else:
            state = "failed to start" if service.start_failure else "ended"
            self._tear_driver_record(service)
            self._loop.call_later(_RESTART_PAUSE, self._start_service, service, context=self._context)
        reason = ("unreadable disk: " if self._disk.is_unreadable else "") + service.start_failure
        self._see(ProcessState(state, self._loop.time(), reason, service.name))

    def _start_service(self, service: Service) -> None:
        if not service.is_alive:
            self._see(ProcessState("starting", self._loop.time(), node=service.name))
            service.start()

    def _on_node_fault(self, what: str, node: str = "") -> None:
        """Count what happens to nodes; it may explain that they refuse something."""
        self._count(what)
        self._see(DiskFault(what, self._loop.time()))
        if node:
            self._see(ProcessState(what, self._loop.time(), node=node))

    def _clock_change(self) -> ClockChange:
        return ClockChange(self._loop.time(), self._clock.error.total_seconds(), self._clock.rate)

    def _on_operation(self, vm: str, what: str, event: str, host: str) -> None:
        self._reached[f"machine {what}"] += 1
        self._see(MachineOperation(vm, what, event, self._loop.time(), host))
        self._let_guest_follow(vm, boots=what in (EventType.REBOOT, EventType.REDEPLOY))

    def _on_host_command(self, host: str, running: list[str]) -> None:
        self._reached["machine host command"] += 1
        self._see(HostCommandRun(host, tuple(running), self._loop.time()))

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
        if self._nodes:
            if entry.revision <= self._revision:
                return  # another node holds it already
            self._revision = entry.revision
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
        encoded = msgspec.msgpack.encode(exchange)
        if self._place in encoded:  # its name differs from run to run
            encoded = repr(exchange).replace(str(self._directory), "/simulation").encode()
        self._hash.update(encoded)
        known = len(self._promises.problems)
        self._promises.see(exchange)
        for problem in [] if self._has_lost_entries else self._promises.problems[known:]:
            self._tell_problem(problem)

    def _tell_problem(self, problem: str) -> None:
        if problem not in self._told:
            self._told.add(problem)
            self.transcript.problem(self._loop.time(), problem)

    def _journal(self) -> Journal:
        return self._disk.open() if isinstance(self._disk, SqliteDisk) else SimulatedJournal(self._disk)

    def _end(self) -> None:
        """Let go of everything; code of killed processes that still runs its ``finally`` reaches nothing any more."""
        asyncio.set_event_loop(None)
        randomness.use_source(os.urandom)
        self._guests.close()
        for service in self._services:
            service.forget()
            service.program.lose_power()
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
