"""The agent's main loop: receives documents and results, decides, stores facts, then acts.

    endpoint ──document──┐
    handlers ──ended─────┼──▶ react ──facts──▶ memory ──▶ acts: handlers, approvals
    listeners ──holds────┘   (pure)          (durable)

Everything happens on one event loop; handlers run in threads. The agent acts only after the facts are durable.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from forewarn import __version__
from forewarn.agent.decision.actions import (
    AgentAction,
    AskHandler,
    CallHandler,
    DecisionSettings,
    StopHandler,
)
from forewarn.agent.decision.approval_turn import ConsultCoordinator, SendApproval
from forewarn.agent.decision.decider import Decider
from forewarn.agent.decision.facts import (
    AgentFact,
    ApprovalFailed,
    ApprovalGiven,
    CallEnded,
    CallWithdrawn,
    CoordinatorConsulted,
    DocumentShown,
    HoldPlaced,
    HoldReleased,
)
from forewarn.agent.decision.rules import MOST_EVENTS, concerns, limit_events
from forewarn.agent.handler import (
    Handler,
    HandlerDone,
    HandlerFailed,
    HandlerNotBegun,
    HandlerOutcome,
    HandlerUnknown,
)
from forewarn.agent.observation.event_views import make_event_views
from forewarn.agent.observation.fact_log import AgentFactLog, log_change
from forewarn.agent.observation.status import AgentStatus
from forewarn.agent.runtime.background_tasks import BackgroundTasks
from forewarn.agent.runtime.clock_check import SAMPLES, ClockCheck, EndpointClock
from forewarn.agent.runtime.coordinator import CoordinatorReply, consult
from forewarn.agent.runtime.handler_runner import CallGivenUp, HandlerRunner
from forewarn.agent.runtime.memory_file import MemoryFile
from forewarn.client.async_client import AsyncClient
from forewarn.client.changes import Change, changes
from forewarn.client.errors import Closed
from forewarn.clocks import Clock
from forewarn.core.errors import Refused, Unavailable
from forewarn.wire.azure_names import show_id
from forewarn.wire.document import Document, ScheduledEvent, keep_unreadable

log = logging.getLogger("forewarn.agent")

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_RETRY_AFTER = 2.0
"""Seconds after which a failed write or name lookup is retried."""
_SAMPLE_AGAIN = 1.1
"""Seconds between two samples of the endpoint's clock: the Date header has whole seconds and differs after that."""
_SAMPLING_TIMEOUT = 8.0
"""Seconds after which sampling ends: an endpoint that does not answer must not stop the agent from deciding."""
_SHUTDOWN_TIMEOUT = 5.0
"""Seconds that handlers have to return when the agent stops."""


class Agent:
    """One agent in one VM. It lives on one event loop."""

    def __init__(
        self,
        decision_settings: DecisionSettings,
        handlers: Mapping[str, Handler],
        client: AsyncClient,
        memory: MemoryFile,
        clock: Clock,
        *,
        coordinator: Sequence[str] = (),
        dry_run: bool = False,
        boot: str | None = None,
        retry_after: float = _RETRY_AFTER,
        sampling_timeout: float = _SAMPLING_TIMEOUT,
    ) -> None:
        self.on_change: Callable[[Change], None] = log_change
        """Called with every change, before the agent acts on it."""
        self.on_fact: Callable[[AgentFact], None] = AgentFactLog()
        """Called with every fact, once it is durable."""
        self.count_listeners: Callable[[], int] = int
        self.clock = EndpointClock(clock)
        """The endpoint's clock, as far as it is known; all times of the agent are read from it."""
        self.clock_check: ClockCheck | None = ClockCheck(self.clock)
        self._decision_settings = decision_settings
        self._client = client
        self._memory = memory
        self._decider = Decider()
        self._coordinator = coordinator
        self._dry_run = dry_run
        self._retry_after = retry_after
        self._sampling_timeout = sampling_timeout
        self._runner = HandlerRunner(handlers, self._on_call_ended, dry_run=dry_run, clock=self.clock)
        self._boot = boot_id() if boot is None else boot
        self._began_at = clock.now()
        self._document: Document | None = None
        self._limited: Document | None = None
        self._limited_from: Document | None = None
        """The document that ``_limited`` was made from."""
        self._ignored = 0
        """Number of its events that are ignored, because there are too many."""
        self._queued_facts: list[AgentFact] = []
        """Facts received since the last iteration, not stored yet."""
        self._wakeup = asyncio.Event()
        self._stopping = threading.Event()
        self._background_tasks = BackgroundTasks(self.stop)
        self._approving: set[str] = set()
        self._consulting: set[str] = set()
        self._dry_run_approved: set[str] = set()
        """Events that a dry run would have approved, while the document stays the same."""
        self._sampling = False
        """Whether samples of the endpoint's clock are being taken."""
        self._memory_trouble = ""
        self._logged_memory_problems: set[str] = set()

    async def run(self) -> None:
        """Run until ``stop`` is called; raise Unavailable if a background task fails."""
        self._memory.memory.mark_calls_interrupted()
        if not self._decision_settings.vm:
            self._background_tasks.start(self._learn_name())
        self._background_tasks.start(self._listen())
        try:
            while not self._stopping.is_set():
                self._wakeup.clear()
                wake_at = self._decide_and_act()
                await self._sleep(wake_at)
        finally:
            self.stop()
            await self._runner.close(_SHUTDOWN_TIMEOUT)
            self._store([])
            await self._client.aclose()
            await self._background_tasks.cancel()
        if failure := self._background_tasks.failure:
            raise Unavailable(f"the agent stopped because of an internal error ({failure!r}); see its log")

    def stop(self) -> None:
        """Make ``run`` return soon; the next agent resumes the calls under way."""
        self._stopping.set()
        self._wakeup.set()

    def hold(self, event: str, holder: str, until: datetime) -> None:
        self._queue_fact(HoldPlaced(event, holder, until))

    def release(self, event: str, holder: str) -> None:
        self._queue_fact(HoldReleased(event, holder))

    def present(self) -> tuple[ScheduledEvent, ...]:
        document = self._memory.memory.document
        return document.events if document else ()

    def is_approved(self, event: str) -> bool:
        """Return whether an event is approved, or its approval is being sent."""
        known = self._memory.memory.events.get(event)
        return event in self._approving or (known is not None and known.approved_at is not None)

    def concerns_me(self, event: ScheduledEvent) -> bool:
        return concerns(event, self._decision_settings.vm)

    def status(self) -> AgentStatus:
        document = self._memory.memory.document
        found = self._client.session.found
        return AgentStatus(
            version=__version__,
            vm=self._decision_settings.vm,
            vm_is_guess=self._client.is_name_guessed,
            endpoint=found.endpoint.url if found else "",
            api_version=self._client.api_version,
            trouble=self._client.trouble or ("" if self._document else "the endpoint has not answered yet"),
            memory_trouble=self._memory_trouble,
            clock_offset=self.clock.offset.total_seconds(),
            clock_trouble=self.clock_check.trouble if self.clock_check else "",
            dry_run=self._dry_run,
            started_at=self._began_at,
            incarnation=document.incarnation if document else None,
            events=make_event_views(
                self._memory.memory,
                self._decision_settings,
                self.clock.now(),
                self._approving,
                self._runner.waiting_calls,
            ),
            unreadable=len(self._document.unreadable) if self._document else 0,
            ignored=self._ignored,
            listeners=self.count_listeners(),
        )

    def _decide_and_act(self) -> datetime | None:
        """Decide and act until nothing follows; return when to decide again if nothing happens before."""
        while self._store([]):
            document = self._document_to_decide()
            reaction = self._decider.react(
                self._memory.memory, document, self.clock.now(), self._decision_settings, self._boot
            )
            if not self._store(reaction.facts):
                self._decider.reset()
                break
            for act in reaction.acts:
                self._act(act)
            if not reaction.facts and not self._queued_facts:
                return reaction.wake_at
        asyncio.get_running_loop().call_later(self._retry_after, self._wakeup.set)
        return None

    def _document_to_decide(self) -> Document | None:
        """Return the document to decide about; None while the agent cannot decide."""
        # The VM's name and the clock must be known before anything is decided.
        if self._document is None or not self._decision_settings.vm or self._sampling:
            return None
        if self._limited_from is not self._document:
            self._limited_from = self._document
            self._limited = limit_events(self._document, self._decision_settings.vm, self._memory.memory.events)
            ignored = len(self._document.events) - len(self._limited.events)
            if ignored and not self._ignored:
                fields = {"events": len(self._document.events), "followed": MOST_EVENTS}
                log.error("the document has too many events; the rest is ignored", extra={"fields": fields})
            self._ignored = ignored
            if self.clock_check:
                known = self._memory.memory.events
                self.clock_check.check_events(event for event in self._limited.events if event.id not in known)
        return self._limited

    def _store(self, facts: Sequence[AgentFact]) -> bool:
        """Store received and decided facts, then publish them; return False if they cannot be stored."""
        facts = [*self._queued_facts, *facts]
        if not facts:
            return True
        before = self._memory.memory.document
        try:
            self._memory.append(facts)
        except Unavailable as error:
            if str(error) not in self._logged_memory_problems:
                self._logged_memory_problems.add(str(error))
                fields = {"reason": str(error)}
                log.error(  # noqa: TRY400 - the reason is enough
                    "the memory file cannot be written; the agent does not act until it can", extra={"fields": fields}
                )
            self._memory_trouble = str(error)
            return False
        self._memory_trouble = ""
        self._logged_memory_problems.clear()
        self._queued_facts.clear()
        self._decider.note_facts(facts)
        for fact in facts:
            self.on_fact(fact)
            if isinstance(fact, DocumentShown):
                self._publish_changes(changes(before, fact.document))
        return True

    def _publish_changes(self, news: Sequence[Change]) -> None:
        self._dry_run_approved.clear()
        for change in news:
            # An event that is gone stays in the memory until it is undone, and the memory knows its ending.
            known = self._memory.memory.events.get(change.event.id)
            self.on_change(msgspec.structs.replace(change, ending=known.ending) if known else change)

    def _act(self, act: AgentAction) -> None:
        match act:
            case CallHandler():
                self._runner.call(act, self._decision_settings.vm)
            case AskHandler(run):
                self._runner.ask(run, self._decision_settings.vm)
            case StopHandler(event, handler, at):
                self._runner.stop(event, handler, at)
            case SendApproval(event) if event not in self._approving and event not in self._dry_run_approved:
                self._approving.add(event)
                self._background_tasks.start(self._approve(event))
            case ConsultCoordinator(event) if event.id not in self._consulting:
                self._consulting.add(event.id)
                self._background_tasks.start(self._consult(event))

    def _on_call_ended(self, run: CallHandler, outcome: HandlerOutcome | CallGivenUp) -> None:
        if self._stopping.is_set() and not isinstance(outcome, HandlerDone):
            return  # it was stopped; the next agent resumes it
        now = self.clock.now()
        match outcome:
            case HandlerNotBegun():
                self._queue_fact(CallWithdrawn(run.event.id, run.handler, run.direction))
                return
            case HandlerUnknown(reason):
                result: HandlerDone | HandlerFailed = HandlerFailed(
                    f"the result of the call is unknown: {reason}".rstrip(": "), final=True
                )
            case CallGivenUp(reason):
                result = HandlerFailed(reason)
            case _:
                result = outcome
        is_given_up = isinstance(outcome, CallGivenUp)
        self._queue_fact(CallEnded(run.event.id, run.handler, run.direction, result, now, is_given_up))

    def _queue_fact(self, fact: AgentFact) -> None:
        self._queued_facts.append(fact)
        self._wakeup.set()

    def _on_date(self, date: str) -> None:
        if self.clock_check is None:
            return
        self.clock_check.add_date(date)
        if self.clock_check.is_unsure and not self._sampling:
            self._sampling = True
            self._background_tasks.start(self._sample_clock(self.clock_check))

    async def _sample_clock(self, check: ClockCheck) -> None:
        """Request more Date headers, so that the offset is soon known."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._sampling_timeout):
                for _ in range(SAMPLES):
                    if not check.is_unsure:
                        break
                    await asyncio.sleep(_SAMPLE_AGAIN)
                    with suppress(Refused, Unavailable):
                        await self._client.ask()
        if check.is_unsure:
            check.give_up()
        self._sampling = False
        self._wakeup.set()

    async def _listen(self) -> None:
        self._client.session.heard_date = self._on_date
        async for document in self._client.documents():
            # After a restart the memory contains events that the client has not received yet.
            self._document = keep_unreadable(self._memory.memory.document, document)
            self._wakeup.set()

    async def _learn_name(self) -> None:
        logged: set[str] = set()
        while not self._decision_settings.vm:
            try:
                name = await self._client.own_name()
            except Closed:
                return
            except (Refused, Unavailable) as error:
                if str(error) not in logged:
                    logged.add(str(error))
                    log.warning(
                        "this VM's name is not known yet; asking again; the setting name makes this unnecessary",
                        extra={"fields": {"reason": str(error)}},
                    )
                await asyncio.sleep(self._retry_after)
            else:
                self._decision_settings = self._decision_settings.named(name)
                fields = {"vm": name}
                if self._client.is_name_guessed:
                    log.warning(
                        "this VM's name is its host name, because the endpoint does not provide it;"
                        " if Resources of events contain another name, set name in the configuration",
                        extra={"fields": fields},
                    )
                else:
                    log.info("this VM's name is known", extra={"fields": fields})
                self._wakeup.set()

    async def _approve(self, event: str) -> None:
        if self._dry_run:
            log.info("dry run: would approve", extra={"fields": {"event": show_id(event)}})
            self._dry_run_approved.add(event)
            self._approving.discard(event)
            return
        known = self._memory.memory.events.get(event)
        attempt = known.not_approved.attempt + 1 if known and known.not_approved else 1
        try:
            await self._client.approve(event)
        except Closed:
            return
        except Refused as error:
            # In most cases the event is gone already, as the next document will show.
            self._queue_fact(ApprovalFailed(event, attempt, self.clock.now(), str(error), refused=True))
        except Unavailable as error:
            self._queue_fact(ApprovalFailed(event, attempt, self.clock.now(), str(error)))
        else:
            self._queue_fact(ApprovalGiven(event, self.clock.now()))
        self._approving.discard(event)

    async def _consult(self, event: ScheduledEvent) -> None:
        if self._dry_run:
            log.info("dry run: would ask the coordinator", extra={"fields": {"event": show_id(event.id)}})
            answer = CoordinatorReply(agreed=True, detail="dry run: the coordinator was not asked")
        else:
            answer = await asyncio.to_thread(
                consult, self._coordinator, event, self._decision_settings.vm, self._stopping
            )
        self._consulting.discard(event.id)
        self._queue_fact(CoordinatorConsulted(event.id, answer.agreed, self.clock.now(), answer.detail))

    async def _sleep(self, wake_at: datetime | None) -> None:
        timer = self.clock.call_at(wake_at, self._wakeup.set) if wake_at else None
        try:
            await self._wakeup.wait()
        finally:
            if timer:
                timer.cancel()


def boot_id() -> str:
    """Return the kernel's boot id; empty where the system has none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
