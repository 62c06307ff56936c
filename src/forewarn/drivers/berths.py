"""Which of the other hosts a VM is best moved to, as far as its group is concerned."""

from collections.abc import Iterable

from forewarn.core.model import Vm
from forewarn.node.driver import Berth


def by_preference(vm: Vm, berths: Iterable[Berth]) -> list[Berth]:
    """Return the berths, the best first.

    VMs of other fault domains must not share hardware with it, those of other update domains should not, and the
    fewer of its group are hit together the better.
    """
    return sorted(berths, key=lambda berth: (*against(vm, berth), len(berth.vms), berth.host.name))


def against(vm: Vm, berth: Berth) -> tuple[int, int]:
    """Count the VMs of the group there that are of another fault domain, and those of another update domain."""
    others = [other for other in berth.vms if other.name != vm.name and not other.deallocated]
    return (
        sum(other.fault_domain != vm.fault_domain for other in others),
        sum(other.update_domain != vm.update_domain for other in others),
    )
