"""Applies a fleet file at start and reload; recorded state never makes it fail, and an unchanged file is skipped."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from forewarn.config import toml
from forewarn.core.commands import ApplyDeclaration
from forewarn.core.declared_keys import DeclarationConflict, HeldChange, RecordDifference, ReplacedValue
from forewarn.core.drift import find_drift
from forewarn.core.errors import BadInput, ForewarnError, Refused
from forewarn.core.facts import AnyFact, Canceled, ChangesHeld, FleetChanged, FleetDeclared
from forewarn.core.model import Caller
from forewarn.fleetfile.diff import CurrentFleet, diff_fleet
from forewarn.fleetfile.parser import DesiredFleet, parse_fleet
from forewarn.node.node import Node
from forewarn.randomness import new_id
from forewarn.wire.facts import describe_held

log = logging.getLogger(__name__)

TOPIC = "fleet file"
_ATTEMPTS = 5
_NAMED = 5
_LOGGED = 50


class FleetFileReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of applying a fleet file."""

    source: str
    problem: str = ""
    """Why the file was not applied at all; empty if it was."""
    is_unchanged: bool = False
    """The file is identical to the one applied last."""
    is_first: bool = False
    """The fleet was created by a release without declarations: the file was only recorded, and nothing changed."""
    changed: dict[str, int] = {}
    canceled: tuple[str, ...] = ()
    held: tuple[HeldChange, ...] = ()
    left_out: tuple[DeclarationConflict, ...] = ()
    replaced: tuple[ReplacedValue, ...] = ()


class FleetApplier:
    """Applies the configured fleet file at start and reload."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def apply_file(self, path: Path, by: Caller, *, strict: bool = False) -> FleetFileReport:
        """Apply a file; raise its errors if the fleet is empty, or ``strict`` is set.

        On a fleet that is not empty an invalid file changes nothing; log, health and doctor report it.
        """
        try:
            content = await asyncio.to_thread(_content, path)
            report = await self._apply(content, str(path), by)
        except ForewarnError as wrong:
            if strict or self._node.replica.fleet.is_empty:
                raise
            report = FleetFileReport(source=str(path), problem=str(wrong))
        note_applied(self._node, report.source, is_first=report.is_first)
        self._report(report)
        return report

    async def _apply(self, content: bytes, source: str, by: Caller) -> FleetFileReport:
        digest = sha256(content).hexdigest()
        last = self._node.replica.fleet.last_applied
        if last.revision and last.digest == digest:
            return FleetFileReport(source=source, is_unchanged=True, held=tuple(last.held))
        desired = await asyncio.to_thread(lambda: parse_fleet(toml.decode(content, source)))
        is_first = self._node.replica.fleet.last_applied.is_missing
        facts = await apply_desired_fleet(self._node, desired, by, digest=digest, source=source, is_start=True)
        held = tuple(self._node.replica.fleet.last_applied.held)
        return msgspec.structs.replace(report_of(facts, source), is_first=is_first, held=held)

    def _report(self, report: FleetFileReport) -> None:
        if warning := "; ".join(_warnings(report)):
            self._node.warnings[TOPIC] = warning
        _log(report)


def check_file(path: Path) -> None:
    """Raise what is wrong with a fleet file in itself."""
    parse_fleet(toml.decode(_content(path), str(path)))


def note_applied(node: Node, source: str, *, is_first: bool) -> None:
    """Remove the warning about an earlier file; log every difference to the first file, which changed nothing."""
    node.warnings.pop(TOPIC, None)
    if is_first:
        log_differences(tuple(find_drift(node.replica.fleet)), source)


async def apply_desired_fleet(
    node: Node, desired: DesiredFleet, by: Caller, *, digest: str = "", source: str = "", is_start: bool = False
) -> tuple[AnyFact, ...]:
    """Apply a declaration; retry if another one is applied meanwhile."""
    for attempt in range(_ATTEMPTS):
        fleet = node.replica.fleet.copy()
        seen = fleet.last_applied.revision
        change = await asyncio.to_thread(lambda fleet: diff_fleet(desired, CurrentFleet.last_applied(fleet)), fleet)
        command = ApplyDeclaration(
            id=new_id(),
            by=by,
            seen=seen,
            digest=digest,
            source=source,
            is_start=is_start,
            **msgspec.structs.asdict(change),
        )
        try:
            return await node.submit(command)
        except Refused:
            is_stale = seen != node.replica.fleet.last_applied.revision
            if not is_stale or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def report_of(facts: tuple[AnyFact, ...], source: str) -> FleetFileReport:
    changed: dict[str, int] = {}
    left_out: tuple[DeclarationConflict, ...] = ()
    replaced: tuple[ReplacedValue, ...] = ()
    held: list[HeldChange] = []
    for fact in facts:
        match fact:
            case FleetChanged():
                changed = fact.counts()
            case FleetDeclared():
                left_out, replaced = fact.left_out, fact.replaced
            case ChangesHeld(changes=changes):
                held += changes
    canceled = tuple(fact.event for fact in facts if isinstance(fact, Canceled))
    return FleetFileReport(
        source=source, changed=changed, canceled=canceled, held=tuple(held), left_out=left_out, replaced=replaced
    )


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None


def _warnings(report: FleetFileReport) -> Iterator[str]:
    """Yield warnings for an operator; held changes are reported separately until they are carried out."""
    if report.problem:
        yield f"the fleet file was not applied and the fleet was not changed: {report.problem}"
    if report.left_out:
        said = [each.said for each in report.left_out]
        more = f" and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
        yield f"left out of {report.source}: {', '.join(said[:_NAMED])}{more}"
    if report.is_first:
        yield (
            f"{report.source} was recorded as the declaration and changed nothing, because the previous release "
            f"recorded none: check 'forewarn fleet diff {report.source}'; 'forewarn fleet apply --exact "
            f"{report.source}' removes the differences"
        )


def _log(report: FleetFileReport) -> None:
    where: dict[str, object] = {"file": report.source}
    if report.problem:
        log.warning(
            "the fleet file was not applied; the fleet was not changed",
            extra={"fields": {**where, "reason": report.problem}},
        )
    for conflict in report.left_out[:_LOGGED]:
        fields = {**where, conflict.kind.value: conflict.name, "reason": conflict.said}
        log.warning("an entry of the fleet file was left out", extra={"fields": fields})
    if report.is_first:
        log.warning(
            "the fleet file was recorded as the declaration and changed nothing, because the last release recorded"
            " none; 'forewarn fleet diff' shows the differences, 'forewarn fleet apply --exact' removes them",
            extra={"fields": where},
        )
    for replaced in report.replaced[:_LOGGED]:
        was = msgspec.json.decode(replaced.value)
        fields = {**where, replaced.kind.value: replaced.name, "key": replaced.key, "was": was}
        log.warning("the fleet file replaced a value", extra={"fields": fields})
    for held in report.held[:_LOGGED]:
        fields = {**where, held.kind.value: held.name, "reason": describe_held(held)}
        log.warning("a change of the fleet file is held", extra={"fields": fields})


def log_differences(found: Iterable[RecordDifference], source: str) -> None:
    """Log a line for each record that differs from the file."""
    for differing in found:
        fields = {"file": source, **dict(_fields(differing))}
        log.warning("the fleet differs from the fleet file", extra={"fields": fields})


def _fields(differing: RecordDifference) -> Iterator[tuple[str, object]]:
    yield differing.kind.value, differing.name
    if not differing.is_declared:
        yield "reason", "it is not in the file"
    elif not differing.is_present:
        yield "reason", "it is in the file only"
    for key, (declared, current) in differing.keys.items():
        yield key, current
        yield f"{key}_in_file", declared
