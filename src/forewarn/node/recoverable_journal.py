"""The journal as the writer uses it: appended to in a thread, and after a failure opened anew.

After a failure nothing is known of what the journal holds. ``confirm`` finds it out, and hands the replica what is
durable and the replica does not hold.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from forewarn.core.errors import ForewarnError
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.journal.port import Journal, JournalFailed, MaintainedJournal, Recovered, SupportsReopening
from forewarn.journal.shared import DIVERGED, JournalDiverged, describe_divergence
from forewarn.node.backoff import Backoff
from forewarn.node.replica import Replica, call_journal

log = logging.getLogger(__name__)

_Value = TypeVar("_Value")


class Publish(Protocol):
    """What is called before the replica takes entries in."""

    def __call__(self, revision: int, entries: Sequence[Entry] = ()) -> Awaitable[None]: ...


class RecoverableJournal:
    """A journal, and whether the replica's revision is known to be its last."""

    def __init__(
        self,
        port: Journal,
        replica: Replica,
        seconds: Callable[[], float],
        warnings: dict[str, str],
        publish: Publish,
        diverged: Callable[[], None],
    ) -> None:
        """``diverged`` is called before the replica is loaded with a journal that does not continue it."""
        self.port = port
        self.is_confirmed = False
        """Whether the replica's revision is the journal's."""
        self.backoff = Backoff(seconds)
        self._replica = replica
        self._warnings = warnings
        self._publish = publish
        self._diverged = diverged
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal-writer")

    def close_thread(self) -> None:
        self._thread.shutdown()

    async def load(self) -> Recovered:
        recovered = _checked(await self._in_thread(self.port.load))
        for warning in recovered.warnings:
            log.warning("journal loaded with a warning", extra={"fields": {"warning": warning}})
        return recovered

    async def append(self, entries: list[Entry]) -> None:
        """Make entries durable after those that the replica holds."""
        await self._in_thread(lambda: self.port.append(self._replica.revision, entries))

    async def entries_after(self, revision: int, limit: int) -> list[Entry]:
        return await self._replica.read(lambda: list(self.port.entries(revision, limit)))

    async def compact(self, journal: MaintainedJournal) -> bool:
        """Delete a few old entries; return whether there are more to delete."""
        if not self.is_confirmed:
            return False
        try:
            return await self._in_thread(journal.compact)
        except Exception:
            self.is_confirmed = False  # the journal takes nothing until it is opened again
            raise

    async def confirm(self) -> None:
        """Open the journal anew, and hand the replica what is durable and it does not hold."""
        revision: object = -1
        has_diverged = False
        if self._replica.is_loaded and isinstance(self.port, SupportsReopening):
            try:
                revision = await self._reopen(self.port)
            except JournalDiverged as error:
                has_diverged = True
                log.warning("the journal is loaded again", extra={"fields": {"reason": str(error)}})
                self._warnings[DIVERGED] = describe_divergence(self._replica.revision, str(error))
        if revision != self._replica.revision:
            recovered = await self.load()
            await self._publish(recovered.revision)
            if has_diverged:
                self._diverged()
            self._replica.load(recovered)
        self.is_confirmed = True

    async def _reopen(self, journal: SupportsReopening) -> int:
        """Return the journal's last revision, and hand the replica the entries that it lacks."""
        revision: object = await self._in_thread(journal.reopen)
        if not isinstance(revision, int):
            raise JournalFailed("the journal's reopen returned no revision: mend the journal")
        held = self._replica.revision
        missing = await self.entries_after(held, revision - held) if revision > held else []
        if missing and len(missing) == revision - held:
            await self._publish(revision, missing)
            self._replica.apply(missing)
        return revision

    def note_success(self) -> None:
        self.backoff.succeed()
        self._warnings.pop("journal", None)

    def note_failure(self, what: str, error: Exception) -> None:
        self.backoff.fail(str(error) or type(error).__name__)
        self._warnings["journal"] = f"{what}: {self.backoff.reason}"
        log.error(
            what,
            exc_info=None if isinstance(error, ForewarnError) else error,
            extra={"fields": {"reason": self.backoff.reason, "retry_seconds": round(self.backoff.remaining)}},
        )

    async def _in_thread(self, work: Callable[[], _Value]) -> _Value:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call_journal, work)


def _checked(recovered: object) -> Recovered:
    """Return what a journal holds; raise JournalFailed where the journal returned anything else."""
    match recovered:
        case Recovered(fleet=Fleet(), revision=int(revision), warnings=tuple()) if revision >= 0:
            return recovered
    raise JournalFailed(f"the journal's load returned a {type(recovered).__name__} that is wrong: mend the journal")
