"""Conformance checks of the document: its format, and its changes during an event."""

import re
from collections.abc import Iterator

from forewarn.conformance.checks import CheckResult, CheckTiming, require_results
from forewarn.conformance.evidence import SCHEDULED, STARTED, WireEvent
from forewarn.conformance.inspection_context import CHECKS, Inspection
from forewarn.wire.dates import read_time, show_time
from forewarn.wire.document import shown_fields
from forewarn.wire.versions import NEWEST

_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_GUID = re.compile(r"[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}")
_TOP = ["DocumentIncarnation", "Events"]


def _ids(events: list[WireEvent]) -> list[str]:
    return [str(event.get("EventId")) for event in events]


@CHECKS.add()
def one_line_of_json(inspection: Inspection) -> Iterator[CheckResult]:
    reply = inspection.server.get()
    yield CheckResult("JSON", "JSON" if reply.json is not None else str(reply), reply.json is not None)
    blanks = re.findall(rb"\s", _TEXT.sub(b"", reply.body))
    yield CheckResult("no blanks", f"{len(blanks)} blanks" if blanks else "none", not blanks)


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def key_order(inspection: Inspection) -> Iterator[CheckResult]:
    for shown in inspection.evidence.documents:
        document = shown.reply.json
        keys = list(document) if isinstance(document, dict) else []
        yield CheckResult(", ".join(_TOP), ", ".join(keys) or str(shown.reply), keys == _TOP)
    expected = list(shown_fields(NEWEST))
    for event in inspection.events:
        yield CheckResult(", ".join(expected), ", ".join(event), list(event) == expected)


@CHECKS.add()
def incarnation_is_a_number(inspection: Inspection) -> Iterator[CheckResult]:
    document = inspection.server.get().json
    number = document.get("DocumentIncarnation") if isinstance(document, dict) else None
    yield CheckResult("a JSON integer", repr(number), type(number) is int)


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def incarnation_rises_by_one(inspection: Inspection) -> Iterator[CheckResult]:
    for before, after in inspection.changes:
        first, second = before.incarnation, after.incarnation
        # A poller may miss a change in between, so a larger step is allowed.
        rises = isinstance(first, int) and isinstance(second, int) and second > first
        yield CheckResult("another document under a higher number", f"{first}, then {second}", rises)
    by_number = [(shown.incarnation, shown.events) for shown in inspection.evidence.documents]
    for number, events in by_number:
        same = all(events == others for other, others in by_number if other == number)
        yield CheckResult("one document under one number", f"{'one' if same else 'several'} under {number}", same)


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def incarnation_never_falls(inspection: Inspection) -> Iterator[CheckResult]:
    for before, after in inspection.changes:
        first, second = before.incarnation, after.incarnation
        kept = isinstance(first, int) and isinstance(second, int) and second >= first
        yield CheckResult("a number that never falls", f"{first}, then {second}", kept)


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def id_in_upper_case(inspection: Inspection) -> Iterator[CheckResult]:
    for shown in _ids(inspection.events):
        yield CheckResult("a GUID in upper case", shown, bool(_GUID.fullmatch(shown)))


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def id_for_life(inspection: Inspection) -> Iterator[CheckResult]:
    yield from require_results(
        _starts(inspection),
        "no event was seen Scheduled and then Started; make one with --trigger, start it with --approve",
    )


def _starts(inspection: Inspection) -> Iterator[CheckResult]:
    for before, after in inspection.changes:
        for event in before.scheduled:
            event_id = event.get("EventId")
            now = after.event(event_id)
            if now and now.get("EventStatus") == STARTED:
                yield CheckResult("the same id once it is Started", str(event_id), is_kept=True)
            heirs = [each for each in after.events if not before.event(each.get("EventId")) and _is_heir(each, event)]
            if now is None and heirs:
                yield CheckResult(f"{event_id} once it is Started", str(heirs[0].get("EventId")), is_kept=False)


def _is_heir(event: WireEvent, of: WireEvent) -> bool:
    """Return whether it is probably the same event under another id."""
    alike = all(event.get(key) == of.get(key) for key in ("EventType", "Resources"))
    return alike and event.get("EventStatus") == STARTED


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def resource_type(inspection: Inspection) -> Iterator[CheckResult]:
    for event in inspection.events:
        yield CheckResult(
            "VirtualMachine", str(event.get("ResourceType")), event.get("ResourceType") == "VirtualMachine"
        )


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def resources_by_name(inspection: Inspection) -> Iterator[CheckResult]:
    first: dict[object, object] = {}
    for event in inspection.events:
        names = event.get("Resources")
        in_order = isinstance(names, list) and names == sorted(names, key=str)
        yield CheckResult("names in alphabetical order", str(names), in_order)
        known = first.setdefault(event.get("EventId"), names)
        yield CheckResult(f"{known} for life", str(names), names == known)


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def events_by_announcement(inspection: Inspection) -> Iterator[CheckResult]:
    for before, after in inspection.changes:
        old, new = _ids(before.events), _ids(after.events)
        if len(new) > 1:
            stayed = [each for each in old if each in new]
            yield CheckResult(
                f"those that were there first: {', '.join(stayed)}", ", ".join(new), new[: len(stayed)] == stayed
            )


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def not_before_in_rfc_1123(inspection: Inspection) -> Iterator[CheckResult]:
    for event in inspection.events:
        if event.get("EventStatus") == SCHEDULED:
            text = str(event.get("NotBefore"))
            yield CheckResult("a time like Mon, 19 Sep 2016 18:29:47 GMT", text, _is_rfc_1123(text))


def _is_rfc_1123(text: str) -> bool:
    try:
        return show_time(read_time(text)) == text
    except ValueError:
        return False


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def not_before_is_empty_once_started(inspection: Inspection) -> Iterator[CheckResult]:
    results = (
        CheckResult('NotBefore ""', repr(event.get("NotBefore")), event.get("NotBefore") == "")
        for event in inspection.events
        if event.get("EventStatus") == STARTED
    )
    yield from require_results(results, "no event was seen Started; start one with --approve")


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def statuses(inspection: Inspection) -> Iterator[CheckResult]:
    for event in inspection.events:
        status = event.get("EventStatus")
        yield CheckResult(f"{SCHEDULED} or {STARTED}", str(status), status in (SCHEDULED, STARTED))


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def duration(inspection: Inspection) -> Iterator[CheckResult]:
    for event in inspection.events:
        seconds = event.get("DurationInSeconds")
        yield CheckResult("a whole number of seconds, or -1", repr(seconds), type(seconds) is int and seconds >= -1)


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def gone_when_done(inspection: Inspection) -> Iterator[CheckResult]:
    last = inspection.evidence.documents[-1]
    results = (
        CheckResult("it is gone", "it is gone", is_kept=True)
        for event in inspection.events
        if event.get("EventStatus") == STARTED and last.event(event.get("EventId")) is None
    )
    yield from require_results(
        results, "no event was seen to end; start one with --approve, and wait longer with --wait"
    )
