"""Commit feed: passes commits to listeners. A listener that fails is loaded again; the others are not affected."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Protocol, runtime_checkable

import msgspec

from forewarn.core.facts import AnyFact, Entry
from forewarn.core.fleet import Fleet

log = logging.getLogger(__name__)

_FAULTS = (Exception, asyncio.CancelledError)
"""What a listener may raise by mistake; the second comes from a future that was canceled."""


class Commit(msgspec.Struct, frozen=True, dict=True):
    """Entries that have become durable together, and the fleet exactly as they left it."""

    entries: tuple[Entry, ...]
    fleet: Fleet
    prepared: Mapping[int, object] = {}
    """What listeners made of a large change beforehand, by their identity."""

    def holds(self, kinds: Iterable[type]) -> bool:
        """Return whether any of its facts is of one of these types."""
        return not self._kinds.isdisjoint(kinds)

    @cached_property
    def _kinds(self) -> frozenset[type]:
        return frozenset([type(fact) for entry in self.entries for fact in entry.facts])


@runtime_checkable
class PreparingListener(Protocol):
    """A listener that can do a part of a long ``publish`` beforehand."""

    def prepare_commit(self, facts: tuple[AnyFact, ...], fleet: Fleet) -> object:
        """Return what ``publish`` finds in ``commit.prepared`` if these facts become durable; show nothing of it yet.

        Called in a thread beside the event loop. The fleet is what the facts make of it. Commits that are published
        meanwhile change only events and enrolment, and only in groups that the facts do not concern.
        """


class CommitListener(Protocol):
    """Follows what is committed. Called on the event loop, one after another; must not block and not raise."""

    def load(self, fleet: Fleet) -> None:
        """Forget everything and begin anew from this fleet, which is all that is durable."""

    def publish(self, commit: Commit) -> None:
        """Take in what became durable since. The fleet may be read during the call only."""


class Feed:
    """Passes every commit on to those who listen, in the order in which they subscribed."""

    def __init__(self) -> None:
        self._listeners: list[CommitListener] = []
        self._unloaded: list[CommitListener] = []
        """Those that failed, and failed again when they were loaded."""
        self._labels: dict[int, str] = {}
        self.faults: Counter[str] = Counter()
        """How often each kind of listener failed."""

    def subscribe(self, listener: CommitListener, label: str = "") -> None:
        """Add a listener; its faults are counted under ``label``, or under the name of its class."""
        self._listeners.append(listener)
        self._labels[id(listener)] = label or type(listener).__name__
        self.faults[self._labels[id(listener)]] += 0

    def unsubscribe(self, listener: CommitListener) -> None:
        """Remove a listener; how often it failed stays counted."""
        self._listeners = [each for each in self._listeners if each is not listener]
        self._unloaded = [each for each in self._unloaded if each is not listener]
        del self._labels[id(listener)]

    def load(self, fleet: Fleet) -> None:
        """Load every listener for the first time; what one of them raises keeps the service from starting."""
        for listener in self._listeners:
            listener.load(fleet)

    def reload(self, fleet: Fleet) -> None:
        """Load every listener anew, after the fleet was read anew."""
        self._unloaded.clear()
        for listener in self._listeners:
            self._reload(listener, fleet)

    def prepare_commit(self, facts: tuple[AnyFact, ...], fleet: Fleet) -> dict[int, object]:
        """Let listeners prepare a large change; one that fails still gets the commit."""
        prepared: dict[int, object] = {}
        for listener in tuple(self._listeners):
            if isinstance(listener, PreparingListener):
                try:
                    prepared[id(listener)] = listener.prepare_commit(facts, fleet)
                except _FAULTS:
                    log.exception(
                        "a listener did not prepare a large change",
                        extra={"fields": {"listener": self._labels.get(id(listener), "")}},
                    )
        return prepared

    def publish(self, commit: Commit) -> None:
        unloaded = self._unloaded.copy()
        self._unloaded.clear()
        for listener in self._listeners:
            if any(listener is each for each in unloaded):
                self._reload(listener, commit.fleet)
                continue
            try:
                listener.publish(commit)
            except _FAULTS as error:  # callers that wait for this commit are answered all the same
                self._count(listener, error)
                self._reload(listener, commit.fleet)

    def _reload(self, listener: CommitListener, fleet: Fleet) -> None:
        try:
            listener.load(fleet)
        except _FAULTS as error:  # it is loaded again with the next commit
            self._count(listener, error)
            self._unloaded.append(listener)

    def _count(self, listener: CommitListener, error: BaseException) -> None:
        name = self._labels[id(listener)]
        self.faults[name] += 1
        log.error("a listener failed and is loaded again", exc_info=error, extra={"fields": {"listener": name}})
