"""Which host a VM is best moved to."""

import pytest
from msgspec.structs import replace

from forewarn.core.model import Host, Vm
from forewarn.drivers.candidates import explain_no_candidate, sort_by_preference
from forewarn.node.driver import CandidateHost
from tests.drivers.impacts import impact

MOVED = Vm("web-0", "web", host="h1", update_domain=0, fault_domain=0)


def candidate(host: str, *domains: tuple[int, int], deallocated: bool = False) -> CandidateHost:
    vms = (
        Vm(f"{host}-{number}", "web", host, update_domain=update, fault_domain=fault, deallocated=deallocated)
        for number, (update, fault) in enumerate(domains)
    )
    return CandidateHost(Host(host), tuple(vms))


def order(*candidates: CandidateHost) -> list[str]:
    return [each.host.name for each in sort_by_preference(MOVED, candidates)]


def test_hardware_is_not_shared_with_another_fault_domain() -> None:
    """One VM of another fault domain weighs more than any number of another update domain."""
    assert order(candidate("h2", (0, 1)), candidate("h3", (1, 0), (1, 0))) == ["h3", "h2"]


def test_another_update_domain_is_avoided() -> None:
    """Maintenance of the host would have to go in turns."""
    assert order(candidate("h2", (1, 0)), candidate("h3", (0, 0))) == ["h3", "h2"]


def test_the_fewest_of_the_group_are_hit_together() -> None:
    """Among equals an empty host is best, then the first by name."""
    assert order(candidate("h4", (0, 0)), candidate("h3"), candidate("h2")) == ["h2", "h3", "h4"]


def test_a_deallocated_vm_is_in_nobodys_way() -> None:
    """It does not run, so it cannot fall together with another."""
    assert order(candidate("h2", (1, 1), deallocated=True), candidate("h3", (1, 0))) == ["h2", "h3"]


@pytest.mark.parametrize(
    ("placements", "target", "said"),
    [
        ({"web-0": "h2"}, "", "web-0 was planned to move to h2, which no longer accepts VMs"),
        ({}, "h3", "web-0 was planned to move to h3, which no longer accepts VMs"),
        ({"web-0": "h2"}, "h3", "web-0 was planned to move to h2, which no longer accepts VMs"),
        ({"web-1": "h2"}, "", "there is no other host to move web-0 to"),
    ],
)
def test_the_host_that_was_planned_is_named_where_it_takes_no_vm(
    placements: dict[str, str], target: str, said: str
) -> None:
    """That of the VM itself, else that of the whole event."""
    event = replace(impact().event, placements=placements, target=target)

    assert explain_no_candidate(MOVED, event).startswith(said)
