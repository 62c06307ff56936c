"""The targets of an import: a running service, or a fleet file."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from forewarn.control.bodies import MoveBody
from forewarn.control.client import ControlClient
from forewarn.core.errors import BadInput
from forewarn.files import sync_directory, write_atomically
from forewarn.fleetfile import formatter, parser
from forewarn.fleetfile.diff import CurrentFleet, diff_fleet
from forewarn.fleetfile.parser import DesiredFleet


class ImportTarget(Protocol):
    """Reads and replaces a fleet."""

    name: str

    def read(self) -> CurrentFleet:
        """Return the present fleet."""

    def write(self, desired: DesiredFleet, moves: Mapping[str, str] = {}) -> None:
        """Apply the desired fleet, or raise and change nothing; then record the hosts of returned VMs."""


class FileTarget:
    """A fleet file; it is rewritten completely, without its comments."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path.resolve()  # a link stays one

    def read(self) -> CurrentFleet:
        if not self._path.exists():
            return CurrentFleet()
        if not self._path.is_file():
            raise BadInput(f"{self.name} is not a regular file; name another")
        found = parser.read_fleet_file(self._path)
        return CurrentFleet(found.hosts, found.groups, found.vms)

    def write(self, desired: DesiredFleet, moves: Mapping[str, str] = {}) -> None:
        text = "\n".join(formatter.format_fleet(CurrentFleet(desired.hosts, desired.groups, desired.vms)))
        beside = self._path.with_name(f"{self._path.name}.new")
        with write_atomically(beside, 0o644) as file:
            file.write(text.encode())
        beside.replace(self._path)
        sync_directory(self._path.absolute().parent)


class ServiceTarget:
    """A running service."""

    name = "the fleet"

    def __init__(self, connect: Callable[[], AbstractContextManager[ControlClient]]) -> None:
        self._connect = connect
        self._seen = 0
        self._declared = CurrentFleet()

    def read(self) -> CurrentFleet:
        with self._connect() as client:
            pages = list(client.declared())
        self._seen = pages[0].changes
        self._declared = CurrentFleet(
            hosts={host.name: host for part in pages for host in part.hosts},
            groups={terms.name: terms for part in pages for terms in part.groups},
            vms={vm.name: vm for part in pages for vm in part.vms},
        )
        return self._declared

    def write(self, desired: DesiredFleet, moves: Mapping[str, str] = {}) -> None:
        change = diff_fleet(desired, self._declared)
        with self._connect() as client:
            if change:
                # A concurrent change increments the revision, and this change is refused.
                client.change_fleet(change, seen=self._seen)
            for vm, host in moves.items():
                # A key that was given is that of the change; to record a host again changes nothing.
                client.move_vm(vm, MoveBody(host=host, record=True), key=str(uuid4()))
