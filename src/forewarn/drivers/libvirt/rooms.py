"""Which host takes a machine in: one with room, away from those of its group that must not fall with it. Pure."""

from collections.abc import Iterable

import msgspec

from forewarn.core.model import Vm
from forewarn.drivers.berths import against
from forewarn.node.driver import Berth

_MIB = 1024 * 1024


class Room(msgspec.Struct, frozen=True):
    """A host that could take a machine in, and the bytes of memory that are free there."""

    berth: Berth
    free: int
    cpus: int = 1_000_000
    """How many more virtual CPUs it may have."""

    @property
    def host(self) -> str:
        return self.berth.host.name


def choose(vm: Vm, needed: int, rooms: Iterable[Room], cpus: int = 0) -> Room | None:
    """Return the best host for a machine that needs so many bytes and CPUs; None where none has room.

    The fewer of its group's VMs of other fault or update domains stand there, the better; then the more is free.
    """
    fitting = [room for room in rooms if room.free >= needed and room.cpus >= cpus]
    return min(fitting, key=lambda room: (*against(vm, room.berth), -room.free, room.host), default=None)


def say_no_room(vm: Vm, needed: int, rooms: Iterable[Room], cpus: int = 0) -> str:
    """Say why no host takes a machine in."""
    rooms = list(rooms)
    if any(room.free >= needed for room in rooms):
        looked = [f"{room.host} has room for {max(0, room.cpus)} more" for room in rooms]
        return f"no host may have the {cpus} CPUs that {vm.name} needs: {', '.join(looked)}; see cpu_ratio"
    looked = [f"{room.host} has {max(0, room.free) // _MIB} MiB free" for room in rooms]
    return f"no host has the {needed // _MIB} MiB that {vm.name} needs: {', '.join(looked)}"
