"""One running replica: the only way in for commands, and the only writer of its journal.

Commands that wait together are decided one after another on a fleet that runs ahead, and committed together.
Nobody is told of anything before it is durable: replies and listeners come after the append. A failed append
poisons the writer; the fleet is then read anew from the journal before anything else is written.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TypeVar

from forewarn.clocks import Clock
from forewarn.core.commands import Command
from forewarn.core.decide import enact
from forewarn.core.errors import ForewarnError, Unavailable
from forewarn.core.facts import AnyFact, Entry
from forewarn.core.fleet import Fleet
from forewarn.core.notice import Rules
from forewarn.journal.port import Journal
from forewarn.node.durations import Durations
from forewarn.node.feed import Commit, Feed

log = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")
_Reply = asyncio.Future[tuple[AnyFact, ...]]
_Word = tuple[AnyFact, ...] | ForewarnError

_LONGEST_DECISION = 0.004
"""Seconds of deciding in one go, so that requests are answered in between."""


class Node:
    """Takes commands in, makes them durable, and tells the listeners of its feed."""

    def __init__(self, journal: Journal, clock: Clock, rules: Rules) -> None:
        self.fleet = Fleet()
        """The writer's fleet: ahead of the journal while an append is under way."""
        self.feed = Feed()
        self.clock = clock
        self.rules = rules
        self.appends = Durations(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
        """How long it took to make entries durable, each time."""
        self.progress: dict[str, str] = {}
        """How far Started events are, in their driver's words. Not on record: the next process asks anew."""
        self._journal = journal
        self._revision = 0
        self._is_sound = False
        self._waiting: deque[tuple[Command, _Reply]] = deque()
        self._looking: deque[Callable[[ForewarnError | None], None]] = deque()
        self._known: dict[str, _Reply] = {}
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
        """Tell whether the last attempt to write, and to read anew after a failure, went well."""
        return self._is_sound

    @property
    def revision(self) -> int:
        """The revision of the last entry that is durable."""
        return self._revision

    async def start(self) -> None:
        """Read the journal and tell the listeners what the fleet is."""
        await self._reload()

    async def stop(self) -> None:
        """Finish what was submitted, then take nothing more in."""
        self._is_closed = True
        if self._writing:
            await self._writing
        self._writer.shutdown()
        self._reader.shutdown()

    async def submit(self, command: Command) -> tuple[AnyFact, ...]:
        """Return what the command made happen, once that is durable; raise what it was refused for."""
        if self._is_closed:
            raise Unavailable("the service is stopping; send it again when it is back")
        reply: _Reply = asyncio.get_running_loop().create_future()
        self._waiting.append((command, reply))
        self._begin_writing()
        return await reply

    async def look(self, question: Callable[[Fleet], _Answer]) -> _Answer:
        """Ask the fleet something at a moment when all of it is durable. The question must be quick."""
        if self._writing is None and self._is_sound:
            return question(self.fleet)
        if self._is_closed:
            raise Unavailable("the service is stopping; ask again when it is back")
        reply: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()

        def answer(error: ForewarnError | None) -> None:
            if reply.done():
                return  # the caller has gone
            try:
                if error:
                    raise error
                reply.set_result(question(self.fleet))
            except ForewarnError as refused:
                reply.set_exception(refused)

        self._looking.append(answer)
        self._begin_writing()
        return await reply

    async def submit_once(self, command: Command) -> tuple[AnyFact, ...]:
        """Submit a command that its sender may repeat: it happens once, and every repetition gets that answer."""
        if (earlier := self._known.get(command.id)) is not None:
            return await asyncio.shield(earlier)
        reply: _Reply = asyncio.get_running_loop().create_future()
        self._known[command.id] = reply
        try:
            recorded = await self.history(f"command:{command.id}")
            facts = recorded[0].facts if recorded else await self.submit(command)
        except ForewarnError as error:
            reply.set_exception(error)
            reply.exception()  # a repetition may never come to fetch it
            raise
        else:
            reply.set_result(facts)
            return facts
        finally:
            del self._known[command.id]

    async def history(self, subject: str) -> list[Entry]:
        """Return the entries about a subject, oldest first."""
        return await self.read(lambda: self._journal.history(subject))

    async def read(self, question: Callable[[], _Answer]) -> _Answer:
        """Ask the journal something, beside the writer and the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, question)

    def _begin_writing(self) -> None:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def take_snapshot_if_due(self) -> None:
        """Have a snapshot taken beside the writer, then let old entries go in steps that delay nobody."""
        if not self._journal.snapshot_due:
            return
        await asyncio.to_thread(self._journal.take_snapshot)
        is_more = True
        while is_more and self._is_sound:
            is_more = await self._in_writer(self._journal.compact)

    async def _write(self) -> None:
        try:
            while self._waiting or self._looking:
                if not self._is_sound and not await self._recover():
                    continue
                while self._looking:
                    self._looking.popleft()(None)
                await self._commit(*self._decide())
                # Those who were just answered may ask again at once: let them, so that they share the next commit
                # with those who waited meanwhile. Else the callers fall into two halves that never meet.
                await asyncio.sleep(0)
        finally:
            self._writing = None

    def _decide(self) -> tuple[list[Entry], list[tuple[_Reply, _Word]]]:
        """Decide what waits, until it has taken long enough; return what to append and what to answer then."""
        entries: list[Entry] = []
        answers: list[tuple[_Reply, _Word]] = []
        began = perf_counter()
        now = max(self.clock.now(), self.fleet.last_at)
        while self._waiting and perf_counter() - began < _LONGEST_DECISION:
            command, reply = self._waiting.popleft()
            try:
                facts = enact(self.fleet, command, now, self.rules)
            except ForewarnError as error:
                answers.append((reply, error))
                continue
            answers.append((reply, facts))
            if facts:
                self.fleet.last_at = now
                revision = self._revision + len(entries) + 1
                entries.append(Entry(revision, now, command.id, command.by, facts))
        return entries, answers

    async def _commit(self, entries: list[Entry], answers: list[tuple[_Reply, _Word]]) -> None:
        if entries:
            try:
                await self._in_writer(lambda: self._append(entries))
            except ForewarnError as error:
                self._is_sound = False
                for reply, _ in answers:
                    _answer(reply, Unavailable(f"nothing was changed: {error}"))
                return
            self._revision += len(entries)
            self.feed.publish(Commit(tuple(entries), self.fleet))
        for reply, word in answers:
            _answer(reply, word)

    def _append(self, entries: list[Entry]) -> None:
        began = perf_counter()
        self._journal.append(self._revision, entries)
        self.appends.add(perf_counter() - began)

    async def _recover(self) -> bool:
        """Read the fleet anew after a failure; tell those who wait when that fails too."""
        try:
            await self._reload()
        except ForewarnError as error:
            while self._waiting:
                _answer(self._waiting.popleft()[1], Unavailable(f"nothing can be changed: {error}"))
            while self._looking:
                self._looking.popleft()(error)
            return False
        return True

    async def _reload(self) -> None:
        recovered = await self._in_writer(self._journal.load)
        for warning in recovered.warnings:
            log.warning("%s", warning)
        self.fleet = recovered.fleet
        self._revision = recovered.revision
        self._is_sound = True
        self.feed.load(self.fleet)

    async def _in_writer(self, work: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)


def _answer(reply: _Reply, word: _Word) -> None:
    if reply.done():
        return  # the caller has gone
    if isinstance(word, ForewarnError):
        reply.set_exception(word)
    else:
        reply.set_result(word)
