"""Follows the leader: takes entries in before they may be shown, and shows them when every worker holds them.

Entries ──▶ evolve a draft ──▶ Applied            the shown revision rises
                  │                                         │
                  └───────── pending ◀── before each answer ┴──▶ merge, publish, answer long polls
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from forewarn.core.draft import DraftFleet
from forewarn.core.facts import Entry
from forewarn.journal.port import Journal
from forewarn.node.followed_entries import FollowedEntries, prepare
from forewarn.node.large_change import LargeChangeSizes
from forewarn.node.replica import Replica

_BUSY_EVERY = 0.2
"""Seconds between signs of life while a large change is taken in."""


class CannotFollow(Exception):
    """The worker cannot apply what the leader sent; it must end."""


class FellBehind(CannotFollow):
    """Something may be shown that this worker does not hold; it must end."""


class Follower:
    """Keeps a replica at the shown revision, and what comes after it aside.

    The leader sends the next entries only after it has shown those before, so that at most one draft is pending.
    """

    def __init__(
        self,
        replica: Replica,
        journal: Journal,
        shown: Sequence[int],
        *,
        applied: Callable[[int], None],
        busy: Callable[[], None],
        failed: Callable[[CannotFollow], None],
        sizes: LargeChangeSizes | None = None,
    ) -> None:
        """``shown`` has one item, the shown revision. ``applied`` is called with each revision that can be shown.

        ``busy`` is called from time to time while a large change is taken in, ``failed`` where that was not possible.
        """
        self.replica = replica
        self._journal = journal
        self._shown = shown
        self._applied = applied
        self._busy = busy
        self._failed = failed
        self._sizes = sizes or LargeChangeSizes()
        self._pending: FollowedEntries | None = None
        self._orders: deque[tuple[Entry, ...] | int] = deque()
        """Entries, or revisions to read to, that came while the journal was read."""
        self._reading: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large-change")

    @property
    def revision(self) -> int:
        """The revision that is shown here."""
        return self.replica.revision

    @property
    def known(self) -> int:
        """The last revision that can be shown."""
        return self._pending.revision if self._pending else self.replica.revision

    def catch_up(self) -> None:
        """Show what may be shown; call it before each answer. Raise FellBehind if this worker does not hold it."""
        shown = self._shown[0]
        if shown <= self.replica.revision:
            return
        pending, self._pending = self._pending, None
        if pending is None or pending.revision != shown:
            raise FellBehind(f"revision {shown} is shown, and this worker holds {self.known}")
        pending.apply(self.replica)
        if pending.prepared:
            asyncio.get_running_loop().run_in_executor(self._thread, pending.discard)

    def show(self) -> None:
        """Show what may be shown, unless a worker that joins is still reading it: that one answers no request yet."""
        if self._reading is None or self._shown[0] <= self.known:
            self.catch_up()

    def take(self, entries: tuple[Entry, ...]) -> None:
        """Take in the entries that follow; they are shown when ``catch_up`` finds that they may be."""
        if self._reading:
            self._orders.append(entries)
        else:
            self._take(entries)

    def read_to(self, revision: int) -> None:
        """Take in what the journal holds up to a revision, beside the answers to VMs."""
        self._orders.append(revision)
        if not self._reading:
            self._reading = asyncio.create_task(self._work_off())

    async def close(self) -> None:
        if self._reading:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading
        self._thread.shutdown()

    def _take(self, entries: Sequence[Entry]) -> None:
        self._show_held()
        new = [entry for entry in entries if entry.revision > self.known]
        # A worker that joins reads entries that are shown already; it answers no request yet.
        if shown := [entry for entry in new if entry.revision <= self._shown[0]]:
            self.replica.apply(shown)
        if coming := new[len(shown) :]:
            draft = DraftFleet(self.replica.fleet)
            for entry in coming:
                draft.enter(entry)
            self._pending = FollowedEntries(coming, draft)
        self._applied(self.known)

    def _show_held(self) -> None:
        if self._pending and self._pending.revision <= self._shown[0]:
            self.catch_up()

    async def _work_off(self) -> None:
        signs = asyncio.create_task(self._give_signs())
        try:
            while self._orders:
                order = self._orders.popleft()
                if isinstance(order, tuple):
                    self._take(order)
                elif order > self.known:
                    await self._read(order)
                else:
                    self._applied(self.known)
        except CannotFollow as error:
            self._failed(error)
        except Exception as error:  # noqa: BLE001 - a journal may be third-party code
            self._failed(CannotFollow(f"the journal was not read: {error}"))
        finally:
            self._reading = None
            signs.cancel()

    async def _read(self, revision: int) -> None:
        self._show_held()
        loop = asyncio.get_running_loop()
        known = self.known
        entries = await loop.run_in_executor(
            self._thread, lambda: list(self._journal.entries(known, revision - known))
        )
        if not entries or entries[-1].revision != revision:
            raise CannotFollow(f"the journal does not hold revision {revision}")
        if self._shown[0] > known:
            self._take(entries)
        else:
            self._pending = await loop.run_in_executor(self._thread, prepare, self.replica, entries, self._sizes)
            self._applied(self.known)

    async def _give_signs(self) -> None:
        while True:
            self._busy()
            await asyncio.sleep(_BUSY_EVERY)
