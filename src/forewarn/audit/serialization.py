"""Serializes facts for SSE and notifications: filtered by role, secrets removed."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from forewarn.core import facts
from forewarn.core.access import Action, Principal
from forewarn.core.declared_keys import HeldChange, RecordKind
from forewarn.core.facts import AnyFact, Entry
from forewarn.core.fleet import Fleet
from forewarn.core.model import Vm
from forewarn.core.record_changes import changes_of_fleet, changes_of_terms
from forewarn.core.subjects import event_groups, group_of
from forewarn.wire.azure_names import show_command_id
from forewarn.wire.facts import show_record

_MOST_NAMED = 100
"""Maximum number of removed VMs and changed keys in a message."""

SseMessage = tuple[tuple[int, int], bytes]
"""The revision and number of a fact, and its message."""


def make_messages(
    entries: Sequence[Entry], principal: Principal, fleet: Fleet, groups: Mapping[str, str] | None = None
) -> Iterator[SseMessage]:
    """Yield the messages for a principal; ``groups`` maps events to groups for facts that do not name the group."""
    known: dict[str, str] = {}
    if not principal.sees_all:
        known = {**(groups or {}), **event_groups(fact for entry in entries for fact in entry.facts)}
    for entry in entries:
        for number, fact in enumerate(entry.facts):
            content = _content(fact, entry, principal, fleet, known)
            if content is not None:
                yield (entry.revision, number), _message(entry, number, fact, content)


def _content(
    fact: AnyFact, entry: Entry, principal: Principal, fleet: Fleet, known: Mapping[str, str]
) -> object | None:
    def group_of_vm(name: str) -> str:
        return fleet.vms[name].group if name in fleet.vms else ""

    def group_of_event(id_: str) -> str:
        return fleet.events[id_].group if id_ in fleet.events else known.get(id_, "")

    match fact:
        case facts.TokenCreated() | facts.TokenRevoked() if not principal.may(Action.KEEP_TOKENS):
            return None
        case facts.SubscriptionSet() | facts.SubscriptionRemoved() | facts.Delivered() if not principal.may(
            Action.KEEP_SUBSCRIPTIONS
        ):
            return None
        case facts.FleetChanged() | facts.FleetDeclared():
            return _counted(fact, principal)
        case facts.ChangesHeld(changes=changes):
            shown = tuple(each for each in changes if principal.sees(_group_of_held(each, fleet)))
            return fact if principal.sees_all else facts.ChangesHeld(shown) if shown else None
        case _ if principal.sees_all:
            return fact
        case facts.Asked(marks=marks):
            seen = tuple(mark for mark in marks if principal.sees(mark.group))
            return facts.Asked(seen) if seen else None
        case facts.IncarnationsRaised(groups=groups):
            raised = {name: incarnation for name, incarnation in groups.items() if principal.sees(name)}
            return facts.IncarnationsRaised(raised) if raised else None
        case facts.Fetched(fetches=fetches):
            own = tuple(each for each in fetches if principal.sees(group_of_event(each.event)))
            return facts.Fetched(own) if own else None
        case _:
            return fact if principal.sees(group_of(fact, entry, group_of_vm, group_of_event)) else None


def _group_of_held(change: HeldChange, fleet: Fleet) -> str:
    """Return the group of a held change; none for a host."""
    match change.kind:
        case RecordKind.GROUP:
            return change.name
        case RecordKind.VM if vm := fleet.vms.get(change.name):
            return vm.group
        case _:
            return ""


def _counted(fact: facts.FleetChanged | facts.FleetDeclared, principal: Principal) -> object | None:
    """Summarize a declaration: totals and some of the changes, because there may be a million VMs."""
    removed = [vm.name for vm in _removed(fact) if principal.sees(vm.group)]
    if principal.sees_all:
        counts = fact.counts()
    else:
        counts = {
            "groups": sum(principal.sees(terms.name) for terms in fact.groups),
            "vms": sum(principal.sees(vm.group) for vm in fact.vms),
            "removed_groups": sum(principal.sees(name) for name in fact.removed_groups),
            "removed_vms": len(removed),
        }
    counts = {key: count for key, count in counts.items() if count}
    if not counts:
        return None
    content: dict[str, object] = {"fact": fact.__struct_config__.tag, **counts}
    if removed:
        content["removed"] = removed[:_MOST_NAMED]
    if isinstance(fact, facts.FleetChanged) and (changed := changes_of_fleet(fact, principal.sees, _MOST_NAMED)):
        content["changed"] = changed
    return content


def _removed(fact: facts.FleetChanged | facts.FleetDeclared) -> Iterator[Vm]:
    """Yield the VMs that were removed from the fleet."""
    if isinstance(fact, facts.FleetChanged):
        gone = frozenset(fact.removed_vms)
        yield from (vm for vm in fact.before_vms if vm.name in gone)


def _message(entry: Entry, number: int, fact: AnyFact, content: object) -> bytes:
    shown = show_record(content) if isinstance(content, msgspec.Struct) else content
    if isinstance(fact, facts.GroupSet) and isinstance(shown, dict):
        shown["changed"] = changes_of_terms(fact)
    data = {
        "revision": entry.revision,
        "at": entry.at,
        "operation": show_command_id(entry.command),
        "by": entry.by,
        "fact": shown,
    }
    kind = str(type(fact).__struct_config__.tag).encode()
    return b"id: %d.%d\nevent: %s\ndata: %s\n\n" % (entry.revision, number, kind, msgspec.json.encode(data))
