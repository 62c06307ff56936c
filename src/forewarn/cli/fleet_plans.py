"""Sends a fleet file to the service as the diff to the declaration last applied, and shows what comes of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from forewarn.cli.output import wrapped
from forewarn.config import toml
from forewarn.control.bodies import (
    DeclarationBody,
    DeclarationPage,
    DeclaredPage,
    DifferencesView,
    PlanView,
    RecordChange,
)
from forewarn.control.client import ControlClient
from forewarn.control.views import CommandResult
from forewarn.core.declared_keys import RecordDifference, ReplacedValue
from forewarn.core.errors import BadInput, Unavailable
from forewarn.fleetfile.diff import CurrentFleet, FleetDiff, diff_fleet
from forewarn.fleetfile.formatter import format_value
from forewarn.fleetfile.parser import parse_fleet

_ATTEMPTS = 5

_SIGNS = {"add": "+", "change": "~", "remove": "-"}
_PLACE = "host"
_SHOWN = 200
"""Lines of one section that are printed; --json has all."""


def applied(
    file: str, result: CommandResult, left: DifferencesView, summary: str, *, is_first: bool = False
) -> Iterator[str]:
    if summary:
        yield summary
    elif is_first:
        yield wrapped(
            f"the fleet is from a release that recorded no declaration: {file} is now recorded as the declaration, "
            "and nothing was changed"
        )
        yield from _sections(_differing(file, left.differences))
        return
    elif left.total or left.held:
        yield f"nothing changed in {file} since it was last applied"
    else:
        yield f"the fleet is as {file} says already; nothing was changed"
    for replaced in result.replaced:
        yield wrapped(f"{replaced.kind} {replaced.name}: {replaced.key} was {_replaced(replaced)}", "replaced: ")
    for held in left.held[:_SHOWN]:
        yield wrapped(held.detail, "held: ")
    if left.total:
        records = "1 record differs" if left.total == 1 else f"{left.total} records differ"
        yield f"{records} from {file}; to see which: forewarn fleet diff {file}"


def planned(plan: PlanView, file: str) -> Iterator[str]:
    if plan.is_first:
        yield wrapped(
            f"the fleet is from a release that recorded no declaration: applying {file} records it and changes "
            f"nothing. 'forewarn fleet apply --exact {file}' makes the fleet equal to it."
        )
    sections = (
        ("would change:", [_change(each) for each in plan.changes]),
        (
            "in the way (--cancel-events cancels what is Scheduled):",
            [f"{each.vm}: event {each.event} is {each.status}" for each in plan.blocked],
        ),
        ("in conflict with the fleet, so that FILE is refused:", [each.said for each in plan.conflicts]),
        ("events that would be canceled:", list(plan.canceled)),
        ("would be held:", [each.detail for each in plan.held]),
        (
            "values from run time that would be replaced:",
            [f"{each.kind} {each.name}: {each.key} = {_replaced(each)}" for each in plan.replaced],
        ),
        *_differing(file, plan.differences),
    )
    yield from list(_sections(sections)) or [f"the fleet is as {file} says; nothing would change"]


def marks(left: DifferencesView) -> Mapping[tuple[str, str], list[str]]:
    """Return comments with the differences from the file, by record; those of absent records under ''."""
    notes: dict[tuple[str, str], list[str]] = {}
    for each in left.differences:
        if not each.is_present:
            notes.setdefault(("", ""), []).append(f"# {each.kind} {each.name} is in {_file(left)}, not in the fleet")
        elif not each.is_declared:
            notes[each.kind, each.name] = [f"# not in {_file(left)}"]
        else:
            notes[each.kind, each.name] = [
                f"# in {_file(left)}: {key} = {_value(key, declared)}" for key, (declared, _) in each.keys.items()
            ]
    for held in left.held:
        notes.setdefault((held.kind, held.name), []).append(f"# held: {held.detail}")
    return notes


def _file(left: DifferencesView) -> str:
    return left.source or "the fleet file"


def _differing(file: str, differences: tuple[RecordDifference, ...]) -> tuple[tuple[str, list[str]], ...]:
    return (
        (
            f"differs from {file} and stays so (--exact makes it equal):",
            [line for each in differences for line in _difference(each)],
        ),
        (
            f"stand on another host than {file} says (only a move changes that):",
            [_moved(each) for each in differences if _PLACE in each.keys],
        ),
    )


def _sections(sections: Iterable[tuple[str, list[str]]]) -> Iterator[str]:
    return (line for title, lines in sections for line in _section(title, lines))


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield title
        yield from (wrapped(line, "  ") for line in lines[:_SHOWN])
        if len(lines) > _SHOWN:
            yield f"  and {len(lines) - _SHOWN} more; --json has all"


def _change(change: RecordChange) -> str:
    keys = "; ".join(f"{key}: {_value(key, old)} -> {_value(key, new)}" for key, (old, new) in change.keys.items())
    return f"{_SIGNS[change.action]} {change.kind} {change.name}" + (f"  {keys}" if keys else "")


def _difference(each: RecordDifference) -> Iterable[str]:
    what = f"{each.kind} {each.name}"
    if not each.is_declared:
        return [f"{what}: not in the file"]
    if not each.is_present:
        return [f"{what}: in the file, not in the fleet"]
    return [
        f"{what}: {key} is {_value(key, current)}, in the file {_value(key, declared)}"
        for key, (declared, current) in each.keys.items()
        if key != _PLACE
    ]


def _moved(each: RecordDifference) -> str:
    declared, current = each.keys[_PLACE]
    remedy = f"; to move it: forewarn vm move {each.name} {declared}" if declared else ""
    return f"vm {each.name}: on {current or 'no host'}, in the file {declared or 'no host'}{remedy}"


def _value(key: str, value: object) -> str:
    return "unset" if value is None else format_value(key, value)


def _replaced(replaced: ReplacedValue) -> str:
    return _value(replaced.key, msgspec.json.decode(replaced.value))


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
            change = diff_fleet(desired, fleet_of_pages(pages))
            first = pages[0]
            return DeclarationBody(seen=first.revision, digest=digest, source=file), change, first.is_missing
    raise Unavailable("the fleet cannot be read completely because it keeps changing; try again")


def fleet_of_pages(pages: Sequence[DeclarationPage | DeclaredPage]) -> CurrentFleet:
    return CurrentFleet(
        hosts={host.name: host for page in pages for host in page.hosts},
        groups={terms.name: terms for page in pages for terms in page.groups},
        vms={vm.name: vm for page in pages for vm in page.vms},
    )
