"""A draft of the fleet: its state after facts that are not committed yet.

A draft is an overlay of a committed fleet, which it never changes. It holds only what its own facts changed, so a
draft of a million VMs costs almost nothing. It is valid until that fleet changes.
"""

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from datetime import datetime
from typing import Any, TypeVar

from forewarn.core.fleet import EVICTIONS_KEPT, Fleet
from forewarn.core.fleet_index import ReverseIndex
from forewarn.core.last_applied import LastApplied

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_ABSENT: Any = object()
_PLAIN = ("last_at", "clock_step", "changes", "user_operations", "retired_incarnation", "evictions")
_LARGE = ("hosts", "groups", "vms", "_vms_on")
_INDEXES = ("addresses", "taps", "marks")
_PLAIN_OF_DECLARATION = ("revision", "digest", "source", "is_missing")


class Layer(dict[_Key, _Value]):
    """What was set or deleted over another dictionary, which stays as it is until ``merge``.

    Over an empty dictionary, as many of a fleet are, this is all that there is, as fast as any dictionary.
    """

    __slots__ = ("_base", "_gone")

    def __init__(self, base: dict[_Key, _Value]) -> None:
        super().__init__()
        self._base = base
        self._gone: set[_Key] = set()

    def merge(self) -> None:
        """Make the other dictionary what this one is; this one is not to be used any more."""
        for key in self._gone:
            del self._base[key]
        if dict.__len__(self):
            self._base.update(dict.items(self))

    @property
    def changes(self) -> int:
        """How many keys were set or deleted, about."""
        return dict.__len__(self) + len(self._gone)

    def merged(self) -> dict[_Key, _Value]:
        """Return what ``merge`` makes of the other dictionary, which stays as it is."""
        whole = self._base.copy()
        for key in self._gone:
            del whole[key]
        for key, value in dict.items(self):  # not ``update``: other threads go on meanwhile
            whole[key] = value
        return whole


class Overlay(Layer[_Key, _Value]):
    """A dictionary over another one, which stays as it is.

    It behaves and is ordered as a copy of the other one would be. Its own storage holds what was set since;
    ``_gone`` names what was deleted, also where it was set again later, at the end.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # as a dictionary

    @property
    def _is_changed(self) -> bool:
        return dict.__len__(self) > 0 or bool(self._gone)

    def __missing__(self, key: _Key) -> _Value:
        if key in self._gone:
            raise KeyError(key)
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or (key in self._base and key not in self._gone)

    def __len__(self) -> int:
        return len(self._base) - len(self._gone) + sum(1 for _ in self._added())

    def __bool__(self) -> bool:
        return dict.__len__(self) > 0 or len(self._base) > len(self._gone)

    def __iter__(self) -> Iterator[_Key]:
        yield from (key for key in self._base if key not in self._gone) if self._gone else self._base
        yield from self._added()

    def __reversed__(self) -> Iterator[_Key]:
        yield from reversed(list(self._added()))
        yield from (key for key in reversed(self._base) if key not in self._gone)

    def __eq__(self, other: object) -> bool:
        return dict(self.items()) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __delitem__(self, key: _Key) -> None:
        was_set = dict.pop(self, key, _ABSENT) is not _ABSENT
        if key in self._base and key not in self._gone:
            self._gone.add(key)
        elif not was_set:
            raise KeyError(key)

    def get(self, key: _Key, default: Any = None) -> Any:
        found = dict.get(self, key, _ABSENT)
        if found is not _ABSENT:
            return found
        return default if key in self._gone else self._base.get(key, default)

    def pop(self, key: _Key, default: Any = _ABSENT) -> Any:
        found = self.get(key, _ABSENT)
        if found is _ABSENT:
            if default is _ABSENT:
                raise KeyError(key)
            return default
        del self[key]
        return found

    def setdefault(self, key: _Key, default: Any = None) -> Any:
        found = self.get(key, _ABSENT)
        if found is _ABSENT:
            self[key] = found = default
        return found

    def keys(self) -> Any:
        return KeysView(self) if self._is_changed else self._base.keys()

    def values(self) -> Any:
        return ValuesView(self) if self._is_changed else self._base.values()

    def items(self) -> Any:
        return ItemsView(self) if self._is_changed else self._base.items()

    def copy(self) -> dict[_Key, _Value]:
        return self.merged()

    def clear(self) -> None:
        dict.clear(self)
        self._gone.update(self._base)

    def popitem(self) -> tuple[_Key, _Value]:
        for key in reversed(self):
            return key, self.pop(key)
        raise KeyError("it is empty")

    def _added(self) -> Iterator[_Key]:
        """Yield what stands after the keys of the other one, in the order in which it was set."""
        return (key for key in dict.__iter__(self) if key not in self._base or key in self._gone)


class _OverlayOfDicts(Overlay[_Key, dict[str, _Value]]):
    """An overlay of dictionaries that are changed in place: each is copied before it is handed out by its key."""

    __slots__ = ()

    def __missing__(self, key: _Key) -> dict[str, _Value]:
        self[key] = copied = super().__missing__(key).copy()
        return copied

    def setdefault(self, key: _Key, default: Any = None) -> Any:
        if (own := dict.get(self, key)) is not None:
            return own
        if key not in self:
            self[key] = default
        return self[key]


class DraftFleet(Fleet):
    """A fleet that runs ahead of a committed one and leaves that one as it is, until it is merged into it."""

    def __init__(self, base: Fleet) -> None:
        self._base = base
        self._overlays: list[Layer[Any, Any]] = []
        over = self._over
        self.hosts = over(base.hosts)
        self.groups = over(base.groups)
        self.vms = over(base.vms)
        self.events = Overlay(base.events)  # events may come below while a large change is decided
        self.addresses = self._index_over(base.addresses)
        self.taps = self._index_over(base.taps)
        self.marks = self._index_over(base.marks)
        self.tokens = over(base.tokens)
        self.subscriptions = over(base.subscriptions)
        self.last_applied = last = LastApplied.__new__(LastApplied)
        _set_plain(last, base.last_applied, _PLAIN_OF_DECLARATION)
        last.differing = {kind: over(differing) for kind, differing in base.last_applied.differing.items()}
        last.waiting = over(base.last_applied.waiting)
        last.guarded = over(base.last_applied.guarded)
        _set_plain(self, base, _PLAIN)
        self._has_own_evictions = False
        self._user_operations_below = base.user_operations
        self.host_states = over(base.host_states)
        self.cordoned = over(base.cordoned)
        self.power_requests = over(base.power_requests)
        self.crashed = over(base.crashed)
        self.stopped = over(base.stopped)
        self.rollouts = over(base.rollouts)
        self.rollout_hosts = over(base.rollout_hosts)
        self.rollout_events = over(base.rollout_events)
        self._vms_on = over(base._vms_on)
        self._events_of = _OverlayOfDicts(base._events_of)
        self._overlays += (self.events, self._events_of)
        self.overtaken: set[str] = set()
        """The groups of which events or enrolment changed below since the facts of this one were decided."""
        self._merged: dict[int, dict[Any, Any]] = {}
        """What was merged aside, by the identity of the overlay."""

    def prepare(self, least: int) -> None:
        """Merge aside what at least so many changes make slow to merge, so that ``merge`` only has to swap it.

        It may be done in another thread. Until then only events and the enrolment of other groups may change below.
        """
        for _, _, overlay in self._swappable():
            if overlay.changes >= least:
                self._merged[id(overlay)] = overlay.merged()

    def rebase(self, decided_at: datetime) -> None:
        """Take in what changed below since, in groups other than those of this one's facts: see ``overtaken``."""
        base = self._base
        self.user_operations += base.user_operations - self._user_operations_below
        self._user_operations_below = base.user_operations
        has_forgotten, self._has_own_evictions = self._has_own_evictions, False
        self.evictions = base.evictions
        if has_forgotten:
            self._forget_evictions(decided_at)

    def merge(self) -> None:
        """Make the fleet below what this one is, as its facts would; this one is not to be used any more."""
        if self._merged:
            groups = self._merged.get(id(self.groups), {})
            groups.update((name, self._base.groups[name]) for name in self.overtaken)
            for holder, name, overlay in self._swappable():
                if (whole := self._merged.get(id(overlay))) is not None:
                    holder[name], self._merged[id(overlay)] = whole, holder[name]
        for overlay in self._overlays:
            if id(overlay) not in self._merged:
                overlay.merge()
        _set_plain(self._base, self, _PLAIN)
        _set_plain(self._base.last_applied, self.last_applied, _PLAIN_OF_DECLARATION)

    def dissolve(self) -> list[object]:
        """Return the parts of a draft that is not used any more, to be freed from the last to the first."""
        parts: list[object] = [*self._merged.values(), *(each._gone for each in self._overlays), *self._overlays]
        vars(self).clear()
        return parts

    def _swappable(self) -> Iterator[tuple[dict[Any, Any], Any, Layer[Any, Any]]]:
        """Yield the large overlays, each with the dictionary and the key that hold the dictionary below it."""
        base, last = self._base, self.last_applied
        below: Any
        own: Any
        for below, own in ((base, self), *((getattr(base, name), getattr(self, name)) for name in _INDEXES)):
            for name in _LARGE if own is self else ("_first", "_others"):
                yield vars(below), name, getattr(own, name)
        for kind, overlay in last.differing.items():
            yield base.last_applied.differing, kind, overlay  # type: ignore[misc]  # a draft's are overlays

    def _over(self, base: dict[_Key, _Value]) -> Layer[_Key, _Value]:
        overlay = Overlay(base) if base else Layer(base)
        self._overlays.append(overlay)
        return overlay

    def _index_over(self, base: ReverseIndex) -> ReverseIndex:
        index = ReverseIndex.__new__(ReverseIndex)
        index._first, index._others = self._over(base._first), self._over(base._others)
        return index

    def _note_eviction(self, vm: str, at: datetime | None) -> None:
        if at:
            self._copy_evictions()
        super()._note_eviction(vm, at)

    def _forget_evictions(self, now: datetime) -> None:
        if self.evictions and self.evictions[0].at <= now - EVICTIONS_KEPT:
            self._copy_evictions()
            super()._forget_evictions(now)

    def _copy_evictions(self) -> None:
        if not self._has_own_evictions:
            self.evictions = self.evictions.copy()
            self._has_own_evictions = True


def _set_plain(to: object, source: object, names: tuple[str, ...]) -> None:
    for name in names:
        setattr(to, name, getattr(source, name))
