"""Messages between leader and workers: what is sent is what arrives."""

from datetime import UTC, datetime

import pytest

from forewarn.core.commands import Approve, Enrol
from forewarn.core.errors import BadInput, ForewarnError, LimitReached, OutcomeUnknown, Refused, Unavailable
from forewarn.core.facts import Enrolled, Entry, Fetch, FleetChanged
from forewarn.core.model import Caller, CallerKind, Host
from forewarn.metadata.request_records import GroupAsked
from forewarn.workers.messages import (
    Answer,
    Entries,
    Listen,
    Message,
    OtherRelease,
    ReadTo,
    Submit,
    WorkerReport,
    answer_of,
    decode_for_leader,
    decode_for_worker,
    encode,
    error_of,
)

AT = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
VM = Caller(CallerKind.VM, "web-0", "10.0.0.1")


def test_entries_arrive_as_the_journal_has_them() -> None:
    """A worker evolves the very facts that are durable."""
    entries = (
        Entry(7, AT, "c1", VM, (Enrolled("web", AT, "web-0"),)),
        Entry(8, AT, "c2", VM, (FleetChanged(hosts=(Host("h1"),)),)),
    )

    assert decode_for_worker(encode(Entries(entries))) == Entries(entries)


@pytest.mark.parametrize("message", [ReadTo(9), Listen(), Answer(3, "Refused", "no")])
def test_a_worker_understands_its_leader(message: Message) -> None:
    """Each kind is told apart."""
    assert decode_for_worker(encode(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        Submit(1, Approve(id="a", by=VM, events=("e1",))),
        Submit(2, Enrol(id="b", by=VM, group="web", vm="web-0")),
        WorkerReport((GroupAsked("web", 1.5, "web-0"),), (Fetch("e1", "web-0", AT),), ((1, 2),), {403: 1}, 4, 0.5),
        OtherRelease("1.2.3"),
    ],
)
def test_a_leader_understands_its_workers(message: Message) -> None:
    """Commands and reports arrive whole."""
    assert decode_for_leader(encode(message)) == message


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Refused("no"), Refused),
        (LimitReached("no"), Refused),
        (OutcomeUnknown("no"), OutcomeUnknown),
        (Unavailable("no"), Unavailable),
        (BadInput("no"), ForewarnError),
        (ZeroDivisionError("no"), ForewarnError),
    ],
)
def test_a_caller_is_told_what_its_command_was_refused_for(error: Exception, kind: type[ForewarnError]) -> None:
    """The narrowest kind that the metadata plane tells apart, with the same sentence."""
    found = error_of(answer_of(1, error))

    assert (type(found), str(found)) == (kind, "no")


def test_a_command_that_was_done_has_no_error() -> None:
    """An answer without a kind says that it is durable."""
    assert error_of(answer_of(1, None)) is None
