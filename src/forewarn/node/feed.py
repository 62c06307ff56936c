"""Who is told of what has been committed, and when."""

from typing import Protocol

import msgspec

from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet


class Commit(msgspec.Struct, frozen=True):
    """Entries that have become durable together, and the fleet exactly as they left it."""

    entries: tuple[Entry, ...]
    fleet: Fleet


class Listener(Protocol):
    """Follows what is committed. Called on the event loop, one after another; must not block and not raise."""

    def load(self, fleet: Fleet) -> None:
        """Forget everything and begin anew from this fleet, which is all that is durable."""

    def publish(self, commit: Commit) -> None:
        """Take in what became durable since. The fleet may be read during the call only."""


class Feed:
    """Passes every commit on to those who listen, in the order in which they subscribed."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def load(self, fleet: Fleet) -> None:
        for listener in self._listeners:
            listener.load(fleet)

    def publish(self, commit: Commit) -> None:
        for listener in self._listeners:
            listener.publish(commit)
