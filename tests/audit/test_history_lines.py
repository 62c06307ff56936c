"""A line of the record says who did what to whom, and can be written as JSON and as CSV."""

import csv
import io
import json

import msgspec
import pytest

from forewarn.audit.history import HistoryQuery
from forewarn.audit.history_lines import COLUMNS, HistoryFocus, HistoryFormatter, as_csv, as_json_lines
from forewarn.core.commands import CancelEvent, RecordObservation
from forewarn.core.declared_keys import HeldChange, HoldReason, RecordKind
from forewarn.core.facts import Canceled, ChangesHeld, Entry, FleetDeclared
from forewarn.core.model import NODE, Caller, CallerKind, Host, Observation, ObservationKind
from tests.control.history_harness import HistoryHarness
from tests.core.harness import NOON

ODD = Caller(CallerKind.OPERATOR, 'a "quoted", name\nof two lines', "control.sock")


def test_a_line_says_who_from_where_and_what() -> None:
    """Every column of an announcement is filled from the fact or from its cause."""
    history_harness = HistoryHarness()
    event = history_harness.freeze("web-0")

    (line,) = history_harness.ask(HistoryQuery(event=event)).lines

    assert (line.by, line.kind, line.origin) == ("ada", CallerKind.OPERATOR, "control.sock")
    assert (line.event, line.type, line.vms) == (event.upper(), "Freeze", ("web-0",))
    assert (line.group, line.host, line.revision) == ("web", "h1", 2)
    assert line.detail["description"] == "Host server is undergoing maintenance."


def test_json_lines_hold_every_column() -> None:
    """One object to a line, with the same keys in each."""
    history_harness = HistoryHarness()
    history_harness.freeze("web-0")

    written = as_json_lines(history_harness.ask(HistoryQuery()).lines)

    assert written.endswith("\n")
    assert [list(json.loads(line)) for line in written.splitlines()] == [list(COLUMNS)] * 2


def test_csv_comes_back_as_it_was() -> None:
    """Quotes, commas and ends of lines in a name or a detail survive."""
    history_harness = HistoryHarness()
    event = history_harness.freeze("web-0")
    history_harness.do(CancelEvent(id=history_harness.id(), by=ODD, event=event))
    lines = history_harness.ask(HistoryQuery(event=event)).lines

    head, canceled, announced = csv.reader(io.StringIO(as_csv(lines), newline=""))

    assert tuple(head) == COLUMNS
    assert dict(zip(head, canceled, strict=True))["by"] == ODD.name
    assert json.loads(dict(zip(head, canceled, strict=True))["detail"]) == lines[0].detail
    assert dict(zip(head, announced, strict=True))["at"] == "2026-03-01T01:00:00Z"
    assert dict(zip(head, announced, strict=True))["vms"] == "web-0"


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_a_name_is_no_formula_of_a_spreadsheet(name: str) -> None:
    """It begins with an apostrophe, which spreadsheets take for text."""
    history_harness = HistoryHarness()
    event = history_harness.freeze("web-0")
    history_harness.do(CancelEvent(id=history_harness.id(), by=msgspec.structs.replace(ODD, name=name), event=event))

    head, canceled, _ = csv.reader(io.StringIO(as_csv(history_harness.ask(HistoryQuery(event=event)).lines)))

    assert dict(zip(head, canceled, strict=True))["by"] == f"'{name}"


def test_a_table_can_be_continued() -> None:
    """Later pages are written without the head."""
    lines = HistoryHarness().ask(HistoryQuery()).lines

    assert as_csv(lines) == ",".join(COLUMNS) + "\r\n" + as_csv(lines, with_head=False)


def test_an_observation_stands_in_the_history_of_its_vm() -> None:
    """What befell a machine is told with its group, what it was and when it was seen."""
    history_harness = HistoryHarness()
    seen_at = history_harness.now
    history_harness.do(
        RecordObservation(
            id=history_harness.id(),
            by=NODE,
            observation=Observation("web-0", ObservationKind.REBOOTED, seen_at, "by hand"),
        )
    )

    line = history_harness.ask(HistoryQuery(vm="web-0")).lines[0]

    assert (line.fact, line.vms, line.group) == ("observed", ("web-0",), "web")
    assert line.detail == {"what": "rebooted", "at": msgspec.to_builtins(seen_at), "detail": "by hand"}


def test_a_fact_names_its_group_where_the_announcement_was_deleted() -> None:
    """What else the event was is not known any more."""
    fact = Canceled("e1", NOON, "canceled by ann", group="web")
    formatter = HistoryFormatter(lambda _: None, lambda _: "", HistoryFocus())

    (line,) = formatter.lines(Entry(7, NOON, "c", NODE, (fact,)))

    assert (line.event, line.group, line.type, line.vms) == ("E1", "web", "", ())


@pytest.mark.parametrize(
    ("focus", "named"),
    [
        (HistoryFocus(), ["h1", "web", "web-0"]),
        (HistoryFocus(host="h1"), ["h1"]),
        (HistoryFocus(groups=frozenset({"web"})), ["web"]),
        (HistoryFocus(vm="web-0"), ["web-0"]),
        (HistoryFocus(vm="web-1"), []),
    ],
)
def test_a_change_that_is_held_says_of_which_record_and_why(focus: HistoryFocus, named: list[str]) -> None:
    """Each record has a line of its own, where it is asked for."""
    kinds = {"h1": RecordKind.HOST, "web": RecordKind.GROUP, "web-0": RecordKind.VM}
    held = ChangesHeld(
        tuple(HeldChange(kind, name, HoldReason.EVENT, ("labels",), "e1") for name, kind in kinds.items())
    )
    formatter = HistoryFormatter(lambda _: None, lambda _: "", focus)

    lines = list(formatter.lines(Entry(7, NOON, "c", NODE, (held,))))

    assert [line.host or line.group or line.vms[0] for line in lines] == named
    assert all(line.detail == {"held": True, "because": "e1", "keys": ["labels"]} for line in lines)


def test_a_fleet_file_that_replaced_nothing_and_left_out_nothing_says_nothing_of_it() -> None:
    """Only what happened stands in the detail."""
    formatter = HistoryFormatter(lambda _: None, lambda _: "", HistoryFocus())
    declared = FleetDeclared(3, source="fleet.toml", hosts=(Host("h1"),))

    (line,) = formatter.lines(Entry(7, NOON, "c", NODE, (declared,)))

    assert line.detail == {"hosts": 1, "revision": 3, "source": "fleet.toml"}
