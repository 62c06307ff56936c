"""What a journal promises: the facts in order, durable once appended, and their fold after a restart."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol, TypedDict, runtime_checkable

import msgspec

from forewarn.core.errors import BadInput, OutcomeUnknown, Unavailable
from forewarn.core.facts import AnyFact, Entry
from forewarn.core.fleet import Fleet


class HistoryBounds(TypedDict, total=False):
    """Which part of a history is asked for; ``Journal.history`` says what each key means."""

    limit: int | None
    after: int
    before: int | None
    from_oldest: bool


class JournalFailed(Unavailable):
    """The journal cannot be read or written at the moment."""


class NotWritten(JournalFailed):
    """Nothing was appended to the journal."""


class AppendUnknown(JournalFailed, OutcomeUnknown):
    """It is not known whether the entries were appended to the journal."""


class StaleWriter(NotWritten):
    """Another writer appended to the journal; load it again before appending."""


class RepeatedCommand(NotWritten):
    """A request is recorded already; ask for the history of its command."""


class NotAJournal(BadInput):
    """Something else than a journal of Forewarn is there."""


class NewerJournal(BadInput):
    """The journal was written by a newer release of Forewarn."""


class DamagedJournal(BadInput):
    """The journal is damaged."""


class Recovered(msgspec.Struct, frozen=True):
    """What a journal holds: the fold of all its facts."""

    fleet: Fleet
    revision: int
    """The revision of the last entry; 0 when there is none."""
    warnings: tuple[str, ...] = ()
    """What had to be worked around; the fleet is right nevertheless."""


@runtime_checkable
class SupportsReopening(Protocol):
    """A journal that can be opened again after a failure without folding its entries."""

    def reopen(self) -> int:
        """Do what ``load`` does after a failure, without the fold; return the revision of the last durable entry."""


@runtime_checkable
class SupportsPreparing(Protocol):
    """A journal that can do a part of a long append beforehand, while shorter ones go on."""

    def prepare(self, facts: tuple[AnyFact, ...]) -> None:
        """Encode, perhaps store, facts that the entry of a later append may have; no reader sees them before that.

        Called in another thread than ``append``, which is called meanwhile. Only the last of these calls counts, only
        until the append of an entry with this very tuple, and only until the journal is opened again. ``NotWritten``:
        they could not be stored; like after a failed append, the journal may have to be opened again.
        """


@runtime_checkable
class SupportsFollowers(Protocol):
    """A journal that other processes can load while one writes it."""

    def load_follower(self) -> Recovered:
        """Return the fold of all durable entries, as ``load`` does, beside the process that writes them.

        Nothing is changed and nothing stays open; ``entries`` may be called afterwards, ``append`` may not.
        """


class Journal(Protocol):
    """Entries in order, numbered from 1 without a gap.

    One thread at a time calls ``load``, ``append`` and ``close``; any thread may call the others meanwhile. Every
    error is one of this module's, and its sentence names the place and the remedy.
    """

    def load(self) -> Recovered:
        """Open the journal and return the fold of all its entries, each of which was checked.

        Repeat it after any failure: it opens everything anew and tells what became durable. What is damaged or
        newer is refused, and nothing of it is changed.
        """

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        """Add ``entries``, whose revisions follow ``expected_revision`` one by one.

        On return all of them are durable. ``NotWritten``: none of them was added, and none will turn up later;
        ``StaleWriter`` is the kind of it that says that the last revision was another one. ``AppendUnknown``: all
        of them were added, or none; ``load`` tells which, and until then every further append fails with
        ``NotWritten``. Any other error counts as ``AppendUnknown``.

        The id of a command occurs in one entry only. Ids are drawn anew, but that of an entry with a ``request`` may
        come again: ``RepeatedCommand``, a ``NotWritten``, refuses a batch with such an id that a kept entry has, or
        that occurs in the batch twice; the journal takes the next batch as before. From the return of ``append`` on,
        the history of ``command:ID`` has the entry.
        """

    def entries(self, after: int = 0, limit: int | None = None) -> Iterator[Entry]:
        """Yield up to ``limit`` of the kept entries above revision ``after``, in order, each checked.

        It never yields an entry that is not durable, and does not wait for the writer.
        """

    def follow(self, after: int, timeout: float) -> bool:
        """Wait until there is an entry above revision ``after``; return False after ``timeout`` seconds without one.

        It wakes when this or another process appends, and returns False when this journal is closed meanwhile.
        """

    def history(
        self,
        subject: str,
        *,
        limit: int | None = None,
        after: int = 0,
        before: int | None = None,
        from_oldest: bool = False,
    ) -> list[Entry]:
        """Return the kept entries that concern ``subject``, oldest first; with ``limit``, the newest of them.

        A subject is a name as ``core.subjects`` makes it; one that nothing concerns has an empty history.
        ``after`` and ``before`` are the revisions between which to look; with ``from_oldest``, a limit keeps
        the oldest instead. What a page costs goes by its limit, not by how long the history is.
        """

    def close(self) -> None:
        """Let go of everything. Repeating it does nothing; ``load`` opens the journal again."""


@runtime_checkable
class MaintainedJournal(Journal, Protocol):
    """A journal that needs snapshots to be loaded quickly, and deletes what is old.

    A journal without these methods is left alone. The thread that appends calls ``compact``.
    """

    @property
    def snapshot_due(self) -> bool:
        """Whether so much was appended since the last snapshot that the next start would take long."""

    def take_snapshot(self, *, release: bool = True, now: datetime | None = None) -> None:
        """Write a snapshot beside the running writer, from what is durable; return once it is verified.

        With ``release``, entries that are older than the history to be kept, counted from ``now`` (else by the
        system's clock), may be deleted from then on; entries dated in the
        future are passed over. Without, nothing more may be deleted.
        A call when none is due does no harm. A failure harms nothing but the time the next start takes.
        """

    def compact(self, limit: int = 500) -> bool:
        """Delete at most ``limit`` of the oldest entries; return whether there are more to delete.

        Only entries below a verified snapshot and older than the history to be kept are deleted.
        """

    def keep_history(self, history: timedelta) -> None:
        """Keep entries for another time, from the next snapshot on."""


class JournalType(Protocol):
    """What an entry point of the group ``forewarn.journals`` names: a class that makes journals."""

    def from_settings(self, location: str, directory: Path, history: timedelta) -> Journal:
        """Make a journal; ``BadInput`` says what is wrong with the setting ``journal``, and the remedy.

        ``location`` is what follows the name and the colon in that setting, and ``directory`` the same read as a path
        that counts from the data directory. ``history`` is how long entries are kept. Nothing is opened yet.
        """


def check_journal(name: str, journal: object) -> Journal:
    """Refuse what cannot be a journal, before anything depends on it."""
    needed = ("load", "append", "entries", "follow", "history", "close")
    if missing := [each for each in needed if not callable(getattr(journal, each, None))]:
        raise BadInput(
            f"journal {name!r} made a {type(journal).__name__}, which lacks {', '.join(missing)}:"
            " mend it, or name another"
        )
    return journal  # type: ignore[return-value]  # that is what was looked at
