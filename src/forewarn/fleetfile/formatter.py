"""Formats a fleet as a fleet file; parsing the result gives the same fleet."""

import json
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import asdict

from forewarn.config.durations import show_iso_duration
from forewarn.core.declared_keys import RecordKind
from forewarn.core.model import GroupKind, GroupTerms, InstanceFacts, Interface, Policy, Vm
from forewarn.fleetfile.diff import CurrentFleet

_DURATIONS = ("terminate_notice", "postpone_limit")
_RUN_TIME = ("moved_to", "deallocated")


def format_fleet(
    declared: CurrentFleet, notes: Mapping[tuple[str, str], Iterable[str]] | None = None
) -> Iterator[str]:
    """Yield the lines of the file; run-time state is written as comments.

    ``notes`` are further comments by kind and name; those for two empty strings come at the end.
    """
    notes = notes or {}
    for host in declared.hosts.values():
        yield from ("[[host]]", f"name = {_value(host.name)}")
        if host.labels:
            yield f"labels = {_value(host.labels)}"
        yield from (*notes.get((RecordKind.HOST, host.name), ()), "")
    for terms in declared.groups.values():
        is_implied = terms == GroupTerms(terms.name, GroupKind.STANDALONE) and terms.name in declared.vms
        if not is_implied:
            yield from _group(terms)
            yield from (*notes.get((RecordKind.GROUP, terms.name), ()), "")
    for vm in declared.vms.values():
        yield from _vm(vm)
        yield from (*notes.get((RecordKind.VM, vm.name), ()), "")
    yield from notes.get(("", ""), ())


def _group(terms: GroupTerms) -> Iterator[str]:
    yield from ("[[group]]", f"name = {_value(terms.name)}", f"kind = {_value(terms.kind)}")
    if terms.approval is not GroupTerms(terms.name, terms.kind).approval:
        yield f"approval = {_value(terms.approval)}"
    if terms.terminate_notice is not None:
        yield f"terminate_notice = {format_value('terminate_notice', terms.terminate_notice)}"
    if terms.eviction is not GroupTerms(terms.name, terms.kind).eviction:
        yield f"eviction = {_value(terms.eviction)}"
    usual = asdict(Policy())
    for key, value in asdict(terms.policy).items():
        if value != usual[key]:
            yield f"{key} = {format_value(key, value)}"


def _vm(vm: Vm) -> Iterator[str]:
    yield "[[vm]]"
    yield f"name = {_value(vm.name)}"
    # A VM without a group is in a group of its own name.
    plain = asdict(Vm(vm.name, vm.name))
    for key, value in asdict(vm).items():
        if key not in (*_RUN_TIME, "instance", "interface") and value != plain[key]:
            yield f"{key} = {_value(value)}"
    usual = asdict(Interface()) | asdict(InstanceFacts())
    for key, value in (asdict(vm.interface) | asdict(vm.instance)).items():
        if value != usual[key]:
            yield f"{key} = {_value(value)}"
    if vm.moved_to:
        yield f"# moved to {vm.moved_to}"
    if vm.deallocated:
        yield "# deallocated"


def format_value(key: str, value: object) -> str:
    return _value(show_iso_duration(value) if key in _DURATIONS and isinstance(value, int) else value)


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_value(key)} = {_value(each)}" for key, each in value.items()) + " }"
    # A JSON string is a TOML string, except for one character that JSON does not escape.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
