"""Indexes of the fleet: VMs by address, tap and mark, and by group and host."""

from collections.abc import Collection, Iterator


class ReverseIndex:
    """Reverse index: value to VM names. Unshared values cost one dictionary entry each."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._others: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._first)

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)

    def __getitem__(self, owned: str) -> tuple[str, ...]:
        """Return the owners of a value, the earliest first."""
        first = self._first.get(owned)
        return () if first is None else (first, *self._others.get(owned, ()))

    @property
    def shared(self) -> Collection[str]:
        """Values with several owners."""
        return self._others.keys()

    def add(self, owned: str, name: str) -> None:
        """Add an owner; ignore empty values."""
        if owned and self._first.setdefault(owned, name) != name and name not in self._others.get(owned, ()):
            self._others[owned] = (*self._others.get(owned, ()), name)

    def discard(self, owned: str, name: str) -> None:
        """Remove an owner, if it is one."""
        left = [each for each in self[owned] if each != name]
        self._first.pop(owned, None)
        self._others.pop(owned, None)
        if left:
            self._first[owned] = left[0]
        if left[1:]:
            self._others[owned] = tuple(left[1:])


class MembershipChange:
    """Members that leave and join, by group or host."""

    def __init__(self) -> None:
        self._leaving: dict[str, set[str]] = {}
        self._joining: dict[str, list[str]] = {}

    def move(self, vm: str, source: str, target: str) -> None:
        if source != target and source:
            self._leaving.setdefault(source, set()).add(vm)
        if source != target and target:
            self._joining.setdefault(target, []).append(vm)

    def touched(self) -> Iterator[str]:
        """Yield the names in a deterministic order, and drop each when the next one is requested.

        Dropping a million at once would block other threads.
        """
        for changes in (self._leaving, self._joining):
            for name in list(changes):
                if name in changes:
                    yield name
                    self._leaving.pop(name, None)
                    self._joining.pop(name, None)

    def members_after(self, key: str, members: tuple[str, ...]) -> tuple[str, ...]:
        leaving = self._leaving.get(key)
        stay = tuple(vm for vm in members if vm not in leaving) if leaving else members
        return stay + tuple(self._joining.get(key, ()))
