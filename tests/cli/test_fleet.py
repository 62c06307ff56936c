"""What is said of a fleet file that is applied."""

from pathlib import Path

import pytest

from forewarn.cli.fleet import _counted
from tests.cli.conftest import Forewarn
from tests.harness import FLEET, ApiHarness


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"hosts": 1}, "1 host"),
        ({"hosts": 2, "vms": 1}, "2 hosts and 1 VM"),
        ({"hosts": 1, "groups": 3, "vms": 9, "removed_vms": 5}, "1 host, 3 groups and 9 VMs"),
    ],
)
def test_records_are_counted_in_words(changed: dict[str, int], text: str) -> None:
    """What is none is left out."""
    assert _counted(changed, "") == text


def test_a_dry_run_shows_the_plan(harness: ApiHarness, forewarn: Forewarn, tmp_path: Path) -> None:
    """In sentences, or as JSON; nothing is done."""
    (tmp_path / "fleet.toml").write_text(f'{FLEET}[[host]]\nname = "h9"\n', encoding="utf-8")
    told = forewarn("fleet", "apply", "fleet.toml", "--dry-run")

    assert (told.code, "h9" in told.out) == (0, True)
    (change,) = forewarn("fleet", "apply", "fleet.toml", "--dry-run", "--json").json["changes"]
    assert (change["action"], change["kind"], change["name"]) == ("add", "host", "h9")
    assert "h9" not in harness.node.replica.fleet.hosts
