"""What holds of applying a fleet file, whatever happened before: written from the words of the rules."""

from msgspec.structs import asdict, replace

from forewarn.core.commands import ApplyDeclaration, ChangeFleet
from forewarn.core.declared_keys import RecordKind, keys_of
from forewarn.core.facts import AnyFact, FleetChanged, FleetDeclared
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, CallerKind
from forewarn.fleetfile.diff import CurrentFleet, diff_fleet
from forewarn.fleetfile.parser import DesiredFleet

_ANN = Caller(CallerKind.OPERATOR, "ann")


def declaration(fleet: Fleet, file: ChangeFleet, id_: str, **manner: bool) -> ApplyDeclaration:
    """Return the command that applies a file."""
    wish = DesiredFleet(
        {host.name: host for host in file.hosts},
        {terms.name: terms for terms in file.groups},
        {vm.name: vm for vm in file.vms},
    )
    change = asdict(diff_fleet(wish, CurrentFleet.last_applied(fleet)))
    return replace(ApplyDeclaration(id=id_, by=_ANN, seen=fleet.last_applied.revision), **change, **manner)


def check_applied(before: Fleet, after: Fleet, file: ChangeFleet, *, exact: bool) -> None:
    """Check a file that was not refused: it is the declaration, and changed nothing that it did not change itself."""
    for terms in file.groups:
        assert after.declared(RecordKind.GROUP, terms.name) == terms
    names = {vm.name: vm for vm in file.vms}
    held = {each.name for each in after.last_applied.held if each.kind is RecordKind.VM}
    for name in {*before.vms, *after.vms, *names}:
        assert after.declared(RecordKind.VM, name) == names.get(name)
        old, new = before.vms.get(name), after.vms.get(name)
        if old and new:
            assert old.standing_on == new.standing_on, "a file moves nobody to another host"
            assert old.deallocated == new.deallocated, "a file starts nobody"
        if exact and name not in held:
            assert (new is None) == (name not in names), "what is exact has the VMs of the file"
            if new:
                wanted, has = keys_of(names[name]), keys_of(new)
                assert {**wanted, "host": ""} == {**has, "host": ""}, "what is exact equals the file but for hosts"
        elif not exact and before.declared(RecordKind.VM, name) == names.get(name) and not _was_held(before, name):
            assert old == new, "what the file did not change stays as it is"


def check_started(before: Fleet, after: Fleet, facts: tuple[AnyFact, ...]) -> None:
    """Check a start: it removes at most a fifth of the VMs, and only keys change that changed in the file."""
    file = next((fact for fact in facts if isinstance(fact, FleetDeclared)), None)
    removed = [name for fact in facts if isinstance(fact, FleetChanged) for name in fact.removed_vms]
    assert len(removed) * 5 <= len(before.vms)
    for name, old in before.vms.items():
        new = after.vms.get(name)
        if new is None or new == old or _was_held(before, name):
            continue
        declared, now = before.declared(RecordKind.VM, name), after.declared(RecordKind.VM, name)
        assert file is not None
        assert now is not None
        changed = {key for key, value in keys_of(old).items() if keys_of(new)[key] != value}
        if declared is not None:
            in_file = {key for key, value in keys_of(declared).items() if keys_of(now)[key] != value}
            assert changed <= in_file, "a key that the file did not change stays"


def _was_held(fleet: Fleet, name: str) -> bool:
    return any(each.name == name and each.kind is RecordKind.VM for each in fleet.last_applied.held)
