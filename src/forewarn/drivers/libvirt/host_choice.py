"""Choice of the target host for a machine: capacity first, then fault and update domains of its group. Pure."""

from collections.abc import Iterable

import msgspec

from forewarn.core.model import Vm
from forewarn.drivers.candidates import count_conflicts
from forewarn.node.driver import CandidateHost

_MIB = 1024 * 1024


class HostOption(msgspec.Struct, frozen=True):
    """A candidate host with its free memory in bytes."""

    candidate: CandidateHost
    free: int
    cpus: int = 1_000_000
    """Number of further virtual CPUs that it may run."""

    @property
    def host(self) -> str:
        return self.candidate.host.name


def choose_host(vm: Vm, needed: int, options: Iterable[HostOption], cpus: int = 0) -> HostOption | None:
    """Return the best host for a machine that needs so much memory and so many CPUs; None if none has room.

    Hosts with fewer VMs of the group in other fault or update domains come first, then those with more free memory.
    """
    fitting = [option for option in options if option.free >= needed and option.cpus >= cpus]
    return min(
        fitting, key=lambda option: (*count_conflicts(vm, option.candidate), -option.free, option.host), default=None
    )


def explain_no_host(vm: Vm, needed: int, options: Iterable[HostOption], cpus: int = 0) -> str:
    """Return why no host has room for a machine."""
    options = list(options)
    if any(option.free >= needed for option in options):
        looked = [f"{option.host} has room for {max(0, option.cpus)} more" for option in options]
        return f"no host has the {cpus} CPUs that {vm.name} needs: {', '.join(looked)}; free some, or raise cpu_ratio"
    looked = [f"{option.host} has {max(0, option.free) // _MIB} MiB free" for option in options]
    return f"no host has the {needed // _MIB} MiB that {vm.name} needs: {', '.join(looked)}"
