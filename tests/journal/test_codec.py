"""An entry becomes a row and comes back, whatever its facts."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from forewarn.core import facts
from forewarn.core.facts import AnyFact, Entry
from forewarn.core.model import (
    NODE,
    Event,
    EventSource,
    EventStatus,
    EventType,
    GroupKind,
    GroupTerms,
    Host,
    InstanceFacts,
    Vm,
)
from forewarn.journal.codec import pack, unpack, unpack_one
from forewarn.journal.port import DamagedJournal

PLACE = Path("journal.sqlite3")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVENT = Event(
    "6d1c7c5e-0000-4000-8000-000000000001",
    EventType.REBOOT,
    EventSource.USER,
    "web",
    ("web-0", "web-1"),
    EventStatus.SCHEDULED,
    NOON,
    NOON,
    "restart",
    host="rack",
)
EVERY_FACT: list[AnyFact] = [
    facts.FleetChanged(
        hosts=(Host("rack"),),
        groups=(GroupTerms("web", GroupKind.SCALE_SET),),
        vms=(Vm("web-0", "web", instance=InstanceFacts(tags={"a": "ä"})),),
        removed_hosts=("old-rack",),
        removed_groups=("old",),
        removed_vms=("old-0",),
    ),
    facts.GroupSet(GroupTerms("web", GroupKind.SCALE_SET, terminate_notice=300)),
    facts.Enrolled("web", NOON, "web-0"),
    facts.SwitchedOff("web", NOON),
    facts.Asked((facts.Mark("web", NOON, "web-0"),)),
    facts.Fetched((facts.Fetch(EVENT.id, "web-0", NOON),)),
    facts.Announced(EVENT),
    facts.StartedAtOnce(EVENT),
    facts.Approved(EVENT.id, NOON, NODE),
    facts.Waiting(EVENT.id, NOON, "another"),
    facts.Started(EVENT.id, NOON, "due"),
    facts.Attempted(EVENT.id, NOON),
    facts.Completed(EVENT.id, NOON),
    facts.Failed(EVENT.id, NOON, "host failed"),
    facts.Canceled(EVENT.id, NOON, "by operator"),
    facts.VmRemoved("web-0", "deleted"),
    facts.VmDeallocated("web-0", "evicted"),
    facts.VmStarted("web-0"),
    facts.VmMoved("web-0", "rack"),
]


def test_no_fact_is_forgotten_here() -> None:
    """The list above has every kind of fact there is, so the tests that use it cover a new one too."""
    assert {type(fact) for fact in EVERY_FACT} == set(AnyFact.__args__)


@pytest.mark.parametrize("fact", EVERY_FACT, ids=lambda fact: type(fact).__name__)
def test_every_fact_survives(fact: AnyFact) -> None:
    """Encoding and decoding give the same entry."""
    entry = Entry(7, NOON, "command", NODE, (fact,))

    assert list(unpack(pack([entry]), PLACE, 6)) == [entry]


def test_every_changed_byte_is_noticed() -> None:
    """No single byte of a body can change unseen."""
    ((revision, checksum, body),) = pack([Entry(7, NOON, "command", NODE, ())])

    for place in range(len(body)):
        changed = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        with pytest.raises(DamagedJournal, match="revision 7"):
            unpack_one(revision, checksum, changed, PLACE)


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
