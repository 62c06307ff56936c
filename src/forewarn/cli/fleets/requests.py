"""Sends a fleet file to the service: validated, and as the diff to the declaration last applied."""

from hashlib import sha256
from pathlib import Path

import msgspec

from forewarn.config import toml
from forewarn.control.bodies import DeclarationBody, DeclarationPage, DifferencesView, PlanView
from forewarn.control.client import ControlClient
from forewarn.control.views import CommandResult
from forewarn.core.errors import BadInput, Unavailable
from forewarn.fleetfile.diff import CurrentFleet, FleetDiff, diff_fleet
from forewarn.fleetfile.parser import parse_fleet

_ATTEMPTS = 5


def apply_file(
    client: ControlClient, file: str, *, exact: bool, cancel_events: bool, yes: bool
) -> tuple[CommandResult, DifferencesView, bool]:
    """Have a file applied; return what was done, what differs from it then, and whether it was recorded first.

    It is, and nothing is changed, where the fleet is from a release that recorded no declaration.
    """
    body, change, is_missing = _compared(client, file)
    body = msgspec.structs.replace(body, exact=exact, cancel_events=cancel_events, yes=yes)
    return client.apply_declaration(body, change), client.differences(), is_missing and not exact


def plan_file(
    client: ControlClient, file: str, *, exact: bool = False, cancel_events: bool = False, yes: bool = False
) -> PlanView:
    """Ask what applying a file would do."""
    body, change, _ = _compared(client, file)
    return client.plan_declaration(
        msgspec.structs.replace(body, exact=exact, cancel_events=cancel_events, yes=yes), change
    )


def _compared(client: ControlClient, file: str) -> tuple[DeclarationBody, FleetDiff, bool]:
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror or error}") from None
    desired = parse_fleet(toml.decode(content, file))
    digest = sha256(content).hexdigest()
    for _ in range(_ATTEMPTS):
        pages = list(client.declaration())
        # A change between two pages may be in neither of them.
        if len({(page.revision, page.changes) for page in pages}) == 1:
            change = diff_fleet(desired, _declared(pages))
            first = pages[0]
            return DeclarationBody(seen=first.revision, digest=digest, source=file), change, first.is_missing
    raise Unavailable("the fleet cannot be read completely because it keeps changing; try again")


def _declared(pages: list[DeclarationPage]) -> CurrentFleet:
    return CurrentFleet(
        hosts={host.name: host for page in pages for host in page.hosts},
        groups={terms.name: terms for page in pages for terms in page.groups},
        vms={vm.name: vm for page in pages for vm in page.vms},
    )
