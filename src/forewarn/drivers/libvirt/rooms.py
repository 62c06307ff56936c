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

    @property
    def host(self) -> str:
        return self.berth.host.name


def choose(vm: Vm, needed: int, rooms: Iterable[Room]) -> Room | None:
    """Return the best host for a machine that needs so many bytes; None where none has room.

    The fewer of its group's VMs of other fault or update domains stand there, the better; then the more is free.
    """
    fitting = [room for room in rooms if room.free >= needed]
    return min(fitting, key=lambda room: (*against(vm, room.berth), -room.free, room.host), default=None)


def say_no_room(vm: Vm, needed: int, rooms: Iterable[Room]) -> str:
    """Say why no host takes a machine in."""
    looked = [f"{room.host} has {room.free // _MIB} MiB free" for room in rooms]
    return f"no host has the {needed // _MIB} MiB that {vm.name} needs: {', '.join(looked)}"
