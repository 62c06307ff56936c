"""Applies a fleet file, and later the changes that were held."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain

from forewarn.core.addresses import check_addresses
from forewarn.core.commands import ApplyDeclaration
from forewarn.core.declared_keys import (
    DeclaredRecord,
    HeldChange,
    RecordKind,
    RecordName,
    declared_form,
    kind_of,
    with_keys,
)
from forewarn.core.errors import Refused
from forewarn.core.facts import AnyFact, ChangesHeld, FleetDeclared
from forewarn.core.fleet import Fleet
from forewarn.core.fleet_changes import cancel_abandoned, index_by_name
from forewarn.core.model import EventStatus, GroupTerms, Host, Vm
from forewarn.core.reconcile import ApplyMode, DeclarationPlan, DesiredRecords, plan

_SHOWN = 5
"""Maximum number of reasons in a refusal."""


def apply_declaration(fleet: Fleet, command: ApplyDeclaration, now: datetime) -> Iterator[AnyFact]:
    """Carry out the changes of the file. At a start, blocked changes are held and conflicting entries left out."""
    made = plan_declaration(fleet, command)
    if not command.is_start:
        _refuse(made)
    yield from _carry_out(fleet, made, now)
    yield from _record(fleet, command, made)
    yield from _hold(made)


def plan_declaration(fleet: Fleet, command: ApplyDeclaration) -> DeclarationPlan:
    """Return what a file would change, without changing anything."""
    revision = fleet.last_applied.revision
    if command.seen != revision:
        raise Refused(
            f"another fleet file was applied in the meantime: the declaration has revision {revision}, "
            f"not {command.seen}; look at it and apply again"
        )
    mode = ApplyMode(
        exact=command.exact, cancel_events=command.cancel_events, yes=command.yes, is_start=command.is_start
    )
    return plan(fleet, _wanted(fleet, command), mode)


def retry_held(fleet: Fleet, now: datetime) -> Iterator[AnyFact]:
    """Carry out held changes that are no longer blocked."""
    made = plan(fleet, {}, ApplyMode())
    yield from _carry_out(fleet, made, now)
    yield from _hold(made)


def _wanted(fleet: Fleet, command: ApplyDeclaration) -> DesiredRecords:
    """Return the difference between the file and the declaration last applied."""
    check_addresses(index_by_name("VM", command.vms))
    wanted: DesiredRecords = {}
    given: Iterable[DeclaredRecord] = chain(
        index_by_name("host", command.hosts).values(), index_by_name("group", command.groups).values(), command.vms
    )
    for record in given:
        key = kind_of(record), record.name
        form = declared_form(record)
        if fleet.declared(*key) != form:
            wanted[key] = form
    removed = (
        (RecordKind.HOST, command.removed_hosts),
        (RecordKind.GROUP, command.removed_groups),
        (RecordKind.VM, command.removed_vms),
    )
    for kind, names in removed:
        for name in names:
            if (kind, name) in wanted:
                raise Refused(f"{kind} {name!r} is both declared and removed")
            if fleet.declared(kind, name) is not None:
                wanted[kind, name] = None
    return wanted


def _refuse(made: DeclarationPlan) -> None:
    said = [each.said for each in made.conflicts]
    for blocked in made.blocked:
        event = blocked.event
        state = "which has started" if event.status is EventStatus.STARTED else "which is unfinished"
        said.append(f"VM {blocked.vm!r} has event {event.id}, {state}; wait until it ends, or pass --cancel-events")
    if said:
        more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
        raise Refused(f"nothing was changed: {'; '.join(said[:_SHOWN])}{more}")


def _carry_out(fleet: Fleet, made: DeclarationPlan, now: datetime) -> Iterator[AnyFact]:
    yield from cancel_abandoned(fleet, made.leaving, now, "the fleet file changed the VM's place")
    if change := made.change.fact(fleet, at_run_time=False):
        yield change


def _record(fleet: Fleet, command: ApplyDeclaration, made: DeclarationPlan) -> Iterator[FleetDeclared]:
    last = fleet.last_applied
    left_out = tuple(made.conflicts)
    out = {(each.kind, each.name) for each in left_out}
    wanted = {key: record for key, record in made.wanted.items() if key not in out}
    wanted |= {
        key: _as_it_stands(fleet, held) for key in made.wanted if key in out and (held := last.held_change(*key))
    }
    if not last.covers_fleet:
        wanted = dict(_unlike_fleet(fleet, made, wanted))
    records = wanted.values()
    gone = [key for key, record in wanted.items() if record is None]
    fact = FleetDeclared(
        revision=last.revision + 1,
        digest="" if left_out else command.digest,
        source=command.source,
        hosts=tuple(each for each in records if isinstance(each, Host)),
        groups=tuple(each for each in records if isinstance(each, GroupTerms)),
        vms=tuple(each for each in records if isinstance(each, Vm)),
        removed_hosts=tuple(name for kind, name in gone if kind is RecordKind.HOST),
        removed_groups=tuple(name for kind, name in gone if kind is RecordKind.GROUP),
        removed_vms=tuple(name for kind, name in gone if kind is RecordKind.VM),
        replaced=tuple(chain.from_iterable(made.replaced.values())),
        left_out=left_out,
    )
    same = FleetDeclared(revision=last.revision + 1, digest=last.digest, source=last.source)
    if fact != same or not last.revision:
        yield fact


def _as_it_stands(fleet: Fleet, held: HeldChange) -> DeclaredRecord | None:
    """Return the declared record after a held change was dropped, so that the next file changes it again."""
    match fleet.declared(*held.key), fleet.record_of(*held.key):
        case Vm() as declared_vm, Vm() as vm if held.keys:
            return with_keys(declared_vm, vm, held.keys)
        case GroupTerms() as declared_terms, GroupTerms() as terms if held.keys:
            return with_keys(declared_terms, terms, held.keys)
        case Host() as declared_host, Host() as host if held.keys:
            return with_keys(declared_host, host, held.keys)
        case _, current:
            return None if current is None else declared_form(current)


def _unlike_fleet(
    fleet: Fleet, made: DeclarationPlan, wanted: DesiredRecords
) -> Iterator[tuple[tuple[RecordKind, str], DeclaredRecord | None]]:
    """Yield the differences between the first declaration and the resulting fleet."""
    change = made.change
    for key, record in wanted.items():
        after = made.change.record_of(fleet, *key)
        if after is None or declared_form(after) != record:
            yield key, record
    for kind, names in ((RecordKind.HOST, fleet.hosts), (RecordKind.GROUP, fleet.groups), (RecordKind.VM, fleet.vms)):
        for name in names:
            if (kind, name) not in wanted and change.record_of(fleet, kind, name) is not None:
                yield (kind, name), None


def _hold(made: DeclarationPlan) -> Iterator[ChangesHeld]:
    if made.held or made.ended:
        yield ChangesHeld(tuple(made.held.values()), tuple(RecordName(*key) for key in made.ended))
