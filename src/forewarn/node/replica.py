"""The replica: the committed fleet of one process, and the listeners to its commits."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from forewarn.core.draft import DraftFleet
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.core.subjects import with_groups
from forewarn.journal.port import Journal, JournalFailed, Recovered
from forewarn.node.feed import Commit, CommitListener, Feed

_Value = TypeVar("_Value")


class Replica:
    """What everything reads: documents, metrics, authentication, history, API views, performer, deadlines.

    - The fleet is the fold of the entries up to ``revision``, each of which is durable. It shows nothing else.
    - It changes in ``apply`` and ``load`` only, on the event loop and without yielding: code that reads it without
      an ``await`` in between sees one revision. Its records are immutable and may be kept.
    - Listeners are called with a commit when the fleet holds it, and before the callers of its commands are answered.
    """

    def __init__(self, journal: Journal) -> None:
        self.fleet = Fleet()
        self.revision = 0
        """The revision of the last entry that the fleet holds."""
        self.is_loaded = False
        """Whether the fleet is what the journal held at ``revision``: not before the first load."""
        self.feed = Feed()
        self._journal = journal
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="journal-reader")

    def subscribe(self, listener: CommitListener, label: str = "") -> None:
        """Tell a listener of every commit from now on; load it at once where there is a fleet."""
        if self.is_loaded:
            listener.load(self.fleet)
        self.feed.subscribe(listener, label)

    def load(self, recovered: Recovered) -> None:
        """Begin with the fold that a journal returned, or begin again with it."""
        is_first = not self.revision and not self.is_loaded
        self.fleet, self.revision, self.is_loaded = recovered.fleet, recovered.revision, True
        if is_first:
            self.feed.load(self.fleet)
        else:
            self.feed.reload(self.fleet)

    def apply(
        self, entries: Sequence[Entry], draft: DraftFleet | None = None, prepared: Mapping[int, object] | None = None
    ) -> None:
        """Take in durable entries, this process's own or another's, that follow ``revision`` one by one.

        A draft of this fleet, where there is one, already holds what exactly these entries make of it; ``prepared``
        is what the feed's listeners prepared for them.
        """
        self.is_loaded = False  # where a fact cannot be taken in, the fleet is to be loaded again
        committed: list[Entry] = []
        if draft is not None:
            draft.merge()
            committed.extend(entries)
        else:
            for entry in entries:
                committed.append(with_groups(entry, self.fleet))
                self.fleet.enter(entry)
        self.revision += len(entries)
        self.is_loaded = True
        self.feed.publish(Commit(tuple(committed), self.fleet, prepared or {}))

    async def history(self, subject: str) -> list[Entry]:
        """Return the entries about a subject, oldest first."""
        found: object = await self.read(lambda: self._journal.history(subject))
        if not isinstance(found, list) or not all(isinstance(each, Entry) for each in found):
            raise JournalFailed(
                "the journal returned a history that is not a list of entries: correct the journal plugin"
            )
        return found

    async def read(self, question: Callable[[], _Value]) -> _Value:
        """Ask the journal something, beside the writer and the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, call_journal, question)

    async def close(self) -> None:
        await asyncio.to_thread(self._reader.shutdown)


def call_journal(work: Callable[[], _Value]) -> _Value:
    """Let no error of a journal, which may be third-party code, end the process or keep a caller waiting."""
    try:
        return work()
    except BaseException as error:
        # A future cannot hold StopIteration; the others end the event loop.
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            raise
        raise JournalFailed(f"the journal raised {type(error).__name__}") from error
