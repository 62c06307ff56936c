"""VMs that leave and join groups or hosts in one change, so that each of those is rebuilt only once."""


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
        return self._leaving.keys() | self._joining.keys()

    def members_after(self, key: str, members: tuple[str, ...]) -> tuple[str, ...]:
        leaving = self._leaving.get(key)
        stay = tuple(vm for vm in members if vm not in leaving) if leaving else members
        return stay + tuple(self._joining.get(key, ()))
