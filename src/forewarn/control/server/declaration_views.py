"""Views of the fleet file for operators: plan, held changes and differences."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, islice

from forewarn.control.bodies import BlockedView, DifferencesView, HeldView, PlanView, RecordChange
from forewarn.core.commands import ApplyDeclaration
from forewarn.core.declared_keys import DeclaredRecord, HeldChange, RecordKind, kind_of
from forewarn.core.drift import compare_records, find_drift
from forewarn.core.fleet import Fleet
from forewarn.core.fleet_changes import cancel_abandoned
from forewarn.core.fleet_declaration import plan_declaration
from forewarn.core.proposal import Proposal
from forewarn.wire.azure_names import STATUSES, show_id
from forewarn.wire.facts import describe_held

_SHOWN = 10_000
"""Maximum number of records in a view."""


def view_differences(fleet: Fleet) -> DifferencesView:
    """Return the differences to the declaration last applied."""
    last = fleet.last_applied
    held = {each.key for each in last.held}
    found = [each for each in find_drift(fleet) if (each.kind, each.name) not in held]
    return DifferencesView(
        revision=last.revision,
        source=last.source,
        total=len(found),
        differences=tuple(found[:_SHOWN]),
        held=tuple(map(view_held, last.held[:_SHOWN])),
    )


def view_held(held: HeldChange) -> HeldView:
    return HeldView(
        kind=held.kind, name=held.name, change=held.action, reason=held.reason, detail=describe_held(held)
    )


def view_plan(fleet: Fleet, command: ApplyDeclaration, now: datetime) -> PlanView:
    """Return what a file would change, without applying it."""
    made, last = plan_declaration(fleet, command), fleet.last_applied
    ended = dict.fromkeys(made.ended)
    held = [each for each in last.held if each.key not in ended and each.key not in made.held]
    held += made.held.values()
    waiting = {each.key for each in held}
    left = (each for each in find_drift(fleet, made.wanted, made.change) if (each.kind, each.name) not in waiting)
    return PlanView(
        revision=last.revision,
        is_first=last.is_missing and not command.exact,
        changes=tuple(islice(_record_changes(fleet, made.change), _SHOWN)),
        blocked=tuple(
            BlockedView(vm=each.vm, event=show_id(each.event.id), status=STATUSES[each.event.status])
            for each in made.blocked
        ),
        conflicts=tuple(made.conflicts),
        canceled=tuple(show_id(fact.event) for fact in cancel_abandoned(fleet, made.leaving, now, "")),
        held=tuple(map(view_held, held[:_SHOWN])),
        replaced=tuple(chain.from_iterable(made.replaced.values())),
        differences=tuple(islice(left, _SHOWN)),
    )


def _record_changes(fleet: Fleet, change: Proposal) -> Iterator[RecordChange]:
    for kind, names in (
        (RecordKind.HOST, change.gone_hosts),
        (RecordKind.GROUP, change.gone_groups),
        (RecordKind.VM, change.gone_vms),
    ):
        yield from (RecordChange(action="remove", kind=kind, name=name) for name in names)
    records: Iterable[DeclaredRecord] = chain(change.hosts.values(), change.groups.values(), change.vms.values())
    for record in records:
        kind = kind_of(record)
        current = fleet.record_of(kind, record.name)
        if current is None:
            yield RecordChange(action="add", kind=kind, name=record.name)
        elif found := compare_records(kind, record.name, record, current):
            keys = {key: (old, new) for key, (new, old) in found.keys.items() if key != "host"}
            if keys:
                yield RecordChange(action="change", kind=kind, name=record.name, keys=keys)
