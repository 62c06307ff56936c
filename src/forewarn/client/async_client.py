"""The asyncio client. The rules are in ``session.py``; this module only sends and receives."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Self, TypeVar

from forewarn.client.async_connection import AsyncConnection
from forewarn.client.changes import Change, changes
from forewarn.client.client import PATIENCE
from forewarn.client.document_follower import DocumentFollower
from forewarn.client.errors import Closed, WrongLoop
from forewarn.client.session import ClientSession, SessionState
from forewarn.client.steps import CallBlocking, Pause, SendRequest, Steps
from forewarn.wire.document import Document, ScheduledEvent

if TYPE_CHECKING:
    from forewarn.client.effects import Effect

_Result = TypeVar("_Result")


class AsyncClient(SessionState):
    """The same as ``Client``, on an event loop. Tasks of one loop may share a client."""

    def __init__(
        self,
        url: str | None = None,
        *,
        api_version: str | None = None,
        patience: timedelta = PATIENCE,
        unreachable_patience: timedelta | None = None,
    ) -> None:
        self.session = ClientSession(url, api_version, patience, unreachable_patience, os.environ)
        self._connections: dict[AsyncConnection, None] = {}
        self._closing = asyncio.Event()
        self._turn = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection = self._open()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def url(self) -> str:
        """Return the URL of the document, without the api-version; the service is discovered at the first call."""
        return (await self._run(self.session.find(), self._connection)).endpoint.url

    async def document(self) -> Document:
        """Return all events that this VM can see."""
        return await self._run(self.session.document(), self._connection)

    async def ask(self) -> bytes:
        """Return the document unchanged, with one request: any problem is raised without a retry."""
        return (await self._run(self.session.ask(), self._connection)).body

    async def approve(self, *events: ScheduledEvent | str) -> None:
        """Approve events, for all their resources; raise UnknownEvent if one no longer exists."""
        await self._run(self.session.approve(events), self._connection)

    async def wait_for_start(
        self, *events: ScheduledEvent | str, within: timedelta = timedelta(minutes=1)
    ) -> "dict[str, Effect]":
        """Wait until approved events have started or ended, at most ``within``; return the effects by id."""
        from forewarn.client.effects import wait_for_effects  # noqa: PLC0415 - rarely used

        return await self._run(wait_for_effects(self.session, events, within), self._connection)

    async def postpone(self, event: ScheduledEvent | str, by: timedelta, reason: str = "") -> None:
        """Postpone an event; raise NotPostponed if the service does not allow it. Azure never does."""
        await self._run(self.session.postpone(event, by, reason), self._connection)

    async def own_name(self) -> str:
        """Return the name of this VM in events."""
        return await self._run(self.session.own_name(), self._connection)

    async def does_hold(self) -> bool:
        """Return whether the service supports long polling; the check takes a second."""
        return await self._run(self.session.does_hold(), self._connection)

    async def documents(self) -> AsyncGenerator[Document, None]:
        """Yield the current document, then each changed one, until the client is closed; problems are retried."""
        following = DocumentFollower(self.session)
        wire = self._open()
        try:
            while True:
                yield await self._run(following.next(), wire)
        except Closed:
            return
        finally:
            wire.end()
            self._connections.pop(wire, None)

    async def watch(self) -> AsyncGenerator[Change, None]:
        """Yield changes of events, the current events first, until the client is closed."""
        before: Document | None = None
        async for document in self.documents():
            for change in changes(before, document):
                yield change
            before = document

    async def aclose(self) -> None:
        """Close all connections; calls that wait in other tasks end."""
        self._check_loop()
        self._closing.set()
        for wire in tuple(self._connections):
            wire.end()

    def _make_connection(self) -> AsyncConnection:
        return AsyncConnection()

    def _open(self) -> AsyncConnection:
        wire = self._make_connection()
        self._connections[wire] = None
        return wire

    async def _run(self, steps: Steps[_Result], wire: AsyncConnection) -> _Result:
        self._check_loop()
        reply: object = None
        try:
            while True:
                step = steps.send(reply)
                match step:
                    case SendRequest() if wire is self._connection:
                        async with self._turn:
                            reply = await wire.exchange(step)
                    case SendRequest():
                        reply = await wire.exchange(step)
                    case Pause():
                        await self._pause(step)
                        reply = None
                    case CallBlocking(call):
                        reply = await asyncio.to_thread(call)
                if self._closing.is_set():
                    raise Closed
        except StopIteration as end:
            result: _Result = end.value
            return result

    async def _pause(self, pause: Pause) -> None:
        for seconds in pause.slices(asyncio.get_running_loop().time):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._closing.wait()
                    return

    def _check_loop(self) -> None:
        running = asyncio.get_running_loop()
        self._loop = self._loop or running
        if self._loop is not running:
            raise WrongLoop
