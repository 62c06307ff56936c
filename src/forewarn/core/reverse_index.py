"""Whose something is: the VM, or in rare cases the VMs, that were declared with it."""

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
