"""Which host takes a machine in: one with room, away from those of its group that must not fall with it. Pure."""

from collections.abc import Iterable

import msgspec

from forewarn.core.model import Vm
from forewarn.drivers.candidates import count_conflicts
from forewarn.node.driver import CandidateHost

_MIB = 1024 * 1024


class HostOption(msgspec.Struct, frozen=True):
    """A host that could take a machine in, and the bytes of memory that are free there."""

    candidate: CandidateHost
    free: int
    cpus: int = 1_000_000
    """How many more virtual CPUs it may have."""

    @property
    def host(self) -> str:
        return self.candidate.host.name


def choose_host(vm: Vm, needed: int, options: Iterable[HostOption], cpus: int = 0) -> HostOption | None:
    """Return the best host for a machine that needs so many bytes and CPUs; None where none has room.

    The fewer of its group's VMs of other fault or update domains stand there, the better; then the more is free.
    """
    fitting = [option for option in options if option.free >= needed and option.cpus >= cpus]
    return min(
        fitting, key=lambda option: (*count_conflicts(vm, option.candidate), -option.free, option.host), default=None
    )


def explain_no_host(vm: Vm, needed: int, options: Iterable[HostOption], cpus: int = 0) -> str:
    """Say why no host takes a machine in."""
    options = list(options)
    if any(option.free >= needed for option in options):
        looked = [f"{option.host} has room for {max(0, option.cpus)} more" for option in options]
        return f"no host may have the {cpus} CPUs that {vm.name} needs: {', '.join(looked)}; see cpu_ratio"
    looked = [f"{option.host} has {max(0, option.free) // _MIB} MiB free" for option in options]
    return f"no host has the {needed // _MIB} MiB that {vm.name} needs: {', '.join(looked)}"
