"""What is said of a fleet file."""

from pathlib import Path

from forewarn.cli.fleet_plans import planned
from forewarn.control.bodies import PlanView
from forewarn.core.declared_keys import RecordDifference, RecordKind
from tests.cli.conftest import Forewarn
from tests.harness import FLEET, ApiHarness


def test_a_vm_on_another_host_is_not_said_to_be_moved_by_exact() -> None:
    """``--exact`` does not move VMs, so the plan names the command that does, where the file names a host."""
    differences = (
        RecordDifference(RecordKind.VM, "web-0", keys={"host": ("h2", "h1"), "zone": ("1", "2")}),
        RecordDifference(RecordKind.VM, "web-1", keys={"host": ("", "h1")}),
    )

    assert list(planned(PlanView(revision=1, is_first=False, differences=differences), "fleet.toml")) == [
        "differs from fleet.toml and stays so (--exact makes it equal):",
        '  vm web-0: zone is "2", in the file "1"',
        "stand on another host than fleet.toml says (only a move changes that):",
        "  vm web-0: on h1, in the file h2; to move it: forewarn vm move web-0 h2",
        "  vm web-1: on h1, in the file no host",
    ]


def test_values_are_written_as_the_file_has_them() -> None:
    """Durations in ISO 8601, and a key without a value is called unset."""
    keys: dict[str, tuple[object, object]] = {"terminate_notice": (600, None), "quiet_hours": (["22:00-06:00"], [])}
    plan = PlanView(revision=1, is_first=False, differences=(RecordDifference(RecordKind.GROUP, "web", keys=keys),))

    assert list(planned(plan, "fleet.toml"))[1:] == [
        '  group web: terminate_notice is unset, in the file "PT10M"',
        '  group web: quiet_hours is [], in the file ["22:00-06:00"]',
    ]


def test_a_first_file_is_said_to_be_recorded_and_its_differences_are_listed(
    harness: ApiHarness, forewarn: Forewarn, tmp_path: Path
) -> None:
    """No file was applied before where the journal is from a release that recorded no declaration."""
    last = harness.node.replica.fleet.last_applied
    last.revision, last.is_missing = 0, True
    file = tmp_path / "fleet.toml"
    file.write_text(FLEET + '[[vm]]\nname = "new"\n', encoding="utf-8")

    first = forewarn("fleet", "apply", str(file)).out
    assert "is now recorded as the declaration" in " ".join(first.split())
    assert "and nothing was changed" in " ".join(first.split())
    assert (
        f"differs from {file} and stays so (--exact makes it equal):\n  vm new: in the file, not in the fleet\n"
        in first
    )
    assert "last applied" not in first

    assert forewarn("fleet", "apply", str(file)).out.startswith(
        f"nothing changed in {file} since it was last applied"
    )
