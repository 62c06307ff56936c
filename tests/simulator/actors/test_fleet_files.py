"""The fleet file of a simulation, and how an operator applies it."""

from pathlib import Path

import msgspec
import pytest

from forewarn.config import toml
from forewarn.control.bodies import DeclarationBody, DeclarationPage
from forewarn.fleetfile.parser import parse_fleet
from forewarn.simulator.actors.fleet_files import FleetFile, request_to_apply
from tests.simulator.plans import large_plan


def page_of(file: FleetFile, revision: int = 3) -> DeclarationPage:
    """Return what the service tells after the file was applied."""
    desired = parse_fleet(toml.decode(file.path.read_bytes(), "fleet.toml"))
    return DeclarationPage(
        revision=revision,
        digest="",
        source="",
        is_missing=False,
        changes=1,
        hosts=tuple(desired.hosts.values()),
        groups=tuple(desired.groups.values()),
        vms=tuple(desired.vms.values()),
    )


def request(file: FleetFile, how: str, page: DeclarationPage) -> DeclarationBody:
    return msgspec.json.decode(request_to_apply(file.path.read_bytes(), how, [page]), type=DeclarationBody)


def test_only_what_was_edited_is_sent(tmp_path: Path) -> None:
    """As ``fleet apply`` does: the difference to the declaration last applied, and its revision."""
    file = FleetFile(tmp_path / "fleet.toml", large_plan())
    page = page_of(file)
    file.edit("remove-vm", "web-0", "-")
    file.edit("add-host", "h7", "-")

    body = request(file, "plainly", page)

    assert (body.seen, body.removed_vms, [host.name for host in body.hosts]) == (3, ("web-0",), ["h7"])
    assert (body.vms, body.groups, body.exact, body.cancel_events, body.yes) == ((), (), False, False, False)


@pytest.mark.parametrize(
    ("how", "seen", "flags"),
    [
        ("with-yes", 3, (False, False, True)),
        ("with-exact", 3, (True, False, False)),
        ("with-exact-and-cancel-events", 3, (True, True, False)),
        ("stale", 2, (False, False, False)),
    ],
)
def test_a_file_is_applied_as_asked(tmp_path: Path, how: str, seen: int, flags: tuple[bool, ...]) -> None:
    """Each way is one of the flags of ``fleet apply``, or names a declaration that was replaced."""
    file = FleetFile(tmp_path / "fleet.toml", large_plan())

    body = request(file, how, page_of(file))

    assert body.seen == seen
    assert (body.exact, body.cancel_events, body.yes) == flags


def test_a_file_that_is_wrong_is_not_sent(tmp_path: Path) -> None:
    """The command line checks a file before it sends it."""
    file = FleetFile(tmp_path / "fleet.toml", large_plan())
    page = page_of(file)
    file.edit("spoil", "-", "-")

    assert request_to_apply(file.path.read_bytes(), "plainly", [page]) == ""
