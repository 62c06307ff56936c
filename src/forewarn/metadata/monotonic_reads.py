"""Monotonic reads: a VM that asks one node after another is never shown an older document than it has seen.

If-None-Match "web-7", and this node holds web-5 ──▶ wait for web-7, a second at most ──▶ ask the leader
"""

import asyncio
from typing import Protocol

import msgspec

from forewarn.metadata.document_cache import GroupDocuments

LONGEST_WAIT = 1.0
"""Seconds that a request waits for this node to hold what the caller has seen."""


class LeaderDocument(msgspec.Struct, frozen=True, gc=False):
    """The document of a VM as the leader has it."""

    tag: bytes
    """The ETag without its quotes."""
    rendered: bytes
    """The part of the response after the ETag."""


class LeaderDocuments(Protocol):
    """The way to the documents of the leader."""

    @property
    def is_leading(self) -> bool:
        """Whether this node leads. Another one may hold newer documents all the same, until ``confirm`` returns."""

    async def confirm(self) -> bool:
        """Return whether this node leads and holds everything that is durable; wait for what is being appended."""

    async def fetch(self, vm: str, version: int) -> LeaderDocument | None:
        """Return the document that a VM is shown in an api-version; None if that cannot be found out."""


def is_behind(documents: GroupDocuments, tags: tuple[bytes, ...]) -> bool:
    """Return whether a caller with these tags has seen a newer document than this one.

    The name in the tag does not matter: a VM that moves to another group sees a higher incarnation there.
    """
    for tag in tags:
        number = tag.rpartition(b"-")[2]
        if number.isdigit() and len(number) < 19 and int(number) > documents.incarnation:
            return True
    return False


class AwaitedChanges:
    """Requests that wait for a change of their group's document, or of their VM's group."""

    def __init__(self) -> None:
        self.groups: dict[str, set[asyncio.Future[None]]] = {}
        """Who waits, by group."""

    async def wait(self, group: str) -> None:
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self.groups.setdefault(group, set())
        waiting.add(change)
        try:
            await change
        finally:
            waiting.discard(change)
            if not waiting and self.groups.get(group) is waiting:
                del self.groups[group]

    def note(self, group: str) -> None:
        """Wake those that wait for this group."""
        for change in self.groups.pop(group, ()):
            if not change.done():
                change.set_result(None)
