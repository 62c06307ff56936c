"""What VMs are known by: address, mark or tap."""

import logging

import pytest

from forewarn.core.facts import Entry, FleetChanged
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, GroupKind, GroupTerms, Interface, Vm
from forewarn.metadata.caller import CallerResolver
from forewarn.metadata.document_cache import DocumentCache
from forewarn.metadata.identity import Identity
from forewarn.node.feed import Commit
from tests.metadata.harness import NOW

GROUP = GroupTerms("web", GroupKind.AVAILABILITY_SET)
FIRST = Vm("first", "web", address="10.0.0.4", interface=Interface(tap="tap-1", mark=1))
SECOND = Vm("second", "web", address="10.0.0.4", interface=Interface(tap="tap-2", mark=2))


class IdentityHarness:
    """A document cache, and the fleet that it shows."""

    def __init__(self, identity: Identity, *vms: Vm) -> None:
        self.fleet = Fleet()
        self.document_cache = DocumentCache(lambda: 0.0, identity)
        self.document_cache.load(self.fleet)
        self.callers = CallerResolver(self.document_cache, identity=identity)
        self.change(FleetChanged(groups=(GROUP,), vms=vms))

    def change(self, fact: FleetChanged) -> None:
        self.fleet.evolve(fact)
        self.document_cache.publish(Commit((Entry(1, NOW, "command", NODE, (fact,)),), self.fleet))

    def known(self, *keys: str) -> list[str]:
        """Return the VM that each of these callers is taken for."""
        again = DocumentCache(lambda: 0.0, self.callers._identity)
        again.load(self.fleet)
        assert again.vm_entries.keys() == self.document_cache.vm_entries.keys()
        return [vm_entry.vm.name if (vm_entry := self.callers.entry_of(key)) else "" for key in keys]


@pytest.mark.parametrize(("identity", "keys"), [(Identity.MARK, ("1", "2")), (Identity.TAP, ("tap-1", "tap-2"))])
def test_equal_addresses_are_told_apart_by_the_wire(identity: Identity, keys: tuple[str, str]) -> None:
    """Each tenant is itself, and an address alone is nobody."""
    showing = IdentityHarness(identity, FIRST, SECOND)

    assert showing.known(*keys, "10.0.0.4", "3", "0", "") == ["first", "second", "", "", "", ""]


def test_an_address_that_two_vms_have_is_nobodys() -> None:
    """Either could be asking; once the other has gone it is known who does."""
    showing = IdentityHarness(Identity.ADDRESS, FIRST, SECOND)
    assert showing.known("10.0.0.4") == [""]

    showing.change(FleetChanged(removed_vms=("first",)))
    assert showing.known("10.0.0.4") == ["second"]

    showing.change(FleetChanged(vms=(FIRST,)))
    assert showing.known("10.0.0.4") == [""]


def test_a_wire_can_be_given_to_another() -> None:
    """Whoever had it is not known by it any more."""
    showing = IdentityHarness(Identity.TAP, FIRST, SECOND)
    swapped = [Vm(vm.name, "web", interface=other.interface) for vm, other in ((FIRST, SECOND), (SECOND, FIRST))]
    showing.change(FleetChanged(vms=tuple(swapped)))
    assert showing.known("tap-1", "tap-2") == ["second", "first"]

    showing.change(FleetChanged(vms=(Vm("second", "web"),)))
    assert showing.known("tap-1", "tap-2") == ["", "first"]


@pytest.mark.parametrize(
    ("identity", "key", "said"),
    [
        (
            Identity.MARK,
            "7",
            'mark=7 reason="no VM of the fleet has this mark" remedy="assign it to a VM in the fleet file"',
        ),
        (
            Identity.MARK,
            "0",
            'mark=0 reason="its packets carry no mark" remedy="run \'forewarn network check\' to check',
        ),
        (Identity.TAP, "tap-9", 'tap=tap-9 reason="no VM'),
        (
            Identity.ADDRESS,
            "10.0.0.4",
            'address=10.0.0.4 reason="several VMs have this address" remedy="distinguish them with identity',
        ),
    ],
)
def test_whoever_is_refused_is_logged_with_the_remedy(
    caplog: pytest.LogCaptureFixture, identity: Identity, key: str, said: str
) -> None:
    """Once, however often it asks."""
    showing = IdentityHarness(identity, FIRST, SECOND)
    with caplog.at_level(logging.WARNING):
        showing.callers.entry_of(key)
        showing.callers.entry_of(key)

    assert f"refused a caller {said}" in caplog.text
    assert len(caplog.messages) == 1
