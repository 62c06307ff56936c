"""The drivers ``command`` and ``webhook`` in a simulation: their own code and records, on simulated programs.

``OperatorProgram`` is what an operator writes for them: it operates on the simulated machines, outlives the service,
and tells afterwards what became of an event. The processes that run it for the driver ``command`` hold its record,
and are lost when the machine of the service loses power; the web service for the driver ``webhook`` is not.
"""

import contextvars
import json
import os
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import msgspec

from forewarn.clocks import Timer
from forewarn.core.model import Vm
from forewarn.drivers import program_results
from forewarn.drivers.command import CHECK_AGAIN, CommandDriver, CommandDriverSettings
from forewarn.drivers.program_runner import BEGUN, CompletedRun
from forewarn.drivers.webhook import ImpactMessage, WebhookDriver, WebhookDriverSettings
from forewarn.drivers.webhook_replies import WebhookReply
from forewarn.http.web_requests import NoWebResponse, WebResponse
from forewarn.node.driver import Impact, ImpactDone, ImpactOutcome
from forewarn.simulator.environment.clock import SimulatedClock
from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess
from forewarn.simulator.environment.machines import DriverBehaviour, Machines

_SECRET = "whsec_Zm9yZXdhcm4tc2ltdWxhdGlvbi0wMTIzNDU2Nzg5YWI="  # noqa: S105 - nobody has to keep it


class OperatorProgram:
    """What operates on the machines for an event, and knows what became of it."""

    def __init__(self, machines: Machines, behaviour: DriverBehaviour, loop: SimulatedLoop, random: Random) -> None:
        self.machines = machines
        self._behaviour = behaviour
        self._loop = loop
        self._random = random
        self._context = contextvars.copy_context()
        """Not that of the service, which may be killed."""
        self._moved: dict[str, dict[str, str]] = {}
        self.runs: dict[ProgramRun, None] = {}
        """The runs for the driver ``command`` that go on."""
        self.clear: dict[str, None] = {}
        """The events of which the web service has told clearly what became of them, or will."""

    def lose_power(self) -> None:
        """End the runs on the machine of the service; machines go on."""
        for run in tuple(self.runs):
            run.cut_off()

    def next_fault(self) -> str:
        return self._behaviour.take()

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        self._loop.call_later(seconds, do, context=self._context)

    def operate(self, impact: Impact) -> float:
        """Begin to operate on all machines; return in how many seconds to look again, or 0 where it has begun."""
        machines = [self.machines.of(vm) for vm in impact.vms]
        busy = max(machine.busy_until for machine in machines) - self._loop.time()
        if busy > 0:
            return busy + 0.001
        hosts: dict[str, str] = {}
        for vm in impact.vms:
            candidates = impact.candidates_for(vm) if impact.moves else ()
            host = self._random.choice(candidates).host.name if candidates else ""
            self.machines.operate(impact.event.id, vm, impact.event.type, host, deletes=impact.deletes)
            if host:
                hosts[vm.name] = host
        self._moved[impact.event.id] = hosts
        return 0.0

    def seconds_left(self, impact: Impact) -> float | None:
        """Return how long the machines still take for an event; None where nothing was begun for it."""
        if impact.event.id not in self._moved:
            return None
        ends = (self.machines.of(vm).busy_until for vm in impact.vms)
        return max(max(ends) - self._loop.time(), 0.0)

    def hosts(self, impact: Impact) -> dict[str, str]:
        return self._moved.get(impact.event.id, {})

    def switch(self, vm: Vm, process: SimulatedProcess, *, on: bool) -> ImpactOutcome:
        """Start or stop a machine."""
        if self.next_fault() in ("fails", "raises"):
            return self.machines.refuse(vm, on=on)
        seconds = self._random.choice((0.0, 0.5, 5.0))
        self._loop.delay_result(seconds)
        self.machines.switch(vm, process, seconds, on=on)
        return ImpactDone()

    def pause(self) -> float:
        """Return the seconds that it takes until a run begins."""
        return self._random.choice((0.001, 0.1, 2.0))


class ProgramRun:
    """One run of the program, in a process that outlives the service and holds the record of its event."""

    def __init__(self, program: OperatorProgram, impact: Impact, descriptor: int) -> None:
        self._program = program
        self._impact = impact
        self._record = os.dup(descriptor)  # which keeps the lock
        self._fault = program.next_fault()
        program.runs[self] = None
        program.later(program.pause(), self._begin)

    def is_alive(self) -> bool:
        """Stand for the thread that waits for the run; nothing waits here, the record is read again later."""
        return False

    def cut_off(self) -> None:
        """End without a result."""
        self._program.runs.pop(self, None)
        os.close(self._record)
        self._record = -1

    def _begin(self) -> None:
        if self._record >= 0:
            os.write(self._record, BEGUN)
            self._work()

    def _work(self) -> None:
        if self._record < 0:
            return
        if self._fault in ("fails", "raises"):
            self._end(CompletedRun(exit=1, stderr="the simulated hypervisor refused"))
        elif wait := self._program.operate(self._impact):
            self._program.later(wait, self._work)
        else:
            self._program.later(self._program.seconds_left(self._impact) or 0.0, self._succeed)

    def _succeed(self) -> None:
        if self._record >= 0:
            self._end(CompletedRun(stdout=json.dumps({"hosts": self._program.hosts(self._impact)})))

    def _end(self, result: CompletedRun) -> None:
        os.write(self._record, json.dumps(result).encode() + b"\n")
        self.cut_off()


class SimulatedCommandDriver(CommandDriver):
    """The driver ``command``, with a simulated process instead of a real one."""

    def __init__(
        self,
        program: OperatorProgram,
        process: SimulatedProcess,
        clock: SimulatedClock,
        directory: Path,
        *,
        live: bool,
    ) -> None:
        settings = CommandDriverSettings("/bin/true", remembers=live, moves_live=live, switches=True)
        super().__init__(settings, clock, directory)
        self._program = program
        self._process = process

    def switch(self, vm: Vm, *, on: bool, term: int = 0) -> ImpactOutcome:
        return self._program.switch(vm, self._process, on=on)

    def _start(self, impact: Impact, descriptor: int) -> threading.Thread:
        return ProgramRun(self._program, impact, descriptor)  # type: ignore[return-value] # it is asked nothing else

    def _ask(self, impact: Impact) -> ImpactOutcome:
        left = self._program.seconds_left(impact)
        ended = CompletedRun(exit=3 if left is None else 4)
        if left == 0.0:
            ended = CompletedRun(stdout=json.dumps({"hosts": self._program.hosts(impact)}))
        names = [vm.name for vm in impact.vms]
        return program_results.read_outcome_result(ended, names, self._clock.now() + CHECK_AGAIN)


class SimulatedWebhookDriver(WebhookDriver):
    """The driver ``webhook``, with a simulated receiver."""

    def __init__(
        self,
        program: OperatorProgram,
        process: SimulatedProcess,
        loop: SimulatedLoop,
        clock: SimulatedClock,
        directory: Path,
        *,
        live: bool,
    ) -> None:
        secret = directory.with_name("webhook-secret")
        secret.write_text(_SECRET, encoding="utf-8")
        settings = WebhookDriverSettings(
            "http://receiver.example/", str(secret), patience=timedelta(seconds=20), moves_live=live, switches=True
        )
        self._patient_clock = _PatientClock(clock)
        super().__init__(settings, self._patient_clock, directory)
        self._closed = _Closed(self._patient_clock)
        self._loop = loop
        self._program = program
        self._process = process

    def perform(self, impact: Impact) -> ImpactOutcome:
        try:
            return super().perform(impact)
        finally:
            self._loop.delay_result(self._patient_clock.paused)
            self._patient_clock.paused = 0.0

    def switch(self, vm: Vm, *, on: bool, term: int = 0) -> ImpactOutcome:
        return self._program.switch(vm, self._process, on=on)

    def _deliver(self, url: str, id_: str, body: bytes, more: dict[str, str]) -> WebResponse:
        """Let the receiver answer, or not."""
        message = msgspec.json.decode(body, type=ImpactMessage)
        event = message.event
        fault = self._program.next_fault() if message.ask == "perform" else ""
        if fault == "late":
            raise NoWebResponse("the simulated receiver cannot be reached", may_have_arrived=False)
        if fault == "raises":
            return WebResponse(503)
        if message.ask == "perform" and event in self._program.clear:
            wrong = f"the receiver was asked again to carry out {event}, although its answer had been clear"
            self._program.machines.wrong.append(wrong)
        reply = self._reply(message, fault)
        if fault == "hangs":
            raise NoWebResponse("the simulated receiver did not answer", may_have_arrived=True)
        if reply.outcome != "not-begun":
            self._program.clear[event] = None
        return WebResponse(200, body=msgspec.json.encode(reply))

    def _reply(self, message: ImpactMessage, fault: str) -> WebhookReply:
        impact, program = message.impact, self._program
        left = program.seconds_left(impact)
        if left is None and message.ask == "perform":
            if fault == "fails":
                return WebhookReply("failed", detail="the simulated hypervisor refused")
            if wait := program.operate(impact):
                program.later(wait, lambda: self._begin(impact))
                return WebhookReply("underway", check_after=wait)
            left = program.seconds_left(impact)
        if left is None:
            return WebhookReply("underway" if message.event in program.clear else "not-begun")
        return WebhookReply("underway", check_after=left) if left else WebhookReply("done", program.hosts(impact))

    def _begin(self, impact: Impact) -> None:
        if self._program.seconds_left(impact) is None and (wait := self._program.operate(impact)):
            self._program.later(wait, lambda: self._begin(impact))


class _PatientClock:
    """The clock of a driver that pauses within a call: a pause takes no time, and lets the call return later."""

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock
        self.paused = 0.0
        """Seconds of the call that is being made."""

    def now(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self.paused)

    def seconds(self) -> float:
        return self._clock.seconds() + self.paused

    def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
        return self._clock.call_at(when, do)

    def call_later(self, delay: timedelta, do: Callable[[], None]) -> Timer:
        return self._clock.call_later(delay, do)


class _Closed(threading.Event):
    """Tells that the driver is closed; a wait for it is a pause."""

    def __init__(self, clock: _PatientClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.paused += timeout or 0.0
        return self.is_set()
