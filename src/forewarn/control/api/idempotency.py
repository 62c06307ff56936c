"""``Idempotency-Key``: a write repeated with its key is carried out once and gets the same response.

A key belongs to one principal: the token by its id, or on the unix socket the user by its uid. The command id is
derived from both, so no principal gets another's response. A command that was carried out is recorded with a
fingerprint of the request, even if it changed nothing; a refused one is not, and may be repeated.
"""

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Annotated, Any, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from litestar import Request
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, QueryParameter
from litestar.types import Message, Scope

from forewarn.control.api.problems import InvalidRequest
from forewarn.control.bodies import FieldError
from forewarn.core.access import Principal
from forewarn.core.errors import OutcomeUnknown, Refused, Unavailable
from forewarn.core.facts import Entry
from forewarn.node.node import Node
from forewarn.randomness import new_uuid
from forewarn.wire.azure_names import show_id

STREAMED = "streamed"
"""Marks a route that reads its body as a stream, because it may be larger than memory."""
_REPLAYED = (b"idempotent-replayed", b"true")
_STATE = "forewarn.write"
_Answer = TypeVar("_Answer")

_Header = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        max_length=255,
        description="Send the same key with every repetition of a request: it is then carried out once.",
    ),
]


DRY_RUN = "dry_run"
"""The parameter of every write that can be tried."""
_DryRun = Annotated[
    bool, QueryParameter(description="Change nothing, and return what the command would do: announcements, waits.")
]


def command_id(principal: Principal, key: str) -> str:
    kind, id_ = principal.identity
    return str(UUID(bytes=_hash(kind, id_, key).digest()))


def _hash(*parts: str) -> "blake2b":
    """Hash parts to 128 bits, each prefixed with its length, so that they cannot be confused."""
    hashed = blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode()
        hashed.update(len(encoded).to_bytes(8, "big") + encoded)
    return hashed


class KeyLocks:
    """One lock for each key in use: a repetition waits for the first response."""

    def __init__(self) -> None:
        self._held: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, id_: str) -> asyncio.Lock:
        lock = self._held.get(id_)
        if lock is None:
            lock = self._held[id_] = asyncio.Lock()
        return lock


class IdempotentWrite:
    """One write request with its key."""

    def __init__(
        self, principal: Principal, key: str | None, method: str, path: str, *, is_dry_run: bool = False
    ) -> None:
        key = key.strip() if key is not None else None  # the parser leaves the space after a field's value
        if key is not None and not (key and key.isascii() and key.isprintable()):
            raise InvalidRequest(FieldError("header.Idempotency-Key", "is empty or not printable ASCII; send a UUID"))
        self.has_key = key is not None
        self.by = principal.caller
        self.id = new_uuid() if key is None else command_id(principal, key)
        """The id of its command."""
        self._fingerprint = _hash(method, path)
        self.is_dry_run = is_dry_run
        """Whether nothing is to be changed: the response is what the command would do."""
        self.is_replayed = False

    def take(self, body: bytes) -> None:
        """Add a part of the body to the fingerprint."""
        self._fingerprint.update(body)

    @property
    def fingerprint(self) -> str:
        return self._fingerprint.hexdigest()

    async def once(
        self,
        node: Node,
        locks: KeyLocks,
        carry_out: Callable[[], Awaitable[_Answer]],
        replay: Callable[[Entry], Awaitable[_Answer]],
    ) -> _Answer:
        """Carry the request out, unless that was done with its key before; then return the same response."""
        if not self.has_key or self.is_dry_run:
            return await carry_out()
        async with locks.of(self.id):
            entry = await self._recorded(node)
            if entry is None or entry.request is None:
                return await carry_out()
            if entry.request.fingerprint != self.fingerprint:
                raise Refused(
                    f"this Idempotency-Key was used for another request, which was carried out: see"
                    f" GET /v1/operations/{show_id(self.id)}, or that operation in 'forewarn history --json';"
                    " use a new key only for what is to be done besides"
                )
            self.is_replayed = True
            return await replay(entry)

    async def _recorded(self, node: Node) -> Entry | None:
        try:
            return await node.writer.recorded(self.id)
        except Unavailable as error:
            raise OutcomeUnknown(
                f"it is not known whether this was recorded before: {error}; ask again with the same key"
            ) from None


IdempotencyKey = NamedDependency[IdempotentWrite]
"""Parameter of a writing route: its request with the key."""


async def provide_write(
    request: Request[Any, Any, Any],
    principal: NamedDependency[Principal],
    idempotency_key: _Header = None,
    *,
    dry_run: _DryRun = False,
) -> IdempotentWrite:
    """Return the request of a command that can be tried without being carried out."""
    return await _take(request, principal, idempotency_key, is_dry_run=dry_run)


async def provide_final_write(
    request: Request[Any, Any, Any], principal: NamedDependency[Principal], idempotency_key: _Header = None
) -> IdempotentWrite:
    """Return the request of a command that cannot be tried."""
    return await _take(request, principal, idempotency_key, is_dry_run=False)


async def _take(
    request: Request[Any, Any, Any], principal: Principal, key: str | None, *, is_dry_run: bool
) -> IdempotentWrite:
    write = IdempotentWrite(principal, key, request.method, request.scope["path"], is_dry_run=is_dry_run)
    if not request.route_handler.opt.get(STREAMED):
        write.take(await request.body())
    request.scope["state"][_STATE] = write
    return write


async def mark_replayed(message: Message, scope: Scope) -> None:
    write = scope.get("state", {}).get(_STATE)
    if message["type"] == "http.response.start" and write is not None and write.is_replayed:
        message["headers"] = [*message["headers"], _REPLAYED]
