"""Which host takes a machine in."""

from forewarn.core.model import Host, Vm
from forewarn.drivers.libvirt.rooms import Room, choose, say_no_room
from forewarn.node.driver import Berth

MIB = 1024 * 1024
WEB = Vm("web-0", "web", host="h1", update_domain=0, fault_domain=0)
OTHER = Vm("web-1", "web", host="h2", update_domain=1, fault_domain=0)
LIKE = Vm("web-2", "web", host="h3", update_domain=0, fault_domain=0)


def room(host: str, free: int, *vms: Vm) -> Room:
    return Room(Berth(Host(host), vms), free * MIB)


def chosen(*rooms: Room) -> str:
    best = choose(WEB, 100 * MIB, rooms)
    return best.host if best else ""


def test_the_one_with_the_most_room_is_chosen() -> None:
    """Among equals free memory counts, then the name."""
    assert chosen(room("h2", 200), room("h3", 300)) == "h3"
    assert chosen(room("h3", 200), room("h2", 200)) == "h2"


def test_one_that_is_too_small_is_never_chosen() -> None:
    """Exactly enough is enough; less is not."""
    assert chosen(room("h2", 99), room("h3", 100)) == "h3"
    assert chosen(room("h2", 99)) == ""


def test_a_host_of_other_domains_is_chosen_last() -> None:
    """VMs that must not fall together do not move together; those of the same domains may."""
    assert chosen(room("h2", 900, OTHER), room("h3", 200, LIKE)) == "h3"
    assert chosen(room("h2", 900, OTHER)) == "h2"


def test_the_machine_itself_is_no_reason_against_a_host() -> None:
    """One that is said to stand there already takes no turn from itself."""
    itself = Vm("web-0", "web", host="h2", update_domain=4)

    assert chosen(room("h2", 900, itself), room("h3", 800)) == "h2"


def test_the_sentence_names_every_host_and_its_room() -> None:
    """Who reads it knows which host to grow."""
    assert say_no_room(WEB, 100 * MIB, [room("h2", 9), room("h3", 0)]) == (
        "no host has the 100 MiB that web-0 needs: h2 has 9 MiB free, h3 has 0 MiB free"
    )
