"""The real agent in a guest: its loop, decision, client and memory file; only its handlers are simulated."""

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from forewarn.agent.decision.actions import DecisionSettings, HandlerTraits
from forewarn.agent.decision.approval_turn import Approver
from forewarn.agent.decision.facts import AgentFact, CallShared, EventForgotten
from forewarn.agent.decision.plan import HandlerTerms, OnFailure
from forewarn.agent.decision.rules import EventRule
from forewarn.agent.handler import (
    Direction,
    HandlerDone,
    HandlerFailed,
    HandlerNotBegun,
    HandlerOutcome,
    HandlerResult,
    Task,
)
from forewarn.agent.runtime.loop import Agent
from forewarn.agent.runtime.memory_file import MemoryFile
from forewarn.client.async_client import AsyncClient
from forewarn.client.async_connection import AsyncConnection
from forewarn.client.client import PATIENCE
from forewarn.client.session import ClientSession
from forewarn.client.steps import NoResponse, SendRequest
from forewarn.core.errors import ForewarnError
from forewarn.http.codec import HttpResponse
from forewarn.simulator.actors.simulated_guest import SimulatedGuest
from forewarn.simulator.environment.loop import SimulatedProcess
from forewarn.simulator.exchanges import AgentStep

_URL = "http://169.254.169.254"
_STAGES = ((("save",),), (("drain",),), (("drain",), ("save",)), (("save", "notify"), ("drain",)))
"""The handlers that a guest may have: see ``SimulatedHandler``."""


class SimulatedHandler:
    """A handler with effects on record, so that a call which must not be made again is noticed.

    ``save`` may not be repeated and prepares for one event; ``drain`` may be repeated and is shared by all events;
    ``notify`` only notifies, so that its failure holds no approval.
    """

    def __init__(self, guest: SimulatedGuest, name: str) -> None:
        self.name = name
        self.terms = HandlerTerms(
            timeout=timedelta(seconds=guest.random.choice((3, 30))),
            takes=timedelta(seconds=guest.random.choice((0, 0, 1, 3))),
            retries=guest.random.choice((0, 2)),
            on_failure=OnFailure.GO_ON if name == "notify" else OnFailure.HOLD,
        )
        self.repeats = name != "save"
        self.shared = name == "drain"
        self.prepares = name != "notify"
        self._guest = guest
        self._in_force: dict[str, None] = {}
        """The events that it has prepared for."""
        self._unreported: dict[str, None] = {}
        """The events that it has undone for, while the call has not returned."""
        self._busy_until = 0.0
        self._busy_in: SimulatedProcess | None = None

    def is_ready_for(self, event: str) -> bool:
        """Return whether its effect holds."""
        return bool(self._in_force) if self.shared else event in self._in_force

    def join(self, event: str) -> None:
        """Note that a shared effect holds for one more event, without a call."""
        self._in_force[event] = None
        self._see("prepared", event)

    def end_given_up_undo(self, event: str) -> None:
        """Report an undo that the agent gave up waiting for: no later call reports it."""
        if event in self._unreported and self.prepares:
            self._see("undone", event)

    def do(self, task: Task) -> HandlerResult:
        event = task.event.id
        if not self.repeats and event in self._in_force:
            self._complain(f"was called again for {event}, though it had succeeded")
        if not self._take_time():
            return HandlerFailed("the simulated application does not obey")
        self._in_force[event] = None
        self._report("prepared", event)
        return HandlerDone({"made": event})

    def undo(self, task: Task) -> HandlerResult:
        event = task.event.id
        if not self._take_time() and task.attempt <= self.terms.retries:
            return HandlerFailed("the simulated application does not obey")
        # A call that was killed had its effect too; the call that repeats it reports it.
        for each in {**self._in_force, **self._unreported} if self.shared else [event]:
            self._in_force.pop(each, None)
            self._unreported[each] = None
            self._report("undone", each)
        return HandlerDone()

    def outcome_of(self, task: Task) -> HandlerOutcome:
        event = task.event.id
        if (event in self._in_force) != (task.direction is Direction.DO):
            return HandlerNotBegun()
        # The process that made the call was killed before it could report it.
        self._report("prepared" if task.direction is Direction.DO else "undone", event)
        return HandlerDone({"made": event})

    def close(self) -> None:
        pass

    def _take_time(self) -> bool:
        """Let the call last, now and then too long; return whether it succeeds."""
        guest = self._guest
        if self._busy_in is guest.process and guest.loop.time() < self._busy_until:
            self._complain("was called while another call of it was under way")
        lasts = guest.random.uniform(0.02, 2.0)
        if guest.random.random() < 0.05:
            lasts += self.terms.timeout.total_seconds() + guest.random.choice((0.0, 10.0))
        self._busy_in, self._busy_until = guest.process, guest.loop.time() + lasts
        guest.loop.delay_result(lasts)
        return guest.random.random() < 0.9 or guest.is_quiet

    def _report(self, what: str, event: str) -> None:
        """Report when the call returns; a process that is killed before reports nothing."""
        guest = self._guest
        if self.prepares:
            ends = max(self._busy_until, guest.loop.time()) if self._busy_in is guest.process else guest.loop.time()
            guest.loop.call_at(ends, self._see, what, event)

    def _see(self, what: str, event: str) -> None:
        if what == "undone":
            self._unreported.pop(event, None)
        self._guest.see(AgentStep(self._guest.vm.name, what, event, self._guest.loop.time()))

    def _complain(self, what: str) -> None:
        self._guest.wrong.append(f"handler {self.name} of the agent in {self._guest.vm.name} {what}")


class _ObservedConnection(AsyncConnection):
    """Reports each request of the agent, and each approval that it sends."""

    def __init__(self, guest: "AgentGuest") -> None:
        super().__init__()
        self._guest = guest

    async def exchange(self, request: SendRequest) -> HttpResponse | NoResponse:
        for event in _approved(request):
            self._guest.note_approval(event)
        waits = any(name.lower() == "prefer" for name, _ in request.headers)
        tag = next((value for name, value in request.headers if name.lower() == "if-none-match"), "")
        pending = self._guest.begin(request.method, request.target, request.body, waits=waits, tag=tag)
        try:
            reply = await super().exchange(request)
        except BaseException as error:
            if not isinstance(error, GeneratorExit):  # else the simulation is over
                pending.end()
            raise
        if isinstance(reply, HttpResponse):
            pending.end(reply.status, reply.body, reply.headers)
        else:
            pending.end()
        return reply


class _ObservedClient(AsyncClient):
    """The agent's client on simulated time, with connections that report what they send."""

    def __init__(self, guest: "AgentGuest") -> None:
        self._guest = guest
        super().__init__(_URL)
        self.session = ClientSession(
            _URL,
            None,
            PATIENCE,
            None,
            {},
            seconds=guest.loop.time,
            chance=guest.random.random,
            host_name=lambda: guest.vm.name,
        )

    def _make_connection(self) -> AsyncConnection:
        return _ObservedConnection(self._guest)


class AgentGuest(SimulatedGuest):
    """A guest in which the agent runs."""

    def configure(self, hurry: float) -> None:
        """Choose the handlers and settings of the agent; they stay the same for all its starts."""
        stages = self.random.choice(_STAGES)
        self.handlers = {name: SimulatedHandler(self, name) for stage in stages for name in stage}
        self._settings = DecisionSettings(
            vm=self.random.choice(("", self.vm.name)),
            rules=(EventRule(name="all", stages=stages, late=self.random.random() < 0.2),),
            terms={name: handler.terms for name, handler in self.handlers.items()},
            traits={name: HandlerTraits(handler.repeats, handler.shared) for name, handler in self.handlers.items()},
            approver=self.random.choice((Approver.LEADER, Approver.EACH)),
            takeover=timedelta(minutes=5) / hurry,
        )
        if self.vm.guest == "agent-wrong-clock":
            self.clock.step(timedelta(seconds=self.random.choice((-1, 1)) * self.random.randrange(10, 1800)))

    def damage_memory(self, how: str) -> None:
        """Append half a line to the memory file (``torn``), or change one bit of it (``flipped``)."""
        path = self.directory / "memory"
        content = bytearray(path.read_bytes()) if path.exists() else bytearray()
        if how == "torn":
            content += b'3f00a9c1 {"type":"beg'
        elif content:
            place = self.random.randrange(len(content))
            content[place] ^= 1 << self.random.randrange(8)
        path.write_bytes(content)

    async def run(self) -> None:
        """Run the agent until the process is killed; it must not end by itself."""
        memory = self._memory = MemoryFile(self.directory / "memory")
        self.process.on_kill[memory] = memory.close
        try:
            memory.open()
            await self._make_agent(memory).run()
        except ForewarnError as error:
            self.wrong.append(f"the agent in {self.vm.name} ended: {error}")
        finally:
            memory.close()

    def _make_agent(self, memory: MemoryFile) -> Agent:
        agent = Agent(self._settings, self.handlers, _ObservedClient(self), memory, self.clock, boot=self.boot_id)
        agent.on_fact = self._on_fact
        agent.on_change = lambda _: None
        return agent

    def note_approval(self, event: str) -> None:
        """Report an approval that is being sent, and check that every handler that must has prepared for it."""
        self.see(AgentStep(self.vm.name, "approved", event, self.loop.time()))
        known = self._memory.memory.events.get(event.lower())
        if known is None or known.is_gone:
            return  # an attempt that began while the event was there; it is refused
        for name, handler in self.handlers.items():
            if handler.prepares and not handler.is_ready_for(event):
                self.wrong.append(f"the agent in {self.vm.name} approved {event}, and {name} was not ready")

    def _on_fact(self, fact: AgentFact) -> None:
        match fact:
            case CallShared():  # only ``drain`` is shared, and it prepares
                self.handlers[fact.handler].join(fact.event)
            case EventForgotten(not_undone=given_up):
                for name in given_up:
                    self.handlers[name].end_given_up_undo(fact.event)


class _Approval(msgspec.Struct, rename="pascal"):
    start_requests: list[dict[str, str]]


_read_approval = msgspec.json.Decoder(_Approval).decode


def _approved(request: SendRequest) -> Iterator[str]:
    if request.method == "POST":
        yield from (each["EventId"].lower() for each in _read_approval(request.body).start_requests)
