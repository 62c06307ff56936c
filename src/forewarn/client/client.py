"""The blocking client for programs in a VM: read, follow, approve and postpone events."""

import os
import threading
from collections.abc import Generator
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Self, TypeVar

from forewarn.client.changes import Change, changes
from forewarn.client.connection import BlockingConnection
from forewarn.client.document_follower import DocumentFollower
from forewarn.client.errors import Closed
from forewarn.client.session import ClientSession, SessionState
from forewarn.client.steps import CallBlocking, Pause, SendRequest, Steps
from forewarn.wire.document import Document, ScheduledEvent

if TYPE_CHECKING:
    from forewarn.client.effects import Effect

_Result = TypeVar("_Result")
PATIENCE = timedelta(minutes=2)


class Client(SessionState):
    """A client of a Scheduled Events service: Azure's or Forewarn's.

    Without ``url`` the service is discovered; without an api-version the newest that the service knows is used.
    Calls are retried for ``patience``, and for ``unreachable_patience`` (default: the same) while no service can be
    reached. Threads may share a client.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_version: str | None = None,
        patience: timedelta = PATIENCE,
        unreachable_patience: timedelta | None = None,
    ) -> None:
        self.session = ClientSession(url, api_version, patience, unreachable_patience, os.environ)
        self._connections: set[BlockingConnection] = set()
        self._closing = threading.Event()
        self._turn = threading.Lock()
        self._connection = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The URL of the document, without the api-version; the service is discovered at the first use."""
        return self._run(self.session.find(), self._connection).endpoint.url

    def document(self) -> Document:
        """Return all events that this VM can see."""
        return self._run(self.session.document(), self._connection)

    def ask(self) -> bytes:
        """Return the document unchanged, with one request: any problem is raised without a retry."""
        return self._run(self.session.ask(), self._connection).body

    def approve(self, *events: ScheduledEvent | str) -> None:
        """Approve events, for all their resources; raise UnknownEvent if one no longer exists."""
        self._run(self.session.approve(events), self._connection)

    def wait_for_start(
        self, *events: ScheduledEvent | str, within: timedelta = timedelta(minutes=1)
    ) -> "dict[str, Effect]":
        """Wait until approved events have started or ended, at most ``within``; return the effects by id."""
        from forewarn.client.effects import wait_for_effects  # noqa: PLC0415 - rarely used

        return self._run(wait_for_effects(self.session, events, within), self._connection)

    def postpone(self, event: ScheduledEvent | str, by: timedelta, reason: str = "") -> None:
        """Postpone an event; raise NotPostponed if the service does not allow it. Azure never does."""
        self._run(self.session.postpone(event, by, reason), self._connection)

    def own_name(self) -> str:
        """Return the name of this VM in events."""
        return self._run(self.session.own_name(), self._connection)

    def does_hold(self) -> bool:
        """Return whether the service supports long polling; the check takes a second."""
        return self._run(self.session.does_hold(), self._connection)

    def documents(self) -> Generator[Document, None, None]:
        """Yield the current document, then each changed one, until the client is closed; problems are retried."""
        following = DocumentFollower(self.session)
        wire = self._open()
        try:
            while True:
                yield self._run(following.next(), wire)
        except Closed:
            return
        finally:
            wire.end()
            self._connections.discard(wire)

    def watch(self) -> Generator[Change, None, None]:
        """Yield changes of events, the current events first, until the client is closed."""
        before: Document | None = None
        for document in self.documents():
            yield from changes(before, document)
            before = document

    def close(self) -> None:
        """Close all connections; calls that wait in other threads end."""
        self._closing.set()
        for wire in tuple(self._connections):
            wire.end()

    def _open(self) -> BlockingConnection:
        wire = BlockingConnection()
        self._connections.add(wire)
        return wire

    def _run(self, steps: Steps[_Result], wire: BlockingConnection) -> _Result:
        reply: object = None
        try:
            while True:
                step = steps.send(reply)
                match step:
                    case SendRequest() if wire is self._connection:
                        with self._turn:
                            reply = wire.exchange(step)
                    case SendRequest():
                        reply = wire.exchange(step)
                    case Pause():
                        reply = self._pause(step)
                    case CallBlocking(call):
                        reply = call()
                if self._closing.is_set():
                    raise Closed
        except StopIteration as end:
            result: _Result = end.value
            return result

    def _pause(self, pause: Pause) -> object:
        return any(map(self._closing.wait, pause.slices(monotonic)))
