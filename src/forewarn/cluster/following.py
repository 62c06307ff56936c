"""Keeps the replica of a node that does not lead at what the journal holds."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import TypeVar

from forewarn.clocks import sleep
from forewarn.core.facts import Entry
from forewarn.journal.shared import DIVERGED, JournalDiverged, SharedJournal, describe_divergence
from forewarn.node.followed_entries import changed_records, prepare
from forewarn.node.large_change import LargeChangeSizes
from forewarn.node.node import Node
from forewarn.node.replica import call_journal
from forewarn.threads import THREADS

log = logging.getLogger(__name__)

_Value = TypeVar("_Value")

_LONGEST_WAIT = 5.0
"""Seconds after which the journal is asked again."""
_AT_ONCE = 200
"""Entries that are taken in at once: few enough that no request waits for long."""
_RETRY = timedelta(seconds=0.5)
_TOPIC = "following"


class ReplicaFollower:
    """Waits for entries, and hands them to the replica; loads the journal again where that does not continue it."""

    def __init__(self, node: Node, journal: SharedJournal, woken: Callable[[], None]) -> None:
        """``woken`` is called when something else than an entry is new: a lease was released."""
        self.reloads = 0
        """How often the journal was loaded again, because it did not continue what the replica held."""
        self._node = node
        self._journal = journal
        self._woken = woken
        self._sizes = LargeChangeSizes()
        self._following: asyncio.Task[None] | None = None
        self._taking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to follow. Repeating it does nothing."""
        if self._following is None:
            self._following = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop following: from the return on the replica does not change any more."""
        if self._following:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            self._following = None
        if self._taking:
            await asyncio.wait([self._taking])
            self._taking = None
        self._node.warnings.pop(_TOPIC, None)

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except Exception as error:  # noqa: BLE001 - a journal may be third-party code
                said = str(error) or type(error).__name__
                if _TOPIC not in self._node.warnings:
                    log.warning("the journal cannot be followed", extra={"fields": {"reason": said}})
                self._node.warnings[_TOPIC] = f"the journal cannot be followed: {said}"
                await sleep(self._node.clock, _RETRY)
            else:
                self._node.warnings.pop(_TOPIC, None)

    async def _follow(self) -> None:
        replica = self._node.replica
        began, held = self._node.clock.seconds(), replica.revision
        if not replica.is_loaded:
            await self._undisturbed(self._reload(JournalDiverged("the replica did not take in an entry")))
        try:
            if await _in_thread(lambda: self._journal.follow(held, _LONGEST_WAIT)):
                await self._undisturbed(self._take_in())
            elif self._node.clock.seconds() - began < _LONGEST_WAIT:
                self._woken()
        except JournalDiverged as error:
            await self._undisturbed(self._reload(error))

    async def _undisturbed(self, work: Coroutine[None, None, None]) -> None:
        """Let work end whatever becomes of its caller: the journal and the replica are to agree."""
        self._taking = asyncio.create_task(work)
        await asyncio.shield(self._taking)
        self._taking = None

    async def _take_in(self) -> None:
        replica = self._node.replica
        held = replica.revision
        entries = await _in_thread(lambda: list(self._journal.entries(held, _AT_ONCE)))
        if not entries:
            return
        _check(entries, held)
        if changed_records(entries) < self._sizes.prepared_aside:
            replica.apply(entries)
            return
        followed = await _in_thread(partial(prepare, replica, entries, self._sizes))
        del entries  # nothing else refers to them when they are freed
        followed.apply(replica)
        await _in_thread(followed.discard)

    async def _reload(self, error: JournalDiverged) -> None:
        log.warning("the journal is loaded again", extra={"fields": {"reason": str(error)}})
        recovered = await _in_thread(self._journal.load)
        held = self._node.replica.revision
        self._node.replica.load(recovered)
        self.reloads += 1
        self._node.warnings[DIVERGED] = describe_divergence(held, str(error))


def _check(entries: list[Entry], held: int) -> None:
    """Refuse a gap: entries that were compacted while this node was away."""
    if [entry.revision for entry in entries] != list(range(held + 1, held + 1 + len(entries))):
        raise JournalDiverged(f"the journal has no revision {held + 1} any more")


async def _in_thread(call: Callable[[], _Value]) -> _Value:
    return await asyncio.get_running_loop().run_in_executor(THREADS, call_journal, call)
