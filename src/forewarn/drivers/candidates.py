"""Which of the other hosts a VM is best moved to, as far as its group is concerned."""

from collections.abc import Iterable

from forewarn.core.model import Event, Vm
from forewarn.node.driver import CandidateHost


def sort_by_preference(vm: Vm, candidates: Iterable[CandidateHost]) -> list[CandidateHost]:
    """Return the berths, the best first.

    VMs of other fault domains must not share hardware with it, those of other update domains should not, and the
    fewer of its group are hit together the better.
    """
    return sorted(
        candidates, key=lambda candidate: (*count_conflicts(vm, candidate), len(candidate.vms), candidate.host.name)
    )


def explain_no_candidate(vm: Vm, event: Event) -> str:
    """Say why a VM cannot be moved: there is no other host, or the one that was planned takes none any more."""
    if planned := event.placements.get(vm.name) or event.target:
        return f"{vm.name} was to go to {planned}, which takes no VMs any more; move it elsewhere"
    return f"there is no other host that {vm.name} could be moved to; declare, repair or uncordon one"


def count_conflicts(vm: Vm, candidate: CandidateHost) -> tuple[int, int]:
    """Count the VMs of the group there that are of another fault domain, and those of another update domain."""
    others = [other for other in candidate.vms if other.name != vm.name and not other.deallocated]
    return (
        sum(other.fault_domain != vm.fault_domain for other in others),
        sum(other.update_domain != vm.update_domain for other in others),
    )
