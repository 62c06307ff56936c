"""The fleet file over the control API: read, planned, applied, and what differs from it."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.cli.fleet_plans import apply_file, plan_file
from forewarn.control.api import declaration
from forewarn.control.bodies import DeclarationBody, PlanView
from forewarn.control.client import ControlClient
from forewarn.control.server import declaration_views
from forewarn.control.server.fleet_applier import TOPIC
from forewarn.core.errors import Refused
from forewarn.core.fleet import Fleet
from forewarn.core.model import Host, Vm
from forewarn.fleetfile.diff import FleetDiff
from forewarn.node.large_change import LargeChangeSizes
from tests.harness import FLEET, ApiHarness


@pytest.fixture
def client(harness: ApiHarness) -> Iterator[ControlClient]:
    with ControlClient.local(harness.directory) as found:
        yield found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET, encoding="utf-8")
    return path


def test_a_stale_declaration_is_a_conflict(harness: ApiHarness, client: ControlClient) -> None:
    """409: somebody else applied a file in the meantime."""
    said = harness.ask("POST", "/v1/fleet/declaration", {"hosts": [{"name": "h9"}], "seen": 0})

    assert said.status == 409
    assert "another fleet file was applied in the meantime" in said.json["detail"]
    client.apply_declaration(DeclarationBody(seen=1), FleetDiff(hosts=(Host("h9"),)))
    with pytest.raises(Refused, match="revision 2, not 1"):
        client.apply_declaration(DeclarationBody(seen=1), FleetDiff(hosts=(Host("h8"),)))


def test_the_declaration_has_what_is_gone_and_not_what_was_added(client: ControlClient) -> None:
    """It is read in pages of any size."""
    whole = {vm.name for page in client.declaration() for vm in page.vms}
    client.change_fleet(FleetDiff(vms=(Vm("web-9", "web"),)))
    client.change_fleet(FleetDiff(removed_vms=("web-1",)))

    for size in (1, 2, 1_000):
        pages = list(client.declaration(size))
        assert {vm.name for page in pages for vm in page.vms} == whole
        assert {page.revision for page in pages} == {1}


def test_a_plan_changes_nothing_and_tells_all(harness: ApiHarness, client: ControlClient, file: Path) -> None:
    """What changes, what is in the way, and what stays otherwise than the file has it."""
    client.change_fleet(FleetDiff(vms=(Vm("web-9", "web"),)))
    harness.ask("POST", "/v1/vms/web-1/operations", {"operation": "freeze"})
    head, _, tail = FLEET.partition('[[vm]]\nname = "web-1"')
    file.write_text(head + tail[tail.index("[[") :] + '[[vm]]\nname = "new"\n', encoding="utf-8")
    revision = harness.node.replica.revision

    plan = plan_file(client, str(file))

    assert harness.node.replica.revision == revision
    assert {(each.action, each.kind, each.name) for each in plan.changes} >= {
        ("remove", "vm", "web-1"),
        ("add", "vm", "new"),
    }
    assert [(each.vm, each.status) for each in plan.blocked] == [("web-1", "Scheduled")]
    assert plan.canceled == (), "it would be refused instead"
    assert [each.name for each in plan.differences] == ["web-9"]
    with pytest.raises(Refused, match="pass --cancel-events"):
        apply_file(client, str(file), exact=False, cancel_events=False, yes=False)
    result, left, _ = apply_file(client, str(file), exact=True, cancel_events=True, yes=False)
    assert (len(result.canceled), left.total, left.held) == (1, 0, ())


def test_a_plan_tells_the_keys_that_change(client: ControlClient, file: Path) -> None:
    """The old value and the new one; a host is not changed by a file."""
    text = FLEET.replace('address = "10.0.0.1"', 'address = "10.0.0.9"', 1).replace('host = "h1"', 'host = "h2"')
    file.write_text(text, encoding="utf-8")

    plan = plan_file(client, str(file))

    assert [(each.action, each.name, each.keys) for each in plan.changes] == [
        ("change", "web-0", {"address": ("10.0.0.1", "10.0.0.9")})
    ]


@pytest.mark.parametrize("size", [2, 1_000])
def test_a_large_plan_is_made_in_a_thread(
    client: ControlClient, harness: ApiHarness, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """On a copy of the fleet, so that neither waits for the other; a small one is made at once."""
    made: list[tuple[bool, bool]] = []

    def view_plan(fleet: Fleet, *rest: Any) -> PlanView:
        made.append((fleet is harness.node.replica.fleet, threading.current_thread().name.startswith("asyncio_")))
        return declaration_views.view_plan(fleet, *rest)

    monkeypatch.setattr(declaration, "view_plan", view_plan)
    harness.node.writer.large_change_sizes = LargeChangeSizes(size, size)

    plan = client.plan_declaration(DeclarationBody(seen=1), FleetDiff(hosts=(Host("h7"), Host("h8"))))

    assert [each.name for each in plan.changes] == ["h7", "h8"]
    assert made == [(size > 2, size == 2)]


def test_a_file_that_is_applied_ends_the_warning_about_the_one_before(
    harness: ApiHarness, client: ControlClient, file: Path
) -> None:
    """Also where the file is the one that was applied last, so that nothing is recorded."""
    for _ in range(2):
        harness.node.warnings[TOPIC] = "the fleet file was not applied"
        apply_file(client, str(file), exact=False, cancel_events=False, yes=False)

        assert TOPIC not in harness.node.warnings


def test_the_first_file_after_an_upgrade_is_recorded_and_every_difference_logged(
    harness: ApiHarness, client: ControlClient, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As at a start: what was declared before is not known."""
    last = harness.node.replica.fleet.last_applied
    last.revision, last.is_missing = 0, True
    file.write_text(FLEET + '[[vm]]\nname = "new"\n', encoding="utf-8")
    result, left, is_first = apply_file(client, str(file), exact=False, cancel_events=False, yes=False)

    assert (result.changed, left.total, is_first) == ({}, 1, True)
    assert f'the fleet differs from the fleet file file={file} vm=new reason="it is in the file only"' in caplog.text
