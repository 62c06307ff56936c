"""Parses the settings table of a driver or a handler into a record; each error is one sentence."""

from datetime import timedelta
from enum import StrEnum
from typing import TypeVar, get_args

import msgspec

from forewarn.config.durations import read_duration
from forewarn.core.errors import BadInput, nearest

Record = TypeVar("Record", bound=msgspec.Struct)


def read_table(owner: str, given: dict[str, object], into: type[Record]) -> Record:
    """Convert ``given`` to a record; raise BadInput that names the key of ``owner`` and what is expected.

    ``owner`` is given like "driver 'simulated'". A timedelta field accepts durations such as ``90s``.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(into)}
    for key in given:
        if key not in fields:
            raise BadInput(f"{owner} has no setting {key!r} (it has {', '.join(fields)}){nearest(key, fields)}")
    for key, field in fields.items():
        if field.required and key not in given:
            raise BadInput(f"{owner} needs the setting {key!r}")
    given = {
        key: _duration(owner, key, value) if fields[key].type in (timedelta, timedelta | None) else value
        for key, value in given.items()
    }
    try:
        return msgspec.convert(given, into)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$.")
        place = place.rstrip("`")
        where = f"setting {place!r} of {owner}" if place else owner
        words = _words(fields[place].type) if place in fields else ()
        if words:
            given_word = given[place]
            near = nearest(given_word, words) if isinstance(given_word, str) else ""
            raise BadInput(f"{where}: expected one of {', '.join(words)}, got {given_word!r}{near}") from None
        raise BadInput(f"{where}: {said[0].lower()}{said[1:]}") from None


def _words(of: object) -> tuple[str, ...]:
    """Return the allowed words of a setting; empty if it is not a choice."""
    members = of if isinstance(of, type) and issubclass(of, StrEnum) else get_args(of)
    return tuple(str(member) for member in members if isinstance(member, str))


def _duration(owner: str, key: str, given: object) -> timedelta:
    try:
        return read_duration(str(given)) if not isinstance(given, bool) else read_duration("no")
    except ValueError:
        raise BadInput(f"setting {key!r} of {owner}: expected a duration such as 90s or 15m, got {given!r}") from None
