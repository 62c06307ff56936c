"""Ranks candidate hosts for moving a VM by the fault and update domains of its group."""

from collections.abc import Iterable

from forewarn.core.model import Event, Vm
from forewarn.node.driver import CandidateHost


def sort_by_preference(vm: Vm, candidates: Iterable[CandidateHost]) -> list[CandidateHost]:
    """Return the candidates, the best first.

    A VM should share hardware with no VM of another fault domain (most important) and none of another update domain;
    then the fewer VMs of its group are on the host the better.
    """
    return sorted(
        candidates, key=lambda candidate: (*count_conflicts(vm, candidate), len(candidate.vms), candidate.host.name)
    )


def explain_no_candidate(vm: Vm, event: Event) -> str:
    """Return why a VM cannot be moved: there is no other host, or the planned one no longer accepts VMs."""
    if planned := event.placements.get(vm.name) or event.target:
        return f"{vm.name} was planned to move to {planned}, which no longer accepts VMs; move it to another host"
    return f"there is no other host to move {vm.name} to; declare, repair or uncordon one"


def count_conflicts(vm: Vm, candidate: CandidateHost) -> tuple[int, int]:
    """Count the VMs of the group on the candidate that have another fault domain, and another update domain."""
    others = [other for other in candidate.vms if other.name != vm.name and not other.deallocated]
    return (
        sum(other.fault_domain != vm.fault_domain for other in others),
        sum(other.update_domain != vm.update_domain for other in others),
    )
