"""Journals that fail on demand."""

from collections.abc import Sequence

from forewarn.core.facts import AnyFact, Entry
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import AppendUnknown, JournalFailed, NotWritten, Recovered


class FailingJournal(MemoryJournal):
    """Fails on demand: before the entries are kept, after, without being able to tell, or for good."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: str = ""
        self.batches: list[int] = []
        self.opened = 0

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        self.batches.append(len(entries))
        if self.fails == "before":
            raise NotWritten("the disk is full")
        if self.fails in ("unsure", "gone"):
            raise AppendUnknown("the disk is tired")
        super().append(expected_revision, entries)
        if self.fails == "after":
            raise AppendUnknown("the disk went away")
        if self.fails == "oddly":
            raise ZeroDivisionError

    def load(self) -> Recovered:
        self._open()
        return super().load()

    def reopen(self) -> int:
        self._open()
        return super().reopen()

    def _open(self) -> None:
        self.opened += 1
        if self.fails == "gone":
            raise JournalFailed("the disk is gone")


class FoldingJournal(FailingJournal):
    """Can only be opened again by folding all its entries."""

    reopen = None  # type: ignore[assignment]


class ForgetfulJournal(MemoryJournal):
    """Keeps entries with facts of one kind, then fails and cannot tell what became of them."""

    forgets: type[AnyFact] | None = None
    is_gone = False

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        super().append(expected_revision, entries)
        facts = (fact for entry in entries for fact in entry.facts)
        if self.forgets and any(isinstance(fact, self.forgets) for fact in facts):
            self.is_gone = True
            raise AppendUnknown("the disk went away")

    def reopen(self) -> int:
        if self.is_gone:
            raise JournalFailed("the disk is gone")
        return super().reopen()
