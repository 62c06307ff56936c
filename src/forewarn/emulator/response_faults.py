"""Parses responses of the service, and applies the faults that change them."""

import random
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime

import msgspec

from forewarn.core.facts import Enrolled, SwitchedOff
from forewarn.core.fleet import Fleet
from forewarn.emulator.faults import Fault, FaultKind
from forewarn.node.feed import Commit
from forewarn.wire.dates import read_time


class ServiceResponse(msgspec.Struct, frozen=True):
    """One HTTP response."""

    line: bytes
    """The status line."""
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @classmethod
    def read(cls, answer: bytes) -> "ServiceResponse":
        head, _, body = answer.partition(b"\r\n\r\n")
        line, *lines = head.split(b"\r\n")
        headers = tuple((name, value) for name, _, value in (each.partition(b": ") for each in lines))
        return cls(line, headers, body)

    @property
    def status(self) -> int:
        return int(self.line.split(b" ")[1])

    @property
    def head(self) -> bytes:
        return b"\r\n".join((self.line, *(b"%b: %b" % header for header in self.headers), b"", b""))

    def encode(self) -> bytes:
        return self.head + self.body

    def with_header(self, name: bytes, change: Callable[[bytes], bytes]) -> "ServiceResponse":
        """Change a header if it is present."""
        headers = tuple((key, change(value) if key == name else value) for key, value in self.headers)
        return msgspec.structs.replace(self, headers=headers)

    def with_body(self, body: bytes) -> "ServiceResponse":
        changed = self.with_header(b"Content-Length", lambda _: b"%d" % len(body))
        return msgspec.structs.replace(changed, body=body)


_INCARNATION = re.compile(rb'(?<="DocumentIncarnation":)\d+')
_NOT_BEFORE = re.compile(rb'(?<="NotBefore":")[^"]+')
_MOST_SKIPPED = 5


class ShownIncarnations:
    """The incarnations that faults show instead of the true ones."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._offs: set[str] = set()
        """The groups that were switched off at least once: their next enrolment is a new one."""
        self._bases: dict[str, int] = {}
        """The true incarnation at the group's latest re-enrolment, less one."""
        self._shown: dict[tuple[str, str], list[int]] = {}

    def load(self, fleet: Fleet) -> None:
        """Do nothing: no group was switched off before the start."""

    def publish(self, commit: Commit) -> None:
        for entry in commit.entries:
            for fact in entry.facts:
                if isinstance(fact, SwitchedOff):
                    self._offs.add(fact.group)
                elif isinstance(fact, Enrolled) and fact.group in self._offs:
                    self._bases[fact.group] = commit.fleet.groups[fact.group].incarnation - 1

    def since_switched_on(self, group: str, incarnation: int) -> int:
        """Return the incarnation as Azure counts it: from 1 at each re-enrolment of a group."""
        return incarnation - self._bases.get(group, 0)

    def redrawn(self, group: str, incarnation: int, fault: Fault) -> int:
        """Return an incarnation that repeats or skips numbers, drawn for each change of the document."""
        shown = self._shown.setdefault((group, fault.kind), [0])
        while len(shown) <= incarnation:
            draw = random.Random(f"{self._seed}/{fault.kind}/{group}/{len(shown)}")  # noqa: S311 - to be repeatable
            step = 1
            if len(shown) > 1 and draw.random() < fault.probability:
                step = 0 if fault.kind is FaultKind.REPEATED_INCARNATION else draw.randint(2, _MOST_SKIPPED)
            shown.append(shown[-1] + step)
        return shown[incarnation]


def apply_response_fault(
    reply: ServiceResponse, fault: Fault, group: str, incarnations: ShownIncarnations
) -> ServiceResponse:
    """Apply a fault to the response; faults of other kinds leave it unchanged."""
    match fault.kind:
        case FaultKind.EMPTY_BODY:
            return reply.with_body(b"")
        case FaultKind.WRONG_TYPE:
            return reply.with_header(b"Content-Type", lambda _: b"text/html")
        case FaultKind.SKEWED_DATE:
            return reply.with_header(b"Date", lambda date: _skewed(date, fault.amount))
        case FaultKind.ISO_DATES:
            return reply.with_body(_NOT_BEFORE.sub(_iso, reply.body))
        case FaultKind.REPEATED_INCARNATION | FaultKind.SKIPPED_INCARNATION:
            return _renumbered(reply, lambda number: incarnations.redrawn(group, number, fault))
        case FaultKind.INCARNATION_RESET:
            return _renumbered(reply, lambda number: incarnations.since_switched_on(group, number))
        case _:
            return reply


def _renumbered(reply: ServiceResponse, change: Callable[[int], int]) -> ServiceResponse:
    return reply.with_body(_INCARNATION.sub(lambda found: b"%d" % change(int(found[0])), reply.body, count=1))


def _skewed(date: bytes, seconds: float) -> bytes:
    skewed = parsedate_to_datetime(date.decode()).astimezone(UTC) + timedelta(seconds=seconds)
    return format_datetime(skewed, usegmt=True).encode()


def _iso(found: "re.Match[bytes]") -> bytes:
    when: datetime = read_time(found[0].decode())
    return f"{when:%Y-%m-%dT%H:%M:%SZ}".encode()
