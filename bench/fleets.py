"""The fleets of the bench, and journals that already hold them.

The *mixed* fleet repeats blocks of 1,000 VMs: 400 standalone, 300 in 60 availability sets of 5, 300 in 3 scale sets
of 100; 20 VMs on each host; size, location, resource group and subscription as facts of each VM. The *standalone*
fleet has nothing but standalone VMs, each with a group and a vm_id of its own: the most that a VM can cost.
Every VM has an address in 127.0.0.0/8, VM 0 has 127.0.0.1, and every group is enrolled.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from uuid import UUID

from bench.processes import python
from forewarn.core.facts import AnyFact, Enrolled, Entry, FleetChanged
from forewarn.core.model import NODE, GroupKind, GroupTerms, Host, InstanceFacts, Vm
from forewarn.journal.port import Journal
from forewarn.journal.snapshot_runner import DEFAULT_HISTORY
from forewarn.journal.sqlite.journal import SqliteJournal

_BLOCK = 1_000
_PER_HOST = 20
_BATCH = 10_000
Member = Callable[[int], tuple[Vm, GroupTerms]]


def address_of(number: int) -> str:
    """Return the address of a VM."""
    high, low = divmod(number + 1, 256)
    return f"127.{high // 256}.{high % 256}.{low}"


def mixed(number: int) -> tuple[Vm, GroupTerms]:
    """Return one VM of the mixed fleet, and its group."""
    block, place = divmod(number, _BLOCK)
    if place < 400:
        return _member(number, f"db-{number}", f"db-{number}", GroupKind.STANDALONE, 0, _facts(block))
    if place < 700:
        group, member = divmod(place - 400, 5)
        name = f"web-{block}-{group}"
        return _member(number, f"{name}-{member}", name, GroupKind.AVAILABILITY_SET, member, _facts(block))
    group, member = divmod(place - 700, 100)
    name = f"workers-{block}-{group}"
    return _member(number, f"{name}_{member}", name, GroupKind.SCALE_SET, member % 5, _facts(block))


def standalone(number: int) -> tuple[Vm, GroupTerms]:
    """Return one VM of the standalone fleet, and its group."""
    name = f"vm-{number}"
    shared = _facts(number // _BLOCK)
    facts = InstanceFacts(
        vm_id=str(UUID(int=number)),
        vm_size=shared.vm_size,
        location=shared.location,
        resource_group_name=shared.resource_group_name,
        subscription_id=shared.subscription_id,
    )
    return _member(number, name, name, GroupKind.STANDALONE, 0, facts)


def _member(
    number: int, name: str, group: str, kind: GroupKind, domain: int, facts: InstanceFacts
) -> tuple[Vm, GroupTerms]:
    vm = Vm(
        name=name,
        group=group,
        host=f"host-{number // _PER_HOST}",
        update_domain=domain,
        fault_domain=domain % 3,
        address=address_of(number),
        instance=facts,
    )
    return vm, GroupTerms(group, kind)


@cache
def _facts(block: int) -> InstanceFacts:
    return InstanceFacts(
        vm_size="Standard_D4s_v5",
        location="westeurope",
        resource_group_name=f"rg-{block}",
        subscription_id=str(UUID(int=block // 100)),
    )


def _facts_of_fleet(size: int, member: Member) -> Iterator[tuple[AnyFact, ...]]:
    """Yield the facts that make a fleet, an entry's worth at a time: first what is declared, then who is enrolled."""
    hosts = (size + _PER_HOST - 1) // _PER_HOST
    yield (FleetChanged(hosts=tuple(Host(f"host-{number}") for number in range(hosts))),)
    for start in range(0, size, _BATCH):
        members = [member(number) for number in range(start, min(start + _BATCH, size))]
        groups = {terms.name: terms for _, terms in members}
        yield (FleetChanged(groups=tuple(groups.values()), vms=tuple(vm for vm, _ in members)),)
    at = datetime.now(UTC)
    first = _first_of_each_group(size, member)
    while batch := tuple(Enrolled(vm.group, at, vm.name) for vm in islice(first, _BATCH)):
        yield batch


def _first_of_each_group(size: int, member: Member) -> Iterator[Vm]:
    last = ""
    for number in range(size):
        vm, _ = member(number)
        if vm.group != last:
            last = vm.group
            yield vm


def append_fleet(journal: Journal, size: int, member: Member = mixed) -> None:
    """Append the entries that make a fleet to an empty journal."""
    for revision, facts in enumerate(_facts_of_fleet(size, member)):
        journal.append(revision, [Entry(revision + 1, datetime.now(UTC), f"{revision:032x}", NODE, facts)])


def make_journal(directory: Path, size: int, member: Member = mixed) -> Path:
    """Make a data directory whose journal holds the fleet, with a snapshot of it."""
    shutil.rmtree(directory, ignore_errors=True)
    journal = SqliteJournal(directory)
    journal.load()
    append_fleet(journal, size, member)
    journal.close()
    subprocess.run(fold_command(directory), check=True, stdout=subprocess.DEVNULL)
    return directory


def kept_journal(directory: Path, size: int, member: Member = mixed) -> Path:
    """Return a data directory with the fleet, made once for all parts that leave it as it is."""
    kept = directory.parent / f"{member.__name__}-{size}"
    return kept if kept.exists() else make_journal(kept, size, member)


def fold_command(directory: Path) -> list[str]:
    """Return the command by which the service has a snapshot taken."""
    return python("forewarn.journal.sqlite.snapshot_process", str(directory), str(DEFAULT_HISTORY.total_seconds()))
