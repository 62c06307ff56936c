"""How Azure spells what the core knows: event types, statuses, sources and ids.

Readers take any case, and hand back unchanged what they do not know: a client must outlive a new word.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from forewarn.core.model import EventSource, EventStatus, EventType

_Member = TypeVar("_Member", bound=StrEnum)

TYPES = {
    EventType.FREEZE: "Freeze",
    EventType.REBOOT: "Reboot",
    EventType.REDEPLOY: "Redeploy",
    EventType.PREEMPT: "Preempt",
    EventType.TERMINATE: "Terminate",
}
SOURCES = {
    EventSource.PLATFORM: "Platform",
    EventSource.USER: "User",
}
STATUSES = {
    EventStatus.SCHEDULED: "Scheduled",
    EventStatus.STARTED: "Started",
    # Azure: no document shows these three; its other channels and our history do.
    EventStatus.COMPLETED: "Completed",
    EventStatus.CANCELED: "Canceled",
    EventStatus.FAILED: "Failed",
}


def _by_word(words: Mapping[_Member, str]) -> dict[str, _Member]:
    return {word.lower(): member for member, word in words.items()}


_TYPES_BY_WORD = _by_word(TYPES)
_SOURCES_BY_WORD = _by_word(SOURCES)
_STATUSES_BY_WORD = _by_word(STATUSES)


def read_type(word: str) -> EventType | str:
    return _TYPES_BY_WORD.get(word.lower(), word)


def read_source(word: str) -> EventSource | str:
    return _SOURCES_BY_WORD.get(word.lower(), word)


def read_status(word: str) -> EventStatus | str:
    return _STATUSES_BY_WORD.get(word.lower(), word)


def show_id(id: str) -> str:
    # Azure: upper case here, lower case everywhere else, so clients may send back either.
    return id.upper()


def read_id(text: str) -> str:
    return text.lower()
