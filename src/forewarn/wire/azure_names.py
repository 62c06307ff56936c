"""How Azure spells what the core knows: event types, statuses, sources and ids.

Readers take any case, and hand back unchanged what they do not know: a client must outlive a new word.
"""

from collections.abc import Mapping
from enum import StrEnum
from string import hexdigits
from typing import TypeVar
from uuid import UUID

from forewarn.core.model import EventSource, EventStatus, EventType

_Member = TypeVar("_Member", bound=StrEnum)

TYPES_SHOWN = {
    EventType.FREEZE: ("Freeze", "2017-03-01"),
    EventType.REBOOT: ("Reboot", "2017-03-01"),
    EventType.REDEPLOY: ("Redeploy", "2017-03-01"),
    EventType.PREEMPT: ("Preempt", "2017-11-01"),
    EventType.TERMINATE: ("Terminate", "2019-01-01"),
}
"""The word for each type, and the first api-version that shows it."""
TYPES = {type_: word for type_, (word, _) in TYPES_SHOWN.items()}
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


_WORDS: dict[str, str] = {str(member): word for words in (TYPES, SOURCES, STATUSES) for member, word in words.items()}
_TYPES_BY_WORD = _by_word(TYPES)
_SOURCES_BY_WORD = _by_word(SOURCES)
_STATUSES_BY_WORD = _by_word(STATUSES)


def show_name(member: StrEnum) -> str:
    """Return how Azure spells a type, a status or a source."""
    return _WORDS[member]


def read_type(word: str) -> EventType | str:
    return _TYPES_BY_WORD.get(word.lower(), word)


def read_source(word: str) -> EventSource | str:
    return _SOURCES_BY_WORD.get(word.lower(), word)


def read_status(word: str) -> EventStatus | str:
    return _STATUSES_BY_WORD.get(word.lower(), word)


def show_id(id: str) -> str:
    # Azure: upper case here, lower case everywhere else, so clients may send back either.
    return id.upper()


def show_command_id(id: str) -> str:
    """Return the id of an operation; those of the service itself are recorded without hyphens."""
    is_bare = len(id) == 32 and all(letter in hexdigits for letter in id)
    return show_id(str(UUID(id)) if is_bare else id)


def read_id(text: str) -> str:
    return text.lower()
