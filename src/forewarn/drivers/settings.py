"""How a driver reads its settings: a record per driver, every key checked, each mistake one sentence."""

from typing import TypeVar

import msgspec

from forewarn.core.errors import BadInput, nearest

Settings = TypeVar("Settings", bound=msgspec.Struct)


def read(driver: str, settings: dict[str, object], into: type[Settings]) -> Settings:
    """Return ``settings`` as a record; raise BadInput that names the key and what it may be."""
    known = [field.encode_name for field in msgspec.structs.fields(into)]
    for key in settings:
        if key not in known:
            raise BadInput(
                f"driver {driver!r} has no setting {key!r} (it has {', '.join(known)}){nearest(key, known)}"
            )
    try:
        return msgspec.convert(settings, into)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$.")
        where = f"setting {place.rstrip('`')!r} of driver {driver!r}" if place else f"driver {driver!r}"
        raise BadInput(f"{where}: {said[0].lower()}{said[1:]}") from None
