"""What a simulation does at which second: one record each, and one sentence that a person writes and reads.

A plan is a list of actions. It is data: it can be printed, shortened, saved and run again. The sentence of an action
holds all of its fields, so that a saved plan is read back from its text.
"""

import re
from functools import cache
from typing import Any, ClassVar, Self, get_type_hints

import msgspec

_FIELD = re.compile(r"\{(\w+)\}")


class PlannedAction(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happens in a simulation."""

    sentence: ClassVar[str] = ""
    """Its words, with its fields in braces. No field is empty or has a blank in it."""
    chosen: ClassVar[str] = ""
    """The field that has one of ``choices``; empty where there is none."""
    choices: ClassVar[tuple[str, ...]] = ()

    at: float
    """Seconds after the beginning."""

    def __str__(self) -> str:
        return _FIELD.sub(lambda found: str(getattr(self, found[1])), self.sentence)

    @classmethod
    def parse(cls, at: float, words: str) -> Self | None:
        """Return the action that such a sentence describes; None where it is not one of this kind."""
        found = _pattern(cls).fullmatch(words)
        if found is None:
            return None
        types = get_type_hints(cls)
        fields: dict[str, Any] = {name: types[name](value) for name, value in found.groupdict().items()}
        return cls(at=at, **fields)


@cache
def _pattern(kind: type[PlannedAction]) -> re.Pattern[str]:
    return re.compile(_FIELD.sub(r"(?P<\1>\\S+)", kind.sentence))
