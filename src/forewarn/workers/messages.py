"""What the leader and a worker say to each other, and its encoding.

leader                                       worker
  Configure ────────────────────────────────▶  loads the journal
  ◀──────────────────────────────── Ready(r)
  Entries | ReadTo, until it holds all ─────▶
  ◀────────────────────────────── Applied(r)
  Listen ───────────────────────────────────▶  answers VMs from now on
  ◀──────────────────── Submit(id, command)
  Answer(id) ───────────────────────────────▶
  ◀─────────────────────── WorkerReport, each second
  Stop ─────────────────────────────────────▶  ends
"""

import msgspec

from forewarn.core.commands import Approve, Enrol
from forewarn.core.errors import ForewarnError
from forewarn.core.facts import Entry, Fetch
from forewarn.metadata.limits import Limits
from forewarn.metadata.request_records import GroupAsked
from forewarn.node.command_errors import ErrorRecord, read_error, record_error


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker needs of the settings of its service."""

    journal: str
    """The name of the journal's entry point."""
    journal_location: str
    journal_directory: str
    history: float
    """Seconds."""
    host: str
    port: int
    identity: str
    default_vm: str
    answer_ttl: int
    hosts: tuple[str, ...]
    limits: Limits
    log_level: str
    log_format: str
    leader_timeout: float
    """Seconds for which a worker answers without a leader."""


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message."""


class Configure(Message, frozen=True, tag=1):
    """Begin with these settings; later: take over those that may change."""

    settings: WorkerSettings


class Entries(Message, frozen=True, tag=2):
    """Take in these entries, which are durable, and show none of them before the shown revision says so."""

    entries: tuple[Entry, ...]


class ReadTo(Message, frozen=True, tag=3):
    """Read the entries up to this revision from the journal; else as ``Entries``."""

    revision: int


class Show(Message, frozen=True, tag=4):
    """The shown revision has changed: answer the long polls that waited for it."""


class Listen(Message, frozen=True, tag=5):
    """Begin to answer VMs."""


class Answer(Message, frozen=True, tag=6):
    """What came of a command."""

    id: int
    kind: str = ""
    """The class of the error; empty if the command was done."""
    reason: str = ""


class Stop(Message, frozen=True, tag=7):
    """Finish the answers that are owed, and end."""


class Ready(Message, frozen=True, tag=11):
    """The journal is loaded up to this revision."""

    revision: int


class Applied(Message, frozen=True, tag=12):
    """Everything up to this revision can be shown."""

    revision: int


class Busy(Message, frozen=True, tag=13):
    """A large change is being taken in, or the journal loaded."""


class Listening(Message, frozen=True, tag=14):
    """VMs are answered."""

    addresses: tuple[tuple[str, int], ...]
    """Address and inode of each socket."""


class Submit(Message, frozen=True, tag=15):
    """Do this, and answer when it is durable."""

    id: int
    command: Approve | Enrol


class WorkerReport(Message, frozen=True, tag=16):
    """What happened since the last report; the counters count from the start of the worker."""

    asked: tuple[GroupAsked, ...] = ()
    fetches: tuple[Fetch, ...] = ()
    documents: tuple[tuple[int, int], ...] = ()
    """How many were served and how many were unchanged, by api-version."""
    refusals: dict[int, int] = {}
    long_polls: int = 0
    leader_age: float = 0.0
    """Seconds since the leader was last known to be well."""
    delays: tuple[int, ...] = ()
    """How long requests waited, as counts of a histogram."""


class StartFailed(Message, frozen=True, tag=17):
    """The worker cannot start, and ends."""

    reason: str


class OtherRelease(Message, frozen=True, tag=18):
    """The worker is of another release than its leader, could misread its messages, and ends."""

    release: str


ToWorker = Configure | Entries | ReadTo | Show | Listen | Answer | Stop
ToLeader = Ready | Applied | Busy | Listening | Submit | WorkerReport | StartFailed | OtherRelease

encode = msgspec.msgpack.Encoder().encode
decode_for_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_for_leader = msgspec.msgpack.Decoder(ToLeader).decode


def answer_of(id_: int, error: BaseException | None) -> Answer:
    """Return the result of a command for a worker."""
    if error is None:
        return Answer(id_)
    record = record_error(error)
    return Answer(id_, record.kind, record.reason)


def error_of(answer: Answer) -> ForewarnError | None:
    """Return the error that an answer tells of."""
    return read_error(ErrorRecord(answer.kind, answer.reason)) if answer.kind else None
