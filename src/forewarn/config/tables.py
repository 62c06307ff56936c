"""How a driver or a handler reads its own table of settings: every key checked, each mistake one sentence."""

from datetime import timedelta
from typing import TypeVar

import msgspec

from forewarn.config.durations import read_duration
from forewarn.core.errors import BadInput, nearest

Record = TypeVar("Record", bound=msgspec.Struct)


def read_table(owner: str, given: dict[str, object], into: type[Record]) -> Record:
    """Return ``given`` as a record; raise BadInput that names the key of ``owner`` and what it may be.

    ``owner`` is named like "driver 'simulated'". Where the record has a timedelta, people write ``90s``.
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
        where = f"setting {place.rstrip('`')!r} of {owner}" if place else owner
        raise BadInput(f"{where}: {said[0].lower()}{said[1:]}") from None


def _duration(owner: str, key: str, given: object) -> timedelta:
    try:
        return read_duration(str(given)) if not isinstance(given, bool) else read_duration("no")
    except ValueError:
        raise BadInput(f"setting {key!r} of {owner}: expected a duration such as 90s or 15m, got {given!r}") from None
