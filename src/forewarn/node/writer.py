"""The writer: decides commands, appends their entries to the journal, and hands them to its replica.

    submit ──▶ decide on a draft ──▶ append ──▶ replica.apply ──▶ reply
                                       │ failed
                                       ▼
                     confirm the journal's revision ──▶ reply: nothing changed | done | unknown

Commands that wait together are decided one after another on one draft of the fleet, and committed together. A change
of many records is decided in a thread (``large_change``), and committed by itself when that is done.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from time import perf_counter
from typing import Protocol, TypeVar

from forewarn.clocks import Clock
from forewarn.core.commands import Command, RecordClockStep
from forewarn.core.decide import attempt_started, enact
from forewarn.core.draft import DraftFleet
from forewarn.core.errors import ForewarnError, OutcomeUnknown, Refused, Unavailable
from forewarn.core.fact import FORMAT
from forewarn.core.facts import AnyFact, Entry
from forewarn.core.model import NODE
from forewarn.core.notice import Rules
from forewarn.journal.port import Journal, JournalFailed, MaintainedJournal, NotWritten
from forewarn.journal.shared import LeaseLost
from forewarn.node.histogram import Histogram
from forewarn.node.large_change import LargeChange, LargeChangeSizes, is_large
from forewarn.node.recoverable_journal import RecoverableJournal
from forewarn.node.replica import Replica
from forewarn.node.timekeeper import Timekeeper
from forewarn.randomness import new_id

log = logging.getLogger(__name__)

_Value = TypeVar("_Value")
_Reply = asyncio.Future[tuple[AnyFact, ...]]
_Decision = tuple[AnyFact, ...] | ForewarnError


class ServiceStopping(Unavailable):
    """The service is stopping; send it again when it is back."""


class NotLeading(Unavailable):
    """Nothing was changed: this node does not lead; send it again."""


class CommitPublisher(Protocol):
    """The other processes of this machine that show the fleet."""

    async def publish(self, revision: int, entries: Sequence[Entry] = ()) -> None:
        """Return once all of them can show everything up to ``revision``, which is durable; never raise.

        ``entries`` are those since the last call; without them, each process reads them from the journal.
        """


class Writer:
    """Takes commands in and makes them durable. At most one for each journal does so at a time: the one that leads.

    - It decides on a draft over the replica's fleet. The draft exists from the first decision of a batch until the
      batch is committed or has failed, so that while the writer is idle its fleet is the replica's.
    - Replies and listeners come after the append. Every caller is answered, whatever fails.
    - After a failed append nothing more is written before the journal has confirmed its revision, which tells what
      became of the append. The next draft lies over the replica, which never held what was lost.
    - Commands are decided in the order in which they came, but for a large change: one at a time is decided beside
      others, which are committed before it if they concern none of what it names, and else wait for it.
    - Where several nodes share the journal, ``load`` begins without leading, ``lead`` takes commands from then on,
      and ``resign`` takes none any more. When the journal says that the lease is lost, nothing more is appended.
    """

    def __init__(
        self,
        replica: Replica,
        journal: Journal,
        clock: Clock,
        rules: Rules,
        warnings: dict[str, str],
        *,
        longest_decision: float = 0.004,
        shortest_retry: float = 1.0,
    ) -> None:
        """``longest_decision``: seconds of deciding in one go, so that requests are answered in between."""
        self.rules = rules
        self.attempts_by: tuple[int, str, str] | None = None
        """Term and name of the node, and its driver's name, where an attempt is recorded together with the start of
        its event. What calls the driver sets it."""
        self.newest_format = FORMAT
        """The format of facts that this node writes, if the others can read it."""
        self.format = FORMAT
        """The format of facts that every node can read: nothing newer is written."""
        self.large_change_sizes = LargeChangeSizes()
        self.publisher: CommitPublisher | None = None
        """Who else shows the fleet: the replica takes entries in after them."""
        self.timekeeper = Timekeeper(clock)
        self.appends = Histogram(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
        """How long it took to make entries durable, each time."""
        self._replica = replica
        self._journal = RecoverableJournal(
            journal, replica, clock.seconds, warnings, self._publish, self._note_divergence
        )
        self._longest_decision = longest_decision
        self._shortest_retry = shortest_retry
        self._clock = clock
        self._seconds = clock.seconds
        self._append_began: float | None = None
        self._waiting: deque[tuple[Command, _Reply]] = deque()
        self._confirming: deque[asyncio.Future[None]] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._refusal: type[Unavailable] | None = None
        """Why no commands are taken at present."""
        self._gives_up = False
        """Whether the commands that wait are refused, too."""
        self.on_lease_lost: Callable[[], None] = lambda: None
        """Called when the journal says that another node may lead."""
        self.on_diverged: Callable[[], None] = lambda: None
        """Called when the journal lost entries that the replica held, before the replica is loaded again."""
        self.may_answer: Callable[[], bool] | None = None
        """Tells whether no other node can have led since this one began to; None where it is the only node."""
        self._large: LargeChange | None = None
        """The large change that is being decided, or waits to be committed."""
        self._deferred: deque[tuple[Command, _Reply]] = deque()
        """The commands that wait for the large change."""
        self._news = asyncio.Event()
        """Set when a command came or the large change was decided, while there is nothing else to do."""
        self._large_thread = ThreadPoolExecutor(1, thread_name_prefix="large-change")

    @property
    def is_leading(self) -> bool:
        """Whether it takes commands."""
        return self._refusal is None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being decided or committed, and no caller waits for it."""
        return self._writing is None

    @property
    def is_sound(self) -> bool:
        """Whether the replica is what the journal holds, and nothing is known to keep it from being written."""
        return self._journal.is_confirmed and not self._journal.backoff.remaining

    @property
    def failure(self) -> str:
        """What last kept the journal from being written or read."""
        return self._journal.backoff.reason

    @property
    def retry_after(self) -> timedelta:
        """How long to wait before a command that was not recorded is submitted again."""
        return timedelta(seconds=max(self._shortest_retry, self._journal.backoff.remaining))

    @property
    def append_age(self) -> float:
        """Seconds since the append that is under way began; 0 while there is none."""
        began = self._append_began
        return 0.0 if began is None else perf_counter() - began

    async def start(self) -> None:
        """Load the journal into the replica."""
        recovered = await self._journal.load()
        self.timekeeper.start(recovered.fleet)
        self._replica.load(recovered)
        self._journal.is_confirmed = True

    async def load(self) -> None:
        """Load the journal into the replica, without leading."""
        self._refusal = NotLeading
        self._replica.load(await self._journal.load())

    async def lead(self) -> None:
        """Take commands from now on, after everything that the journal holds; on failure it does not lead."""
        await self._journal.confirm()
        self.timekeeper = Timekeeper(self._clock)
        self.timekeeper.start(self._replica.fleet)
        self._journal.note_success()
        self._refusal, self._gives_up = None, False

    def stand_down(self) -> None:
        """Take no more commands, and refuse those that wait."""
        self._refusal, self._gives_up = self._refusal or NotLeading, True
        self._news.set()

    async def resign(self, *, at_once: bool = False) -> None:
        """Take no more commands and finish those that were submitted; ``at_once``, only what is being appended."""
        if at_once:
            self.stand_down()
        self._refusal = self._refusal or NotLeading
        if self._writing:
            await asyncio.wait([self._writing])
        self._journal.is_confirmed = False

    async def stop(self) -> None:
        """Finish what was submitted, then take nothing more in."""
        self._refusal = ServiceStopping
        if self._writing:
            await self._writing
        for shut_down in (self._large_thread.shutdown, self._journal.close_thread):
            await asyncio.to_thread(shut_down)  # it may take long: signals are still to be heard meanwhile

    async def submit(self, command: Command) -> tuple[AnyFact, ...]:
        """Return what the command made happen, once that is durable; raise what it was refused for."""
        return await self.begin(command)

    def begin(self, command: Command) -> "asyncio.Future[tuple[AnyFact, ...]]":
        """Submit a command; the future that is returned holds what ``submit`` would return or raise."""
        reply: _Reply = asyncio.get_running_loop().create_future()
        if self._refusal is not None:
            reply.set_exception(self._refusal())
        else:
            self._waiting.append((command, reply))
            self._begin_writing()
        return reply

    async def confirm(self) -> None:
        """Return once the replica holds all that is durable; raise Unavailable where that cannot be found out.

        It waits for an append that is under way, and after one that failed it asks the journal what became of it.
        """
        if self._writing is None and self._journal.is_confirmed and self.is_leading:
            return
        if self._refusal is not None:
            raise self._refusal
        reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._confirming.append(reply)
        self._begin_writing()
        await reply

    async def recorded(self, command: str) -> Entry | None:
        """Return the entry of a command that was submitted before, also where its outcome was unknown."""
        await self.confirm()
        return next(iter(await self._replica.history(f"command:{command}")), None)

    async def compact(self, journal: MaintainedJournal) -> bool:
        """Delete a few old entries; return whether there are more to delete."""
        return await self._journal.compact(journal)

    def preview(self, command: Command) -> tuple[tuple[AnyFact, ...], DraftFleet]:
        """Decide a command on a draft that is thrown away; raise what it would be refused for.

        The draft is what the fleet would be then. It is good until the next commit.
        """
        if is_large(command, self.large_change_sizes):
            raise Refused("this change is too large to be tried; apply it as a fleet file, which can be planned")
        draft = DraftFleet(self._replica.fleet)
        now = max(self._clock.now(), draft.last_at)
        return enact(draft, command, now, self.rules, self.timekeeper.has_passed), draft

    def _begin_writing(self) -> None:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        elif self._large:
            self._news.set()

    async def _write(self) -> None:
        try:
            while self._waiting or self._confirming or self._large:
                if self._gives_up:
                    self._refuse_waiting()
                    continue
                if not self._journal.is_confirmed and not await self._recover():
                    continue
                while self._confirming:
                    _resolve(self._confirming.popleft(), None)
                if self._journal.backoff.remaining:
                    self._refuse_waiting()
                    continue
                if self._large is None and self._waiting and is_large(self._waiting[0][0], self.large_change_sizes):
                    await self._begin_large()
                if self._large and self._large.is_decided:
                    await self._commit_large(self._large)
                elif self._waiting:
                    await self._commit(*self._decide())
                elif self._large and not self._confirming:
                    self._news.clear()
                    await self._news.wait()
                    continue
                # Those who were just answered may ask again at once: let them, so that they share the next commit
                # with those who waited meanwhile. Else the callers fall into two halves that never meet.
                await asyncio.sleep(0)
        finally:
            self._writing = None

    def _decide(self) -> tuple[DraftFleet, list[Entry], list[tuple[_Reply, _Decision]]]:
        """Decide what waits, until it has taken long enough; return the draft, what to append, and the answers."""
        entries: list[Entry] = []
        answers: list[tuple[_Reply, _Decision]] = []
        decided: list[tuple[Command, _Reply]] = []
        began = self._seconds()
        draft = DraftFleet(self._replica.fleet)
        now = self.timekeeper.read(draft.last_at)
        if expected := self.timekeeper.unrecorded:
            step = RecordClockStep(id=new_id(), by=NODE, expected=expected)
            entries.append(self._entry(draft, 1, now, step, enact(draft, step, now, self.rules)))
        large = self._large
        while self._waiting and self._seconds() - began < self._longest_decision:
            command, reply = self._waiting[0]
            if is_large(command, self.large_change_sizes):
                if large is None:
                    break  # it begins when those before it are committed
                self._deferred.append(self._waiting.popleft())
                continue
            self._waiting.popleft()
            try:
                facts = enact(draft, command, now, self.rules, self.timekeeper.has_passed)
            except ForewarnError as error:
                decided.append((command, reply))
                answers.append((reply, error))
                continue
            except Exception as error:  # noqa: BLE001 - it is logged, and fails this command only
                _answer_mistake(command, reply, error)
                return self._decide_again(draft, decided)
            if self.format < self.newest_format and (refusal := self._refuse_newer(facts)):
                _resolve(reply, refusal)
                return self._decide_again(draft, decided)
            if large and not large.lets_pass(facts, draft):
                self._deferred.append((command, reply))
                return self._decide_again(draft, decided)
            if self.attempts_by:
                facts += attempt_started(draft, facts, now, *self.attempts_by)
            decided.append((command, reply))
            answers.append((reply, facts))
            if facts or command.request:
                entries.append(self._entry(draft, len(entries) + 1, now, command, facts))
        return draft, entries, answers

    def _decide_again(
        self, draft: DraftFleet, decided: list[tuple[Command, _Reply]]
    ) -> tuple[DraftFleet, list[Entry], list[tuple[_Reply, _Decision]]]:
        """Give up a draft that holds what is not to be committed: the commands before that are decided anew."""
        self._waiting.extendleft(reversed(decided))
        self.timekeeper.reload(self._replica.fleet)
        return draft, [], []

    def _refuse_newer(self, facts: tuple[AnyFact, ...]) -> Refused | None:
        """Refuse facts that not every node can read."""
        newer = max(facts, key=lambda fact: fact.since_format, default=None)
        if newer is None or newer.since_format <= self.format:
            return None
        return Refused(
            f"not every node can read what this would record ({newer.__struct_config__.tag}, of format"
            f" {newer.since_format}; the nodes have format {self.format}): upgrade all nodes, then send it again"
        )

    async def _begin_large(self) -> None:
        """Begin with the large change that is the next command."""
        now = self.timekeeper.read(self._replica.fleet.last_at)
        if self.timekeeper.unrecorded:
            return  # a step of the clock is recorded first
        command, reply = self._waiting.popleft()
        if not is_large(command, self.large_change_sizes):
            raise AssertionError("the caller has looked")
        self._large = large = LargeChange(
            command, reply, self._replica, self._journal.port, now, self.large_change_sizes
        )
        loop, rules, has_passed = asyncio.get_running_loop(), self.rules, self.timekeeper.has_passed
        await loop.run_in_executor(self._large_thread, large.find_scope)
        large.decided = loop.run_in_executor(
            self._large_thread, large.decide, lambda draft, command: enact(draft, command, now, rules, has_passed)
        )
        large.decided.add_done_callback(self._note_decided)

    def _note_decided(self, decided: asyncio.Future[None]) -> None:
        decided.exception()  # there may be no caller any more that retrieves it
        self._news.set()

    async def _commit_large(self, large: LargeChange) -> None:
        """Commit the large change that was decided, and let those go on that waited for it."""
        reply, failure = large.reply, large.decided.exception() if large.decided else None
        if large.is_stale and isinstance(failure, JournalFailed):
            failure = None  # it is decided again
        if isinstance(failure, JournalFailed):
            self._journal.note_failure("the journal was not written", failure)
            self._journal.is_confirmed = False
            _resolve(reply, Unavailable(f"nothing was changed: {failure}"))
        elif isinstance(failure, ForewarnError):
            _resolve(reply, self._refuse_replaced() or failure)
        elif failure:
            _answer_mistake(large.command, reply, failure)
        elif self.format < self.newest_format and (refusal := self._refuse_newer(large.facts)):
            _resolve(reply, refusal)
        else:
            now = self.timekeeper.read(self._replica.fleet.last_at)
            if large.is_stale or self.timekeeper.unrecorded:
                self._deferred.appendleft((large.command, reply))  # it is decided again, on the fleet as it is now
            else:
                large.draft.rebase(large.decided_at)
                entries = [self._entry(large.draft, 1, now, large.command, large.facts)]
                if not large.facts and not large.command.request:
                    entries = []
                await self._commit(large.draft, entries, [(reply, large.facts)], large.prepared)
                asyncio.get_running_loop().run_in_executor(self._large_thread, large.discard)
        self._end_large()

    def _end_large(self) -> None:
        self._large = None
        self._waiting.extendleft(reversed(self._deferred))
        self._deferred.clear()

    def _entry(
        self, draft: DraftFleet, number: int, now: datetime, command: Command, facts: tuple[AnyFact, ...]
    ) -> Entry:
        draft.last_at = now
        self.timekeeper.follow(facts)
        return Entry(self._replica.revision + number, now, command.id, command.by, facts, command.request)

    async def _commit(
        self,
        draft: DraftFleet,
        entries: list[Entry],
        answers: list[tuple[_Reply, _Decision]],
        prepared: Mapping[int, object] | None = None,
    ) -> None:
        failure = await self._append(entries, draft, prepared) if entries else self._refuse_replaced()
        for reply, word in answers:
            if failure and isinstance(word, ForewarnError) and not isinstance(failure, NotLeading):
                # It was refused because of what may not be recorded.
                _resolve(reply, Unavailable("nothing was changed: the journal cannot be written; ask again"))
            else:
                _resolve(reply, failure or word)

    def _refuse_replaced(self) -> NotLeading | None:
        """Refuse to answer where the replica may lack what the next leader did: no append finds that out."""
        return NotLeading() if self.may_answer is not None and not self.may_answer() else None

    async def _append(
        self, entries: list[Entry], draft: DraftFleet, prepared: Mapping[int, object] | None
    ) -> ForewarnError | None:
        """Make entries durable and hand them to the replica; return the results for callers if that failed."""
        began = perf_counter()
        self._append_began = began
        try:
            await self._journal.append(entries)
        except LeaseLost as error:
            # The replica takes in what another node did when it follows.
            self._journal.is_confirmed = False
            self.stand_down()
            self.on_lease_lost()
            return NotLeading(f"nothing was changed: {error}; send it again")
        except Exception as error:  # noqa: BLE001 - a journal may be third-party code
            self._journal.note_failure("the journal was not written", error)
            return await self._find_out(entries, error)
        finally:
            self._append_began = None
        self.appends.add(perf_counter() - began)
        self._journal.note_success()
        self.timekeeper.note_recorded(entries)
        await self._publish(entries[-1].revision, entries)
        self._apply(entries, draft, prepared)
        return None

    async def _publish(self, revision: int, entries: Sequence[Entry] = ()) -> None:
        if self.publisher is not None:
            await self.publisher.publish(revision, entries)

    def _apply(self, entries: list[Entry], draft: DraftFleet, prepared: Mapping[int, object] | None) -> None:
        try:
            self._replica.apply(entries, draft, prepared)
        except Exception:  # the callers are answered all the same
            log.exception("the replica did not take in a commit; it is loaded again")
            self._journal.is_confirmed = False

    def _note_divergence(self) -> None:
        self.on_diverged()

    async def _find_out(self, entries: list[Entry], error: Exception) -> ForewarnError | None:
        """Ask the journal what became of a failed append; return None if it succeeded, else what to answer."""
        after = self._replica.revision
        self._journal.is_confirmed = False
        is_confirmed = await self._try_confirm()
        if isinstance(error, NotWritten):
            return Unavailable(f"nothing was changed: {error}")
        try:
            if is_confirmed and await self._journal.entries_after(after, len(entries)) == entries:
                self.timekeeper.note_recorded(entries)
                return None
        except Exception as unread:  # noqa: BLE001 - a journal may be third-party code
            self._journal.note_failure("the journal was not read", unread)
            is_confirmed = False
        if is_confirmed:
            return Unavailable(f"nothing was changed: {error}")
        return OutcomeUnknown(f"it is not known whether this was recorded: {error}; ask again with the same key")

    async def _recover(self) -> bool:
        """Confirm the journal's revision after a failure; tell those who wait when that fails too."""
        if not self._journal.backoff.remaining and await self._try_confirm():
            return True
        self._refuse_waiting()
        while self._confirming:
            _resolve(self._confirming.popleft(), Unavailable(self._journal.backoff.reason))
        return False

    def _refuse_waiting(self) -> None:
        """Answer the commands that wait while nothing can be written."""
        if self._large:
            self._deferred.appendleft((self._large.command, self._large.reply))
            self._end_large()
        while self._waiting:
            _resolve(self._waiting.popleft()[1], self._reason_to_wait())
        while self._gives_up and self._confirming:
            _resolve(self._confirming.popleft(), self._reason_to_wait())

    def _reason_to_wait(self) -> Unavailable:
        return NotLeading() if self._gives_up else Unavailable(f"nothing was changed: {self._journal.backoff.reason}")

    async def _try_confirm(self) -> bool:
        try:
            await self._journal.confirm()
        except Exception as error:  # noqa: BLE001 - a journal may be third-party code
            self._journal.note_failure("the journal was not read", error)
            return False
        self.timekeeper.reload(self._replica.fleet)
        if self._large:
            self._large.is_stale = True
        return True


def _answer_mistake(command: Command, reply: _Reply, error: BaseException) -> None:
    fields = {"command": type(command).__name__}
    log.error("a command was not decided", exc_info=error, extra={"fields": fields})
    _resolve(reply, ForewarnError("nothing was changed: the service made a mistake; its log says more"))


def _resolve(reply: "asyncio.Future[_Value]", result: _Value | ForewarnError) -> None:
    if reply.done():
        return  # the caller has gone
    if isinstance(result, ForewarnError):
        reply.set_exception(result)
    else:
        reply.set_result(result)
