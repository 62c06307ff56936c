"""The indexes of the fleet: who has an address, a tap or a mark, and which VMs are in a group or on a host."""

from collections.abc import Collection, Iterator


class ReverseIndex:
    """Names by what they own. A million that share nothing cost one dictionary."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._others: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._first)

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)

    def __getitem__(self, owned: str) -> tuple[str, ...]:
        """Return who owns it, the earliest first; nobody, if so."""
        first = self._first.get(owned)
        return () if first is None else (first, *self._others.get(owned, ()))

    @property
    def shared(self) -> Collection[str]:
        """What is owned by more than one."""
        return self._others.keys()

    def add(self, owned: str, name: str) -> None:
        """Let it be owned by one more; what is empty is nobody's."""
        if owned and self._first.setdefault(owned, name) != name and name not in self._others.get(owned, ()):
            self._others[owned] = (*self._others.get(owned, ()), name)

    def discard(self, owned: str, name: str) -> None:
        """Let it be owned by one less, if that one owned it."""
        left = [each for each in self[owned] if each != name]
        self._first.pop(owned, None)
        self._others.pop(owned, None)
        if left:
            self._first[owned] = left[0]
        if left[1:]:
            self._others[owned] = tuple(left[1:])


class MembershipChange:
    """Who leaves and who joins, by the name of the group or host."""

    def __init__(self) -> None:
        self._leaving: dict[str, set[str]] = {}
        self._joining: dict[str, list[str]] = {}

    def move(self, vm: str, source: str, target: str) -> None:
        if source != target and source:
            self._leaving.setdefault(source, set()).add(vm)
        if source != target and target:
            self._joining.setdefault(target, []).append(vm)

    def touched(self) -> set[str]:
        return {name for names in (self._leaving, self._joining) for name in names}

    def members_after(self, key: str, members: tuple[str, ...]) -> tuple[str, ...]:
        leaving = self._leaving.get(key)
        stay = tuple(vm for vm in members if vm not in leaving) if leaving else members
        return stay + tuple(self._joining.get(key, ()))
