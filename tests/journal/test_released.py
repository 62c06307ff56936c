"""A journal that a release wrote is read by every later one, as it was meant then.

Each directory under ``released`` is what that release left on disk, and the fleet it made of it. They are never
written again. Before a release, ``python tests/journal/test_released.py`` adds the one of the present version; until
then it may be deleted and made anew.
"""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

import forewarn
from forewarn.core import facts
from forewarn.core.chunks import FleetChunk
from forewarn.core.facts import AnyFact, Entry
from forewarn.core.model import (
    NODE,
    ApprovalRule,
    Caller,
    CallerKind,
    Event,
    EventSource,
    EventStatus,
    EventType,
    EvictionPolicy,
    GroupKind,
    GroupTerms,
    Host,
    InstanceFacts,
    Operation,
    Vm,
)
from forewarn.journal.snapshot_runner import DEFAULT_HISTORY
from forewarn.journal.sqlite import snapshot_files
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.snapshot_process import take_snapshot
from forewarn.journal.sqlite.verification import verify

RELEASED = Path(__file__).with_name("released")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
OPERATOR = Caller(CallerKind.OPERATOR, "ada", "control.sock")
WEB_0 = Caller(CallerKind.VM, "web-0", "10.0.0.4")


def minutes(count: float) -> datetime:
    return NOON + timedelta(minutes=count)


def event(number: int, type_: EventType, source: EventSource, operation: str, *vms: str) -> Event:
    return Event(
        f"00000000-0000-4000-8000-00000000000{number}",
        type_,
        source,
        "web",
        vms,
        EventStatus.SCHEDULED,
        minutes(15),
        minutes(number),
        Operation(operation),
        description="Why.",
        host="rack-1",
        fault_domain=None if len(vms) > 1 else 0,
    )


def story() -> list[Entry]:
    """Tell a story in which everything happens that can happen."""
    vms = (
        Vm("web-0", "web", "rack-1", 0, 0, "1", "10.0.0.4"),
        Vm("web-1", "web", "rack-1", 1, 1, "1", "10.0.0.5", spot=True),
        Vm(
            "web-2",
            "web",
            "rack-2",
            2,
            0,
            instance=InstanceFacts("id", "D2", "Windows", "here", "rg", "sub", {"ä": "b"}),
        ),
        Vm("alone", "alone", address="10.0.0.9"),
    )
    groups = (
        GroupTerms("web", GroupKind.SCALE_SET, ApprovalRule.ALL, 300, EvictionPolicy.DELETE),
        GroupTerms("alone", GroupKind.STANDALONE),
    )
    restart = event(1, EventType.REBOOT, EventSource.USER, "restart", "web-0")
    freeze = event(2, EventType.FREEZE, EventSource.PLATFORM, "freeze", "web-0", "web-1")
    redeploy = event(3, EventType.REDEPLOY, EventSource.PLATFORM, "redeploy", "web-1")
    preempt = event(4, EventType.PREEMPT, EventSource.PLATFORM, "evict", "web-1")
    born = msgspec.structs.replace(
        event(5, EventType.TERMINATE, EventSource.USER, "delete", "web-1"),
        status=EventStatus.STARTED,
        without_notice="deleted without notice",
        started_at=minutes(5),
    )
    happened: list[tuple[Caller, tuple[AnyFact, ...]]] = [
        (OPERATOR, (facts.FleetChanged((Host("rack-1"), Host("rack-2"), Host("rack-3")), groups, vms),)),
        (WEB_0, (facts.Enrolled("web", minutes(1), "web-0"),)),
        (OPERATOR, (facts.Announced(restart), facts.Announced(freeze))),
        (OPERATOR, (facts.Announced(redeploy),)),
        (NODE, (facts.Asked((facts.Mark("web", minutes(2), "web-1"),)),)),
        (NODE, (facts.Fetched((facts.Fetch(restart.id, "web-0", minutes(2)),)),)),
        (WEB_0, (facts.Approved(restart.id, minutes(3), WEB_0), facts.Started(restart.id, minutes(3), "approved"))),
        (WEB_0, (facts.Approved(freeze.id, minutes(3), WEB_0), facts.Waiting(freeze.id, minutes(3), restart.id))),
        (NODE, (facts.Attempted(restart.id, minutes(4)),)),
        (NODE, (facts.Completed(restart.id, minutes(5), "done"), facts.VmMoved("web-0", "rack-3"))),
        (OPERATOR, (facts.Canceled(redeploy.id, minutes(5), "by ada"),)),
        (OPERATOR, (facts.Announced(preempt), facts.StartedAtOnce(born))),
        (NODE, (facts.Attempted(born.id, minutes(6)), facts.Failed(born.id, minutes(6), "no such machine"))),
        (OPERATOR, (facts.VmDeallocated("web-2", "ada"), facts.VmDeallocated("web-1", "ada"))),
        (OPERATOR, (facts.VmStarted("web-2"), facts.VmRemoved("alone", "deleted"))),
        (OPERATOR, (facts.GroupSet(GroupTerms("web", GroupKind.SCALE_SET)),)),
        (NODE, (facts.SwitchedOff("web", minutes(7)),)),
        (OPERATOR, (facts.FleetChanged(hosts=(Host("rack-4"),), removed_hosts=("rack-2",)),)),
    ]
    return [
        Entry(revision, minutes(revision), f"command-{revision}", by, what)
        for revision, (by, what) in enumerate(happened, start=1)
    ]


def write(directory: Path) -> None:
    """Leave behind what this release makes of the story: the journal, a snapshot on the way, and the fleet."""
    directory.mkdir()
    journal = SqliteJournal(directory)
    journal.load()
    journal.append(0, story()[:9])
    take_snapshot(directory, DEFAULT_HISTORY)
    journal.append(9, story()[9:])
    fleet = journal.load().fleet
    journal.close()
    for name in ("lock", "fold-lock"):
        (directory / name).unlink()
    (directory / "fleet.json").write_bytes(msgspec.json.format(msgspec.json.encode(list(fleet.parts()))))


@pytest.fixture(params=sorted(path.name for path in RELEASED.iterdir()))
def released(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of what a release left."""
    shutil.copytree(RELEASED / request.param, tmp_path / "data")
    return tmp_path / "data"


def check(directory: Path) -> None:
    """Load, compare with what the release made of it, and go on from there."""
    parts = msgspec.json.decode((directory / "fleet.json").read_bytes(), type=list[FleetChunk])
    journal = SqliteJournal(directory)
    recovered = journal.load()

    assert recovered.warnings == ()
    assert list(recovered.fleet.parts()) == parts
    assert [entry.revision for entry in journal.entries()] == list(range(1, recovered.revision + 1))
    assert [entry.revision for entry in journal.history("event:00000000-0000-4000-8000-000000000001")] == [
        3,
        6,
        7,
        9,
        10,
    ]
    later = Entry(recovered.revision + 1, minutes(60), "later", OPERATOR, (facts.FleetChanged((Host("later"),)),))
    journal.append(recovered.revision, [later])
    journal.close()
    assert verify(directory).problems == ()


def test_a_released_journal_is_read_as_it_was_meant(released: Path) -> None:
    """Snapshot, entries after it and history are those of the release, and appending goes on."""
    check(released)


def test_released_entries_make_the_same_fleet_without_their_snapshot(released: Path) -> None:
    """Every released fact still has the meaning it had."""
    for _, path in snapshot_files.list_snapshots(released):
        path.unlink()

    check(released)


def test_the_present_version_has_left_its_journal() -> None:
    """A release without one could not be held to its word later."""
    assert (RELEASED / forewarn.__version__).is_dir()


if __name__ == "__main__":
    write(RELEASED / forewarn.__version__)
