"""What the log tells of a fleet file: one line for each thing, its names as fields."""

from pathlib import Path

import pytest

from forewarn.control.server.fleet_applier import FleetApplier, FleetFileReport, _log, log_differences
from forewarn.core.declared_keys import (
    DeclarationConflict,
    HeldChange,
    HoldReason,
    RecordDifference,
    RecordKind,
    ReplacedValue,
)
from forewarn.core.model import NODE
from tests.harness import FLEET, ApiHarness


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (
            FleetFileReport(source="fleet.toml", problem="line 3: there is no key 'adress'"),
            (
                "the fleet file was not applied; the fleet was not changed file=fleet.toml"
                " reason=\"line 3: there is no key 'adress'\""
            ),
        ),
        (
            FleetFileReport(
                source="fleet.toml",
                left_out=(DeclarationConflict(RecordKind.VM, "web-0", "10.0.0.1 is taken", "db"),),
            ),
            'an entry of the fleet file was left out file=fleet.toml vm=web-0 reason="10.0.0.1 is taken"',
        ),
        (
            FleetFileReport(
                source="fleet.toml", replaced=(ReplacedValue(RecordKind.GROUP, "web", "zones", '["1","2"]'),)
            ),
            "the fleet file replaced a value file=fleet.toml group=web key=zones was=1,2",
        ),
        (
            FleetFileReport(
                source="fleet.toml", held=(HeldChange(RecordKind.VM, "web-0", HoldReason.EVENT, (), "8e5b"),)
            ),
            (
                "a change of the fleet file is held file=fleet.toml vm=web-0"
                ' reason="VM web-0: addition waits until event 8E5B ends"'
            ),
        ),
    ],
)
def test_each_finding_is_a_line_with_fields(
    report: FleetFileReport, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The message is the same for every file and record."""
    _log(report)
    assert caplog.text.partition("warning: ")[2].rstrip("\n") == line


@pytest.mark.parametrize(
    ("difference", "line"),
    [
        (RecordDifference(RecordKind.VM, "db", keys={"zone": ("1", "2")}), "vm=db zone=2 zone_in_file=1"),
        (RecordDifference(RecordKind.VM, "x", is_declared=False), 'vm=x reason="it is not in the file"'),
        (RecordDifference(RecordKind.HOST, "h", is_present=False), 'host=h reason="it is in the file only"'),
    ],
)
def test_each_difference_is_a_line_with_fields(
    difference: RecordDifference, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It names both values, or where the record is missing."""
    log_differences([difference], "fleet.toml")
    assert f"the fleet differs from the fleet file file=fleet.toml {line}\n" in caplog.text


def test_at_a_start_what_an_event_blocks_is_held(harness: ApiHarness, tmp_path: Path) -> None:
    """The service starts, and carries out the rest of the file."""
    harness.enrol("web", "web-0")
    harness.ask("POST", "/v1/vms/web-0/operations", {"operation": "freeze"})
    declared = FLEET.replace('address = "10.0.0.1"', 'address = "10.0.0.1"\nupdate_domain = 3')
    file = tmp_path / "fleet.toml"
    file.write_text(f'{declared}[[host]]\nname = "h3"\n', encoding="utf-8")
    report = harness.run(lambda: FleetApplier(harness.node).apply_file(file, NODE))

    assert (report.problem, [each.name for each in report.held]) == ("", ["web-0"])
    assert "h3" in harness.node.replica.fleet.hosts
    assert harness.node.replica.fleet.vms["web-0"].update_domain == 0
