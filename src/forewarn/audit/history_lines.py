"""Lines of the history: one fact, or the part of it that concerns one VM, with its cause and subjects."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import msgspec
from msgspec.structs import replace

from forewarn.core import facts
from forewarn.core.declared_keys import RecordKind
from forewarn.core.facts import AnyFact, Entry
from forewarn.core.model import CallerKind, Event, OperationScope
from forewarn.core.record_changes import (
    GroupChanges,
    changed_keys,
    changes_of_fleet,
    changes_of_group,
    changes_of_terms,
)
from forewarn.core.rollouts import facts as rollout_facts
from forewarn.core.rollouts.sentences import describe, name_of
from forewarn.core.subjects import group_of
from forewarn.wire.azure_names import TYPES, show_command_id, show_id
from forewarn.wire.facts import show_ids, show_record

FindEvent = Callable[[str], Event | None]
"""Finds an event by its id; None if its announcement was deleted."""
FindGroup = Callable[[str], str]
"""Finds the group of a VM by its name; empty if there is none."""

_COLUMNS = frozenset({"fact", "at", "by", "event"})
_MOST_CHANGES = 20
"""Maximum number of changes of a declaration that are listed if the query names no subject."""
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
    """One line of the history."""

    revision: int
    """The revision of its journal entry."""
    number: int
    """The number of the line within that entry."""
    at: datetime
    """When it was recorded."""
    by: str
    """The caller: a VM, a user or a token; empty for the service itself."""
    kind: CallerKind
    origin: str
    """The address of the caller."""
    operation: str
    """The id of the command."""
    fact: str
    event: str = ""
    type: str = ""
    vms: tuple[str, ...] = ()
    group: str = ""
    host: str = ""
    detail: dict[str, object] = {}
    """Other fields of the fact."""

    @property
    def place(self) -> tuple[int, int]:
        """The position of the line in the history."""
        return self.revision, self.number


COLUMNS = HistoryLine.__struct_fields__


def as_json_lines(lines: Iterable[HistoryLine]) -> str:
    """Write each line as a JSON object."""
    return "".join(f"{msgspec.json.encode(line).decode()}\n" for line in lines)


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that spreadsheets take for a formula."""


def quote_formula(value: object) -> object:
    """Return a cell of a CSV file; put an apostrophe before text that a spreadsheet would take for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


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
        writer.writerow(map(quote_formula, cells.values()))
    return text.getvalue()


class HistoryFocus(msgspec.Struct, frozen=True):
    """Subjects whose part of a declaration is listed; without any, the declaration is summarized."""

    vm: str = ""
    groups: frozenset[str] = frozenset()
    host: str = ""


class HistoryFormatter:
    """Converts entries to lines."""

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
            for made in self._lines_of(replace(bare, fact=word), fact, entry):
                yield replace(made, number=number)
                number += 1

    def _lines_of(self, line: HistoryLine, fact: AnyFact, entry: Entry) -> Iterator[HistoryLine]:
        match fact:
            case facts.Announced(event=event) | facts.StartedAtOnce(event=event):
                chosen = {key: value for key, value in show_record(event).items() if key in _ANNOUNCED}
                yield replace(_of_event(line, event.id, event), detail=chosen)
            case facts.Fetched(fetches=fetches):
                for fetch in fetches:
                    made = _of_event(line, fetch.event, self._event_of(fetch.event))
                    yield replace(made, vms=(fetch.vm,), detail={"fetched_at": msgspec.to_builtins(fetch.at)})
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
            case facts.HostCordonSet(host=host, is_cordoned=is_cordoned, left=left, arriving=arriving):
                detail = {"cordoned": is_cordoned, **({"left": left} if left else {})}
                detail |= {"arriving": list(map(show_id, arriving))} if arriving else {}
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
            case _ if isinstance(fact, rollout_facts.RolloutFact):
                host = fact.host if isinstance(fact, rollout_facts.RolloutHostFact) else ""
                yield replace(line, host=host, detail={"rollout": name_of(fact), "said": describe(fact)})
            case facts.Selected(operation=operation, names=names, refused=refused):
                is_of_vms = operation.scope is OperationScope.VM
                detail = {"operation": operation} | ({"refused": refused} if refused else {})
                detail |= {} if is_of_vms else {"names": [show_ids(name) for name in names]}
                yield replace(line, vms=names if is_of_vms else (), detail=detail)
            case facts.TokenRevoked() | facts.SubscriptionRemoved() | facts.ClockStepped():
                yield replace(line, detail=_rest(fact))
            case _:
                made = replace(line, group=fact.group, detail=_rest(fact))
                yield _of_event(made, fact.event, self._event_of(fact.event))

    def _group_of(self, fact: AnyFact, entry: Entry) -> str:
        return group_of(fact, entry, self._group_of_vm, self._group_of_event)

    def _group_of_event(self, id_: str) -> str:
        event = self._event_of(id_)
        return event.group if event else ""


def _held(line: HistoryLine, fact: facts.ChangesHeld, focus: HistoryFocus) -> Iterator[HistoryLine]:
    """Yield each change that is held, or no longer held, for the subjects of the query."""
    details: dict[tuple[RecordKind, str], dict[str, object]] = {
        (each.kind, each.name): {"held": False} for each in fact.ended
    }
    details |= {each.key: {"held": True, "because": each.because, "keys": list(each.keys)} for each in fact.changes}
    for (kind, name), detail in details.items():
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
    """Yield what is declared for the subjects of the query; without subjects, the totals."""
    before = {vm.name: vm for vm in fact.before_vms} if isinstance(fact, facts.FleetChanged) else {}
    before_hosts = fact.before_hosts if isinstance(fact, facts.FleetChanged) else ()
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
        for host in fact.hosts:
            if host.name == focus.host:
                old = [each for each in before_hosts if each.name == host.name]
                changed = changed_keys(old[0], host) if old else {}
                detail = {"changed": _plain(changed)} if changed else {"declared": show_record(host)}
                yield replace(line, host=host.name, detail=detail)
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
    """Yield what a declaration changed in a group: its terms, and VMs that joined, left or changed."""
    changes = changes_of_group(fact, group) if isinstance(fact, facts.FleetChanged) else GroupChanges()
    detail: dict[str, object] = {"removed": True} if group in fact.removed_groups else {}
    is_new = not isinstance(fact, facts.FleetChanged) or all(terms.name != group for terms in fact.before_groups)
    for terms in fact.groups if is_new else ():
        if terms.name == group:
            detail["declared"] = show_record(terms)
    detail |= {key: value for key, value in _plain(changes).items() if value}
    if detail:
        yield replace(line, group=group, vms=(*changes.joined, *changes.left), detail=detail)


def _plain(record: object) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(record)
    return plain


def _of_event(line: HistoryLine, id_: str, event: Event | None) -> HistoryLine:
    if event is None:
        return replace(line, event=show_id(id_))
    return replace(
        line, event=show_id(id_), type=TYPES[event.type], vms=event.resources, group=event.group, host=event.host
    )


def _rest(fact: AnyFact) -> dict[str, object]:
    """Return the fields of a fact that have no column of their own."""
    return {key: value for key, value in show_record(fact).items() if key not in _COLUMNS}
