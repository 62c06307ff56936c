"""Which host takes a machine in."""

from forewarn.core.model import Host, Vm
from forewarn.drivers.libvirt.host_choice import HostOption, choose_host, explain_no_host
from forewarn.node.driver import CandidateHost

MIB = 1024 * 1024
WEB = Vm("web-0", "web", host="h1", update_domain=0, fault_domain=0)
OTHER = Vm("web-1", "web", host="h2", update_domain=1, fault_domain=0)
LIKE = Vm("web-2", "web", host="h3", update_domain=0, fault_domain=0)


def option(host: str, free: int, *vms: Vm) -> HostOption:
    return HostOption(CandidateHost(Host(host), vms), free * MIB)


def chosen(*options: HostOption) -> str:
    best = choose_host(WEB, 100 * MIB, options)
    return best.host if best else ""


def test_the_one_with_the_most_room_is_chosen() -> None:
    """Among equals free memory counts, then the name."""
    assert chosen(option("h2", 200), option("h3", 300)) == "h3"
    assert chosen(option("h3", 200), option("h2", 200)) == "h2"


def test_one_that_is_too_small_is_never_chosen() -> None:
    """Exactly enough is enough; less is not."""
    assert chosen(option("h2", 99), option("h3", 100)) == "h3"
    assert chosen(option("h2", 99)) == ""


def test_a_host_of_other_domains_is_chosen_last() -> None:
    """VMs that must not fall together do not move together; those of the same domains may."""
    assert chosen(option("h2", 900, OTHER), option("h3", 200, LIKE)) == "h3"
    assert chosen(option("h2", 900, OTHER)) == "h2"


def test_the_machine_itself_is_no_reason_against_a_host() -> None:
    """One that is said to stand there already takes no turn from itself."""
    itself = Vm("web-0", "web", host="h2", update_domain=4)

    assert chosen(option("h2", 900, itself), option("h3", 800)) == "h2"


def test_the_sentence_names_every_host_and_its_room() -> None:
    """Who reads it knows which host to grow."""
    assert explain_no_host(WEB, 100 * MIB, [option("h2", 9), option("h3", 0)]) == (
        "no host has the 100 MiB that web-0 needs: h2 has 9 MiB free, h3 has 0 MiB free"
    )
