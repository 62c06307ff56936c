"""Which of the other hosts a VM is best moved to, as far as its group is concerned."""

from collections.abc import Iterable

from forewarn.core.model import Event, Vm
from forewarn.node.driver import Berth


def by_preference(vm: Vm, berths: Iterable[Berth]) -> list[Berth]:
    """Return the berths, the best first.

    VMs of other fault domains must not share hardware with it, those of other update domains should not, and the
    fewer of its group are hit together the better.
    """
    return sorted(berths, key=lambda berth: (*against(vm, berth), len(berth.vms), berth.host.name))


def say_no_berth(vm: Vm, event: Event) -> str:
    """Say why a VM cannot be moved: there is no other host, or the one that was planned takes none any more."""
    if planned := event.placements.get(vm.name) or event.target:
        return f"{vm.name} was to go to {planned}, which takes no VMs any more; move it elsewhere"
    return f"there is no other host that {vm.name} could be moved to; declare, repair or uncordon one"


def against(vm: Vm, berth: Berth) -> tuple[int, int]:
    """Count the VMs of the group there that are of another fault domain, and those of another update domain."""
    others = [other for other in berth.vms if other.name != vm.name and not other.deallocated]
    return (
        sum(other.fault_domain != vm.fault_domain for other in others),
        sum(other.update_domain != vm.update_domain for other in others),
    )
