"""One running replica: the only way in for commands, and the only writer of its journal.

Commands that wait together are decided one after another on a fleet that runs ahead, and committed together.
Nobody is told of anything before it is durable: replies and listeners come after the append. After a failed append
the fleet is read anew from the journal before anything else is written, and that tells whether the append succeeded.
Every caller is answered, whatever fails.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from time import perf_counter
from typing import TypeVar
from uuid import uuid4

from forewarn.clocks import Clock
from forewarn.core.commands import CheckDeadlines, Command, RecordClockStep
from forewarn.core.decide import enact
from forewarn.core.errors import ForewarnError, OutcomeUnknown, Unavailable
from forewarn.core.facts import AnyFact, Entry
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE
from forewarn.core.notice import Rules
from forewarn.journal.port import Journal, JournalFailed, MaintainedJournal, NotWritten, Recovered
from forewarn.node.backoff import Backoff
from forewarn.node.feed import Commit, Feed
from forewarn.node.histogram import Histogram
from forewarn.node.timekeeper import Timekeeper, warning_of

log = logging.getLogger(__name__)

_Value = TypeVar("_Value")
_Reply = asyncio.Future[tuple[AnyFact, ...]]
_Decision = tuple[AnyFact, ...] | ForewarnError

_LONGEST_DECISION = 0.004
"""Seconds of deciding in one go, so that requests are answered in between."""
_SHORTEST_RETRY = 1.0


class Node:
    """Takes commands in, makes them durable, and tells the listeners of its feed."""

    def __init__(self, journal: Journal, clock: Clock, rules: Rules) -> None:
        self.fleet = Fleet()
        """The writer's fleet: ahead of the journal while an append is under way."""
        self.feed = Feed()
        self.clock = clock
        self.rules = rules
        self.appends = Histogram(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
        """How long it took to make entries durable, each time."""
        self.progress: dict[str, str] = {}
        """How far Started events are, in their driver's words. Not on record: the next process asks anew."""
        self.warnings: dict[str, str] = {}
        """What needs an operator at present, by topic; health and ``forewarn doctor`` show it."""
        self._journal = journal
        self._revision = 0
        self._is_loaded = False
        self._backoff = Backoff(clock.seconds)
        self._append_began: float | None = None
        self.timekeeper = Timekeeper(clock)
        self._waiting: deque[tuple[Command, _Reply]] = deque()
        self._looking: deque[Callable[[ForewarnError | None], None]] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="journal-writer")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="journal-reader")

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing is being decided or committed, and nobody waits for it."""
        return self._writing is None

    @property
    def is_sound(self) -> bool:
        """Tell whether the fleet is what the journal holds, and nothing is known to keep it from being written."""
        return self._is_loaded and not self._backoff.remaining

    @property
    def failure(self) -> str:
        """What last kept the journal from being written or read."""
        return self._backoff.reason

    @property
    def retry_after(self) -> timedelta:
        """How long to wait before a command that was not recorded is submitted again."""
        return timedelta(seconds=max(_SHORTEST_RETRY, self._backoff.remaining))

    @property
    def revision(self) -> int:
        """The revision of the last entry that is durable."""
        return self._revision

    @property
    def append_age(self) -> float:
        """Seconds since the append that is under way began; 0 while there is none."""
        began = self._append_began
        return 0.0 if began is None else perf_counter() - began

    async def start(self) -> None:
        """Read the journal and tell the listeners what the fleet is."""
        await self._reload()
        self.timekeeper.start(self.fleet)
        self.feed.load(self.fleet)
        await self.check_clock()

    async def stop(self) -> None:
        """Finish what was submitted, then take nothing more in."""
        self._is_closed = True
        if self._writing:
            await self._writing
        # What they do may take long: signals are still to be heard meanwhile.
        await asyncio.to_thread(self._writer.shutdown)
        await asyncio.to_thread(self._reader.shutdown)

    async def submit(self, command: Command) -> tuple[AnyFact, ...]:
        """Return what the command made happen, once that is durable; raise what it was refused for."""
        if self._is_closed:
            raise Unavailable("the service is stopping; send it again when it is back")
        reply: _Reply = asyncio.get_running_loop().create_future()
        self._waiting.append((command, reply))
        self._begin_writing()
        return await reply

    async def check_clock(self) -> None:
        """Record a step of the wall clock, and warn of it for a day."""
        self.timekeeper.read(self.fleet.last_at)
        if self.timekeeper.unrecorded:
            with suppress(Unavailable):  # it is recorded with the next command
                await self.submit(CheckDeadlines(id=uuid4().hex, by=NODE, events=()))
        if self.timekeeper.is_cautious and self.fleet.clock_step:
            self.warnings["clock"] = warning_of(self.fleet.clock_step)
        else:
            self.warnings.pop("clock", None)

    async def look(self, question: Callable[[Fleet], _Value]) -> _Value:
        """Ask the fleet something at a moment when all of it is durable. The question must be quick."""
        if self._writing is None and self._is_loaded:
            return question(self.fleet)
        if self._is_closed:
            raise Unavailable("the service is stopping; ask again when it is back")
        reply: asyncio.Future[_Value] = asyncio.get_running_loop().create_future()

        def answer(error: ForewarnError | None) -> None:
            if reply.done():
                return  # the caller has gone
            if error:
                reply.set_exception(error)
                return
            try:
                reply.set_result(question(self.fleet))
            except Exception as refused:  # noqa: BLE001 - whatever the caller's own question raises is the caller's
                reply.set_exception(refused)

        self._looking.append(answer)
        self._begin_writing()
        return await reply

    async def recorded(self, command: str) -> Entry | None:
        """Return the entry of a command that was submitted before, also where nobody could tell what became of it."""
        await self.look(lambda _: None)  # after an append that failed, what is durable is found out first
        return next(iter(await self.history(f"command:{command}")), None)

    async def history(self, subject: str) -> list[Entry]:
        """Return the entries about a subject, oldest first."""
        found: object = await self.read(lambda: self._journal.history(subject))
        if not isinstance(found, list) or not all(isinstance(each, Entry) for each in found):
            raise JournalFailed("the journal returned a history that is no list of entries: mend the journal")
        return found

    async def read(self, question: Callable[[], _Value]) -> _Value:
        """Ask the journal something, beside the writer and the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, _call_journal, question)

    def _begin_writing(self) -> None:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def take_snapshot_if_due(self) -> None:
        """Have a snapshot taken beside the writer, then let old entries go in steps that delay nobody."""
        journal = self._journal
        if not isinstance(journal, MaintainedJournal) or not journal.snapshot_due:
            return
        await self.check_clock()
        is_more = not self.timekeeper.is_cautious
        await asyncio.to_thread(journal.take_snapshot, release=is_more, now=self.clock.now())
        while is_more and self._is_loaded and not self.timekeeper.is_cautious:
            try:
                is_more = await self._in_writer(journal.compact)
            except Exception:
                self._is_loaded = False  # the journal takes nothing until it is loaded again
                raise

    async def _write(self) -> None:
        try:
            while self._waiting or self._looking:
                if not self._is_loaded and not await self._recover():
                    continue
                while self._looking:
                    self._looking.popleft()(None)
                if self._backoff.remaining:
                    self._refuse_waiting()
                    continue
                await self._commit(*self._decide())
                # Those who were just answered may ask again at once: let them, so that they share the next commit
                # with those who waited meanwhile. Else the callers fall into two halves that never meet.
                await asyncio.sleep(0)
        finally:
            self._writing = None

    def _decide(self) -> tuple[list[Entry], list[tuple[_Reply, _Decision]]]:
        """Decide what waits, until it has taken long enough; return what to append and what to answer then."""
        entries: list[Entry] = []
        answers: list[tuple[_Reply, _Decision]] = []
        decided: list[tuple[Command, _Reply]] = []
        began = perf_counter()
        now = self.timekeeper.read(self.fleet.last_at)
        if expected := self.timekeeper.unrecorded:
            step = RecordClockStep(id=uuid4().hex, by=NODE, expected=expected)
            entries.append(self._entry(1, now, step, enact(self.fleet, step, now, self.rules)))
        while self._waiting and perf_counter() - began < _LONGEST_DECISION:
            command, reply = self._waiting.popleft()
            try:
                facts = enact(self.fleet, command, now, self.rules, self.timekeeper.has_passed)
            except ForewarnError as error:
                answers.append((reply, error))
                continue
            except Exception:
                log.exception("a command was not decided", extra={"fields": {"command": type(command).__name__}})
                _resolve(reply, ForewarnError("nothing was changed: the service made a mistake; its log says more"))
                # The fleet may hold half of it. Those before it are decided again, on the fleet as it is recorded.
                self._waiting.extendleft(reversed(decided))
                self._is_loaded = False
                return [], []
            decided.append((command, reply))
            answers.append((reply, facts))
            if facts or command.request:
                entries.append(self._entry(len(entries) + 1, now, command, facts))
        return entries, answers

    def _entry(self, number: int, now: datetime, command: Command, facts: tuple[AnyFact, ...]) -> Entry:
        self.fleet.last_at = now
        self.timekeeper.follow(facts)
        return Entry(self._revision + number, now, command.id, command.by, facts, command.request)

    async def _commit(self, entries: list[Entry], answers: list[tuple[_Reply, _Decision]]) -> None:
        failure = await self._append(entries) if entries else None
        for reply, word in answers:
            if failure and isinstance(word, ForewarnError):  # it was refused because of what may not be recorded
                _resolve(reply, Unavailable("nothing was changed: the journal cannot be written; ask again"))
            else:
                _resolve(reply, failure or word)

    async def _append(self, entries: list[Entry]) -> ForewarnError | None:
        """Make entries durable and tell the listeners; return what the callers are to be told instead."""
        began = perf_counter()
        self._append_began = began
        try:
            await self._in_writer(lambda: self._journal.append(self._revision, entries))
        except Exception as error:  # noqa: BLE001 - a journal may be somebody else's code
            self._note_failure("the journal was not written", error)
            return await self._find_out(entries, error)
        finally:
            self._append_began = None
        self.appends.add(perf_counter() - began)
        self._backoff.succeed()
        self.warnings.pop("journal", None)
        self.timekeeper.note_recorded(entries)
        self._revision += len(entries)
        self.feed.publish(Commit(tuple(entries), self.fleet))
        return None

    async def _find_out(self, entries: list[Entry], error: Exception) -> ForewarnError | None:
        """Read the fleet anew after a failed append; return what that makes of the append, None if it succeeded."""
        after = self._revision
        self._is_loaded = False
        is_read = await self._try_reload()
        if isinstance(error, NotWritten):
            return Unavailable(f"nothing was changed: {error}")
        try:
            if is_read and await self.read(lambda: list(self._journal.entries(after, len(entries)))) == entries:
                self.timekeeper.note_recorded(entries)
                return None
        except Exception as unread:  # noqa: BLE001 - a journal may be somebody else's code
            self._note_failure("the journal was not read", unread)
            is_read = False
        if is_read:
            return Unavailable(f"nothing was changed: {error}")
        return OutcomeUnknown(f"it is not known whether this was recorded: {error}; ask again with the same key")

    async def _recover(self) -> bool:
        """Read the fleet anew after a failure; tell those who wait when that fails too."""
        if not self._backoff.remaining and await self._try_reload():
            return True
        self._refuse_waiting()
        while self._looking:
            self._looking.popleft()(Unavailable(self._backoff.reason))
        return False

    def _refuse_waiting(self) -> None:
        """Answer the commands that wait while the journal cannot be written."""
        while self._waiting:
            _resolve(self._waiting.popleft()[1], Unavailable(f"nothing was changed: {self._backoff.reason}"))

    async def _try_reload(self) -> bool:
        try:
            await self._reload()
        except Exception as error:  # noqa: BLE001 - a journal may be somebody else's code
            self._note_failure("the journal was not read", error)
            return False
        self.timekeeper.reload(self.fleet)
        self.feed.reload(self.fleet)
        return True

    async def _reload(self) -> None:
        recovered = _checked(await self._in_writer(self._journal.load))
        for warning in recovered.warnings:
            log.warning("journal loaded with a warning", extra={"fields": {"warning": warning}})
        self.fleet = recovered.fleet
        self._revision = recovered.revision
        self._is_loaded = True

    def _note_failure(self, what: str, error: Exception) -> None:
        self._backoff.fail(str(error) or type(error).__name__)
        self.warnings["journal"] = f"{what}: {self._backoff.reason}"
        log.error(
            what,
            exc_info=None if isinstance(error, ForewarnError) else error,
            extra={"fields": {"reason": self._backoff.reason, "retry_seconds": round(self._backoff.remaining)}},
        )

    async def _in_writer(self, work: Callable[[], _Value]) -> _Value:
        return await asyncio.get_running_loop().run_in_executor(self._writer, _call_journal, work)


def _call_journal(work: Callable[[], _Value]) -> _Value:
    """Let no error of a journal, which may be somebody else's code, end the process or keep a caller waiting."""
    try:
        return work()
    except BaseException as error:
        # A future cannot hold StopIteration; the others end the event loop.
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            raise
        raise JournalFailed(f"the journal raised {type(error).__name__}") from error


def _checked(recovered: object) -> Recovered:
    """Return what a journal holds; raise JournalFailed where the journal returned anything else."""
    match recovered:
        case Recovered(fleet=Fleet(), revision=int(revision), warnings=tuple()) if revision >= 0:
            return recovered
    raise JournalFailed(f"the journal's load returned a {type(recovered).__name__} that is wrong: mend the journal")


def _resolve(reply: _Reply, word: _Decision) -> None:
    if reply.done():
        return  # the caller has gone
    if isinstance(word, ForewarnError):
        reply.set_exception(word)
    else:
        reply.set_result(word)
