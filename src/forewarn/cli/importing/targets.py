"""Where an import goes: into a running service, or into a fleet file."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from forewarn.control import fleetfile, wish
from forewarn.control.bodies import MoveBody
from forewarn.control.client import Client
from forewarn.control.difference import Declared, difference
from forewarn.control.wish import Wish
from forewarn.core.errors import BadInput
from forewarn.files import sync_directory, written


class Target(Protocol):
    """Holds a fleet, and takes another one."""

    name: str

    def read(self) -> Declared:
        """Return the fleet as it is."""

    def write(self, wished: Wish, moves: Mapping[str, str] = {}) -> None:
        """Make the fleet what is wished, or raise and change nothing; then record on which hosts VMs are again."""


class FileTarget:
    """A fleet file; it is written anew as a whole, and what stood there as a comment is lost."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path.resolve()  # a link stays one

    def read(self) -> Declared:
        if not self._path.exists():
            return Declared()
        if not self._path.is_file():
            raise BadInput(f"{self.name} is no ordinary file; name another")
        found = wish.read(self._path)
        return Declared(found.hosts, found.groups, found.vms)

    def write(self, wished: Wish, moves: Mapping[str, str] = {}) -> None:
        text = "\n".join(fleetfile.lines(Declared(wished.hosts, wished.groups, wished.vms)))
        beside = self._path.with_name(f"{self._path.name}.new")
        with written(beside, 0o644) as file:
            file.write(text.encode())
        beside.replace(self._path)
        sync_directory(self._path.absolute().parent)


class ServiceTarget:
    """A service that is spoken to."""

    name = "the fleet"

    def __init__(self, connect: Callable[[], AbstractContextManager[Client]]) -> None:
        self._connect = connect
        self._seen = 0
        self._declared = Declared()

    def read(self) -> Declared:
        with self._connect() as client:
            pages = list(client.declared())
        self._seen = pages[0].changes
        self._declared = Declared(
            hosts={host.name: host for part in pages for host in part.hosts},
            groups={terms.name: terms for part in pages for terms in part.groups},
            vms={vm.name: vm for part in pages for vm in part.vms},
        )
        return self._declared

    def write(self, wished: Wish, moves: Mapping[str, str] = {}) -> None:
        change = difference(wished, self._declared)
        with self._connect() as client:
            if change:
                # What others changed since it was read makes the number another, and the change is refused.
                client.change_fleet(change, seen=self._seen)
            for vm, host in moves.items():
                client.move_vm(vm, MoveBody(host=host, record=True))
