"""An entry becomes a row and comes back, whatever its facts."""

from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from zlib import crc32

import msgspec
import pytest
from msgspec.structs import replace

from forewarn.core.facts import AnyFact, Entry, FleetChanged, RecordedRequest
from forewarn.core.model import NODE
from forewarn.journal.codec import EncodedFacts, pack, unpack, unpack_beginning, unpack_cause, unpack_one
from forewarn.journal.port import DamagedJournal, NewerJournal

PLACE = Path("journal.sqlite3")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def sample(kind: Any, name: str = "") -> Any:
    """Make a value of any type that facts are made of, with something in every field."""
    match get_origin(kind), get_args(kind):
        case (None, _) if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            hints = get_type_hints(kind)
            return kind(**{field: sample(hints[field], field) for field in kind.__struct_fields__})
        case (None, _) if isinstance(kind, type) and issubclass(kind, Enum):
            return next(iter(kind))
        case (None, _):
            return {str: f'a "{name}" ä', int: 300, bool: True, float: 0.5, datetime: NOON}[kind]
        case (origin, (first, *_)) if origin is UnionType or origin is Union:
            return sample(first, name)
        case (origin, (key, value)) if origin is dict:
            return {sample(key, name): sample(value, name)}
        case (_, (each, *_)):
            return (sample(each, name),)


EVERY_FACT: list[AnyFact] = [sample(kind) for kind in get_args(AnyFact)]


@pytest.mark.parametrize("fact", EVERY_FACT, ids=lambda fact: type(fact).__name__)
def test_every_fact_survives(fact: AnyFact) -> None:
    """Encoding and decoding give the same entry."""
    entry = Entry(7, NOON, "command", NODE, (fact,))

    assert list(unpack(pack([entry]), PLACE, 6)) == [entry]


@pytest.mark.parametrize("fact", EVERY_FACT, ids=lambda fact: type(fact).__name__)
@pytest.mark.parametrize("request_", [None, RecordedRequest("print", ('"facts":[]',))])
def test_facts_that_were_encoded_in_pieces_are_the_same_bytes(
    fact: AnyFact, request_: RecordedRequest | None
) -> None:
    """What is long is cut, what has its default is left out, and the other entries of an append are as usual."""
    values = {name: getattr(fact, name) for name in fact.__struct_fields__}
    long = replace(fact, **{name: value * 5 for name, value in values.items() if isinstance(value, tuple)})
    plain = FleetChanged(removed_vms=tuple("abcde"))
    facts: tuple[AnyFact, ...] = (long, fact, plain)
    entry = Entry(7, NOON, '"facts":[]', NODE, facts, request_)
    other = Entry(8, NOON, "other", NODE, (fact,))

    assert pack([entry, other], EncodedFacts(facts, piece_size=2)) == pack([entry, other])
    assert unpack_cause(*pack([entry])[0], PLACE) == Entry(7, NOON, entry.command, NODE, ())


@pytest.mark.parametrize("part_size", [1, 40, 100, 200, 10_000])
@pytest.mark.parametrize("request_", [None, RecordedRequest("print")])
def test_facts_that_were_stored_in_parts_are_the_same_bytes(part_size: int, request_: RecordedRequest | None) -> None:
    """What is stored stands between what is not; the checksum of all of it is found without reading it again."""
    facts: tuple[AnyFact, ...] = (FleetChanged(removed_vms=tuple("abcdefghijklmn")), EVERY_FACT[0])
    entry = Entry(7, NOON, "command", NODE, facts, request_)
    stored: list[bytes] = []

    encoded = EncodedFacts(facts, stored.append, part_size, piece_size=2)
    beginning, end = encoded.split(entry)

    ((_, checksum, body),) = pack([entry])
    assert beginning + b"".join(stored) + end == body
    assert encoded.stored_bytes == sum(map(len, stored))
    assert encoded.checksum(7, beginning, end) == checksum
    assert all(len(part) >= part_size for part in stored)
    assert unpack_beginning(7, beginning, PLACE) == Entry(7, NOON, "command", NODE, ())


def test_every_changed_byte_is_noticed() -> None:
    """No single byte of a body can change unseen."""
    ((revision, checksum, body),) = pack([Entry(7, NOON, "command", NODE, ())])

    for place in range(len(body)):
        changed = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        with pytest.raises(DamagedJournal, match="revision 7"):
            unpack_one(revision, checksum, changed, PLACE)


NEWER = (
    b'{"revision":7,"at":"2026-03-01T12:00:00Z","command":"c","by":{"kind":"node"},"facts":[{"fact":"of-tomorrow"}]}'
)


def test_what_a_newer_release_wrote_is_not_taken_for_damage() -> None:
    """Its checksum is right, and a fact is not known to this release: an upgrade helps, a backup does not."""
    with pytest.raises(NewerJournal, match=r"revision 7 .*install the release that wrote it"):
        unpack_one(7, crc32(NEWER, 7), NEWER, PLACE)
    with pytest.raises(DamagedJournal):
        unpack_one(7, crc32(NEWER, 7) ^ 1, NEWER, PLACE)
    with pytest.raises(DamagedJournal):
        unpack_beginning(7, b'{"revision":"7"', PLACE)


def test_a_body_under_another_revision_is_noticed() -> None:
    """The checksum covers the revision as well."""
    ((_, checksum, body),) = pack([Entry(7, NOON, "command", NODE, ())])

    with pytest.raises(DamagedJournal, match="revision 8"):
        unpack_one(8, checksum, body, PLACE)


def test_a_gap_between_rows_is_noticed() -> None:
    """Rows follow each other one by one from where the reader stands."""
    rows = pack([Entry(n, NOON, "command", NODE, ()) for n in (7, 9)])

    with pytest.raises(DamagedJournal, match="lacks revision 8"):
        list(unpack(rows, PLACE, 6))
