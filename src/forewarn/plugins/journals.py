"""What a journal is written with; its class is an entry point of the group ``forewarn.journals``."""

from forewarn.core.errors import BadInput
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.core.subjects import subjects_of
from forewarn.files import FileLock, private_directory, sync_directory, write_atomically
from forewarn.journal.codec import check_requests, check_revisions
from forewarn.journal.following import AppendNotifier
from forewarn.journal.port import (
    AppendUnknown,
    DamagedJournal,
    Journal,
    JournalFailed,
    JournalType,
    MaintainedJournal,
    NewerJournal,
    NotAJournal,
    NotWritten,
    Recovered,
    RepeatedCommand,
    StaleWriter,
)

__all__ = [
    "AppendNotifier",
    "AppendUnknown",
    "BadInput",
    "DamagedJournal",
    "Entry",
    "FileLock",
    "Fleet",
    "Journal",
    "JournalFailed",
    "JournalType",
    "MaintainedJournal",
    "NewerJournal",
    "NotAJournal",
    "NotWritten",
    "Recovered",
    "RepeatedCommand",
    "StaleWriter",
    "check_requests",
    "check_revisions",
    "private_directory",
    "subjects_of",
    "sync_directory",
    "write_atomically",
]
