"""A type of event that no release has."""

from forewarn.core.model import EventType


def unknown_type(word: str = "polish") -> EventType:
    """Return a member that the enumeration does not list."""
    member = str.__new__(EventType, word)
    member._name_, member._value_ = word.upper(), word
    return member
