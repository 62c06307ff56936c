"""Checks of the document: how it is spelled, and how it changes in the course of an event's life."""

import re
from collections.abc import Iterator

from forewarn.conformance.evidence import SCHEDULED, STARTED, WireEvent
from forewarn.conformance.looks import Look, When, seen
from forewarn.conformance.visit import CHECKS, Visit
from forewarn.wire.dates import read_time, show_time
from forewarn.wire.document import shown_fields
from forewarn.wire.versions import NEWEST

_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_GUID = re.compile(r"[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}")
_TOP = ["DocumentIncarnation", "Events"]


def _ids(events: list[WireEvent]) -> list[str]:
    return [str(event.get("EventId")) for event in events]


@CHECKS.add()
def one_line_of_json(visit: Visit) -> Iterator[Look]:
    reply = visit.server.get()
    yield Look("JSON", "JSON" if reply.json is not None else str(reply), reply.json is not None)
    blanks = re.findall(rb"\s", _TEXT.sub(b"", reply.body))
    yield Look("no blanks", f"{len(blanks)} blanks" if blanks else "none", not blanks)


@CHECKS.add(When.ON_AN_EVENT)
def key_order(visit: Visit) -> Iterator[Look]:
    for shown in visit.evidence.documents:
        document = shown.reply.json
        keys = list(document) if isinstance(document, dict) else []
        yield Look(", ".join(_TOP), ", ".join(keys) or str(shown.reply), keys == _TOP)
    expected = list(shown_fields(NEWEST))
    for event in visit.events:
        yield Look(", ".join(expected), ", ".join(event), list(event) == expected)


@CHECKS.add()
def incarnation_is_a_number(visit: Visit) -> Iterator[Look]:
    document = visit.server.get().json
    number = document.get("DocumentIncarnation") if isinstance(document, dict) else None
    yield Look("a JSON integer", repr(number), type(number) is int)


@CHECKS.add(When.ON_AN_EVENT)
def incarnation_rises_by_one(visit: Visit) -> Iterator[Look]:
    for before, after in visit.changes:
        first, second = before.incarnation, after.incarnation
        # Whoever polls may miss a change in between, so more than one is no breach.
        rises = isinstance(first, int) and isinstance(second, int) and second > first
        yield Look("another document under a higher number", f"{first}, then {second}", rises)
    by_number = [(shown.incarnation, shown.events) for shown in visit.evidence.documents]
    for number, events in by_number:
        same = all(events == others for other, others in by_number if other == number)
        yield Look("one document under one number", f"{'one' if same else 'several'} under {number}", same)


@CHECKS.add(When.ON_AN_EVENT)
def incarnation_never_falls(visit: Visit) -> Iterator[Look]:
    for before, after in visit.changes:
        first, second = before.incarnation, after.incarnation
        kept = isinstance(first, int) and isinstance(second, int) and second >= first
        yield Look("a number that never falls", f"{first}, then {second}", kept)


@CHECKS.add(When.ON_AN_EVENT)
def id_in_upper_case(visit: Visit) -> Iterator[Look]:
    for shown in _ids(visit.events):
        yield Look("a GUID in upper case", shown, bool(_GUID.fullmatch(shown)))


@CHECKS.add(When.ON_AN_EVENT)
def id_for_life(visit: Visit) -> Iterator[Look]:
    yield from seen(
        _starts(visit),
        "no event was seen Scheduled and then Started; make one with --trigger, start it with --approve",
    )


def _starts(visit: Visit) -> Iterator[Look]:
    for before, after in visit.changes:
        for event in before.scheduled:
            event_id = event.get("EventId")
            now = after.event(event_id)
            if now and now.get("EventStatus") == STARTED:
                yield Look("the same id once it is Started", str(event_id), is_kept=True)
            heirs = [each for each in after.events if not before.event(each.get("EventId")) and _is_heir(each, event)]
            if now is None and heirs:
                yield Look(f"{event_id} once it is Started", str(heirs[0].get("EventId")), is_kept=False)


def _is_heir(event: WireEvent, of: WireEvent) -> bool:
    """Tell whether it is the same event under another id."""
    alike = all(event.get(key) == of.get(key) for key in ("EventType", "Resources"))
    return alike and event.get("EventStatus") == STARTED


@CHECKS.add(When.ON_AN_EVENT)
def resource_type(visit: Visit) -> Iterator[Look]:
    for event in visit.events:
        yield Look("VirtualMachine", str(event.get("ResourceType")), event.get("ResourceType") == "VirtualMachine")


@CHECKS.add(When.ON_AN_EVENT)
def resources_by_name(visit: Visit) -> Iterator[Look]:
    first: dict[object, object] = {}
    for event in visit.events:
        names = event.get("Resources")
        in_order = isinstance(names, list) and names == sorted(names, key=str)
        yield Look("names in alphabetical order", str(names), in_order)
        known = first.setdefault(event.get("EventId"), names)
        yield Look(f"{known} for life", str(names), names == known)


@CHECKS.add(When.ON_AN_EVENT)
def events_by_announcement(visit: Visit) -> Iterator[Look]:
    for before, after in visit.changes:
        old, new = _ids(before.events), _ids(after.events)
        if len(new) > 1:
            stayed = [each for each in old if each in new]
            yield Look(
                f"those that were there first: {', '.join(stayed)}", ", ".join(new), new[: len(stayed)] == stayed
            )


@CHECKS.add(When.ON_AN_EVENT)
def not_before_in_rfc_1123(visit: Visit) -> Iterator[Look]:
    for event in visit.events:
        if event.get("EventStatus") == SCHEDULED:
            text = str(event.get("NotBefore"))
            yield Look("a time like Mon, 19 Sep 2016 18:29:47 GMT", text, _is_rfc_1123(text))


def _is_rfc_1123(text: str) -> bool:
    try:
        return show_time(read_time(text)) == text
    except ValueError:
        return False


@CHECKS.add(When.ON_AN_EVENT)
def not_before_is_empty_once_started(visit: Visit) -> Iterator[Look]:
    looks = (
        Look('NotBefore ""', repr(event.get("NotBefore")), event.get("NotBefore") == "")
        for event in visit.events
        if event.get("EventStatus") == STARTED
    )
    yield from seen(looks, "no event was seen Started; start one with --approve")


@CHECKS.add(When.ON_AN_EVENT)
def statuses(visit: Visit) -> Iterator[Look]:
    for event in visit.events:
        status = event.get("EventStatus")
        yield Look(f"{SCHEDULED} or {STARTED}", str(status), status in (SCHEDULED, STARTED))


@CHECKS.add(When.ON_AN_EVENT)
def duration(visit: Visit) -> Iterator[Look]:
    for event in visit.events:
        seconds = event.get("DurationInSeconds")
        yield Look("a whole number of seconds, or -1", repr(seconds), type(seconds) is int and seconds >= -1)


@CHECKS.add(When.ON_AN_EVENT)
def gone_when_done(visit: Visit) -> Iterator[Look]:
    last = visit.evidence.documents[-1]
    looks = (
        Look("it is gone", "it is gone", is_kept=True)
        for event in visit.events
        if event.get("EventStatus") == STARTED and last.event(event.get("EventId")) is None
    )
    yield from seen(looks, "no event was seen to end; start one with --approve, and wait longer with --wait")
