"""The record, line by line: one fact, or one VM's part in it, with who caused it and what it concerns."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import msgspec
from msgspec.structs import replace

from forewarn.core import facts
from forewarn.core.declared_keys import RecordKind
from forewarn.core.facts import AnyFact, Entry
from forewarn.core.model import CallerKind, Event
from forewarn.core.record_changes import (
    GroupChanges,
    changed_keys,
    changes_of_fleet,
    changes_of_group,
    changes_of_terms,
)
from forewarn.core.subjects import group_of
from forewarn.wire.azure_names import TYPES, show_command_id, show_id
from forewarn.wire.facts import show_record

FindEvent = Callable[[str], Event | None]
"""Finds an event by its id; None where the journal no longer holds its announcement."""
FindGroup = Callable[[str], str]
"""Finds the group of a VM by its name; empty where there is none."""

_COLUMNS = frozenset({"fact", "at", "by", "event"})
_MOST_CHANGES = 20
"""How many changes of a declaration are told where nothing is asked for by name."""
_ANNOUNCED = frozenset(
    {
        "source",
        "operation",
        "not_before",
        "duration",
        "description",
        "update_domain",
        "without_notice",
        "reason",
        "target",
        "placements",
    }
)


_FILE_NOTES = ("replaced", "left_out")


class HistoryLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the record."""

    revision: int
    """The entry of the journal that it stands in."""
    number: int
    """Which line of that entry it is."""
    at: datetime
    """When it was recorded."""
    by: str
    """Who caused it: a VM, a user or a token; empty for the service itself."""
    kind: CallerKind
    origin: str
    """From where."""
    operation: str
    """The id of the command that made it happen."""
    fact: str
    event: str = ""
    type: str = ""
    vms: tuple[str, ...] = ()
    group: str = ""
    host: str = ""
    detail: dict[str, object] = {}
    """What else the fact says."""

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands in the record."""
        return self.revision, self.number


COLUMNS = HistoryLine.__struct_fields__


def as_json_lines(lines: Iterable[HistoryLine]) -> str:
    """Write each line as a JSON object."""
    return "".join(f"{msgspec.json.encode(line).decode()}\n" for line in lines)


def as_csv(lines: Iterable[HistoryLine], *, with_head: bool = True) -> str:
    """Write a table in which VMs are separated by spaces, and the detail is JSON."""
    text = io.StringIO()
    writer = csv.writer(text)
    if with_head:
        writer.writerow(COLUMNS)
    for line in lines:
        cells = {name: getattr(line, name) for name in COLUMNS}
        cells["at"] = msgspec.to_builtins(line.at)
        cells["vms"] = " ".join(line.vms)
        cells["detail"] = msgspec.json.encode(line.detail).decode() if line.detail else ""
        writer.writerow(cells.values())
    return text.getvalue()


class HistoryFocus(msgspec.Struct, frozen=True):
    """Whose part in a declaration of the fleet is told; without any, the declaration is summed up."""

    vm: str = ""
    groups: frozenset[str] = frozenset()
    host: str = ""


class HistoryFormatter:
    """Puts entries into lines."""

    def __init__(self, event_of: FindEvent, group_of_vm: FindGroup, focus: HistoryFocus) -> None:
        self._event_of = event_of
        self._group_of_vm = group_of_vm
        self._focus = focus

    def lines(self, entry: Entry) -> Iterator[HistoryLine]:
        """Yield the lines of an entry, in order."""
        bare = HistoryLine(
            revision=entry.revision,
            number=0,
            at=entry.at,
            by=entry.by.name,
            kind=entry.by.kind,
            origin=entry.by.origin,
            operation=show_command_id(entry.command),
            fact="",
        )
        number = 0
        for fact in entry.facts:
            word = str(type(fact).__struct_config__.tag)
            for told in self._told(replace(bare, fact=word), fact, entry):
                yield replace(told, number=number)
                number += 1

    def _told(self, line: HistoryLine, fact: AnyFact, entry: Entry) -> Iterator[HistoryLine]:
        match fact:
            case facts.Announced(event=event) | facts.StartedAtOnce(event=event):
                yield replace(_of_event(line, event.id, event), detail=_chosen(event))
            case facts.Fetched(fetches=fetches):
                for fetch in fetches:
                    told = _of_event(line, fetch.event, self._event_of(fetch.event))
                    yield replace(told, vms=(fetch.vm,), detail={"fetched_at": msgspec.to_builtins(fetch.at)})
            case facts.VmRemoved(vm=vm, because=because) | facts.VmDeallocated(vm=vm, because=because):
                yield replace(line, vms=(vm,), group=self._group_of(fact, entry), detail={"because": because})
            case facts.VmStarted(vm=vm):
                yield replace(line, vms=(vm,), group=self._group_of(fact, entry))
            case facts.VmMoved(vm=vm, host=host):
                yield replace(line, vms=(vm,), group=self._group_of(fact, entry), host=host)
            case facts.ObservationRecorded(observation=observation):
                seen = {key: value for key, value in show_record(observation).items() if key != "vm"}
                yield replace(line, vms=(observation.vm,), group=self._group_of(fact, entry), detail=seen)
            case facts.Enrolled(group=group) | facts.SwitchedOff(group=group):
                yield replace(line, group=group)
            case facts.GroupSet(terms=terms):
                changed = changes_of_terms(fact)
                detail = {"changed": _plain(changed)} if changed else show_record(terms)
                yield replace(line, group=terms.name, detail=detail)
            case facts.FleetChanged() | facts.FleetDeclared():
                yield from _declared(line, fact, self._focus)
            case facts.ChangesHeld():
                yield from _held(line, fact, self._focus)
            case facts.HostStateSet(host=host, state=state):
                yield replace(line, host=host, detail={"state": str(state)})
            case facts.HostCordonSet(host=host, is_cordoned=is_cordoned, left=left):
                detail = {"cordoned": is_cordoned, **({"left": left} if left else {})}
                yield replace(line, host=host, vms=tuple(left), detail=detail)
            case facts.VmSwitched(vm=vm):
                rest = {key: value for key, value in _rest(fact).items() if key != "request"}
                yield replace(line, vms=(vm,), group=self._group_of(fact, entry), detail=rest)
            case facts.IncarnationsRaised(groups=groups):
                for group, incarnation in groups.items():
                    yield replace(line, group=group, detail={"incarnation": incarnation})
            case facts.Asked(marks=marks):
                yield replace(line, detail={"groups": len(marks)})
            case facts.Delivered(revisions=revisions):
                yield replace(line, detail={"subscriptions": len(revisions)})
            case facts.TokenCreated(token=token):
                yield replace(line, detail=show_record(token))
            case facts.SubscriptionSet(subscription=subscription):
                yield replace(line, detail=show_record(subscription))
            case facts.TokenRevoked() | facts.SubscriptionRemoved() | facts.ClockStepped():
                yield replace(line, detail=_rest(fact))
            case _:
                told = replace(line, group=fact.group, detail=_rest(fact))
                yield _of_event(told, fact.event, self._event_of(fact.event))

    def _group_of(self, fact: AnyFact, entry: Entry) -> str:
        return group_of(fact, entry, self._group_of_vm, self._group_of_event)

    def _group_of_event(self, id_: str) -> str:
        event = self._event_of(id_)
        return event.group if event else ""


def _held(line: HistoryLine, fact: facts.ChangesHeld, focus: HistoryFocus) -> Iterator[HistoryLine]:
    """Tell each change that is held, or no longer, of what is in question."""
    told: dict[tuple[RecordKind, str], dict[str, object]] = {
        (each.kind, each.name): {"held": False} for each in fact.ended
    }
    told |= {each.key: {"held": True, "because": each.because, "keys": list(each.keys)} for each in fact.changes}
    for (kind, name), detail in told.items():
        match kind:
            case RecordKind.VM if focus.vm in ("", name) and not (focus.groups or focus.host):
                yield replace(line, vms=(name,), detail=detail)
            case RecordKind.GROUP if not focus.groups or name in focus.groups:
                if not (focus.vm or focus.host):
                    yield replace(line, group=name, detail=detail)
            case RecordKind.HOST if focus.host in ("", name) and not (focus.vm or focus.groups):
                yield replace(line, host=name, detail=detail)


def _declared(
    line: HistoryLine, fact: facts.FleetChanged | facts.FleetDeclared, focus: HistoryFocus
) -> Iterator[HistoryLine]:
    """Tell what is declared of the VM, the groups or the host in question; else how much of everything."""
    before = {vm.name: vm for vm in fact.before_vms} if isinstance(fact, facts.FleetChanged) else {}
    if focus.vm:
        for vm in fact.vms:
            if vm.name == focus.vm:
                changed = changed_keys(before[vm.name], vm) if vm.name in before else {}
                detail: dict[str, object] = {"changed": _plain(changed)} if changed else {"declared": show_record(vm)}
                yield replace(line, vms=(vm.name,), group=vm.group, host=vm.host, detail=detail)
        if focus.vm in fact.removed_vms:
            group = before[focus.vm].group if focus.vm in before else ""
            yield replace(line, vms=(focus.vm,), group=group, detail={"removed": True})
    elif focus.groups:
        for group in sorted(focus.groups):
            yield from _of_group(line, fact, group)
    elif focus.host:
        if focus.host in fact.removed_hosts:
            yield replace(line, host=focus.host, detail={"removed": True})
        elif any(host.name == focus.host for host in fact.hosts):
            yield replace(line, host=focus.host, detail={"declared": {"name": focus.host}})
    else:
        detail = {key: count for key, count in fact.counts().items() if count}
        if isinstance(fact, facts.FleetChanged):
            changed = changes_of_fleet(fact, lambda _: True, _MOST_CHANGES)
            detail |= {"changed": _plain(changed)} if changed else {}
            detail |= {"removed": list(fact.removed_vms[:_MOST_CHANGES])} if fact.removed_vms else {}
        if isinstance(fact, facts.FleetDeclared):
            detail |= {"revision": fact.revision, "source": fact.source}
            detail |= {
                key: [show_record(each) for each in getattr(fact, key)] for key in _FILE_NOTES if getattr(fact, key)
            }
        yield replace(line, detail=detail)


def _of_group(line: HistoryLine, fact: facts.FleetChanged | facts.FleetDeclared, group: str) -> Iterator[HistoryLine]:
    """Tell what a declaration made of a group: its terms, and which VMs joined, left or changed."""
    told = changes_of_group(fact, group) if isinstance(fact, facts.FleetChanged) else GroupChanges()
    detail: dict[str, object] = {"removed": True} if group in fact.removed_groups else {}
    is_new = not isinstance(fact, facts.FleetChanged) or all(terms.name != group for terms in fact.before_groups)
    for terms in fact.groups if is_new else ():
        if terms.name == group:
            detail["declared"] = show_record(terms)
    detail |= {key: value for key, value in _plain(told).items() if value}
    if detail:
        yield replace(line, group=group, vms=(*told.joined, *told.left), detail=detail)


def _plain(record: object) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(record)
    return plain


def _of_event(line: HistoryLine, id_: str, event: Event | None) -> HistoryLine:
    if event is None:
        return replace(line, event=show_id(id_))
    return replace(
        line, event=show_id(id_), type=TYPES[event.type], vms=event.resources, group=event.group, host=event.host
    )


def _chosen(event: Event) -> dict[str, object]:
    return {key: value for key, value in show_record(event).items() if key in _ANNOUNCED}


def _rest(fact: AnyFact) -> dict[str, object]:
    """Return what a fact says beyond what the line has columns for."""
    return {key: value for key, value in show_record(fact).items() if key not in _COLUMNS}
