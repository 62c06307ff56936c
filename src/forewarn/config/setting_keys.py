"""Reads settings from flags, environment and file, by one rule.

    --rate-limit   =   FOREWARN_RATE_LIMIT   =   rate_limit in the file

A flag takes precedence over the environment, the environment over the file. A record declares its settings as fields
annotated with a ``SettingKey``.
"""

from collections.abc import Iterable, Mapping
from typing import get_args, get_type_hints

import msgspec

from forewarn.config.toml import PathStep, TomlFile
from forewarn.config.values import INTEGER, NUMBER, RATE, ValueType
from forewarn.core.errors import BadInput, nearest
from forewarn.core.redaction import shown_address


class SettingKey(msgspec.Struct, frozen=True):
    """Metadata of a setting beside its name and default."""

    kind: ValueType
    help: str
    reloadable: bool = False
    """Whether a running process applies a changed value on reload."""


def keys_of(record: type[msgspec.Struct]) -> dict[str, SettingKey]:
    hints = get_type_hints(record, include_extras=True)
    return {name: key for name, hint in hints.items() for key in get_args(hint) if isinstance(key, SettingKey)}


def from_outside(
    keys: Mapping[str, SettingKey], flags: Mapping[str, object], environment: Mapping[str, str], prefix: str
) -> dict[str, object]:
    """Read settings from flags, or else the environment; raise BadInput that names the wrong one."""
    found: dict[str, object] = {}
    for name, key in keys.items():
        variable = prefix + name.upper()
        if flags.get(name) is not None:
            found[name] = _value(key.kind, flags[name], f"flag --{name.replace('_', '-')}")
        elif variable in environment:
            found[name] = _value(key.kind, environment[variable], f"environment variable {variable}")
    return found


def from_table(
    keys: Mapping[str, SettingKey], file: TomlFile, path: tuple[PathStep, ...], given: object
) -> dict[str, object]:
    """Read settings from a table of a file; raise BadInput that names the line and the wrong or unknown key."""
    shown = _shown(path)
    if not isinstance(given, dict):
        raise BadInput(f"{file.place(*path)}: {path[-1]} is a table; write [{shown}] and its settings below")
    for name in given:
        if name not in keys:
            raise unknown_key(file, (*path, name), keys)
    return {
        name: from_file(keys[name], value, f"{file.place(*path, name)}: {name} in [{shown}]")
        for name, value in given.items()
    }


def from_file(key: SettingKey, given: object, place: str) -> object:
    """Read a value from a file, in which numbers must not be written as strings; ``place`` begins the error."""
    if key.kind in (NUMBER, RATE, INTEGER) and isinstance(given, str):
        raise _wrong(key.kind, given, place)
    return _value(key.kind, given, place)


def unknown_key(file: TomlFile, path: tuple[PathStep, ...], known: Iterable[str]) -> BadInput:
    """Return an error for an unknown key, with the nearest known one."""
    known = tuple(known)
    near = nearest(str(path[-1]), known) or f"; known are {', '.join(known)}"
    return BadInput(f"{file.place(*path)}: there is no setting {_shown(path)!r}{near}")


def _shown(path: tuple[PathStep, ...]) -> str:
    return ".".join(str(step) for step in path if not isinstance(step, int))


def _value(kind: ValueType, given: object, place: str) -> object:
    try:
        return kind.read(given)
    except (ValueError, OverflowError, RuntimeError):
        raise _wrong(kind, given, place) from None


def _wrong(kind: ValueType, given: object, place: str) -> BadInput:
    given = shown_address(given) if isinstance(given, str) and "://" in given else given
    shown = repr(given) if len(repr(given)) <= 60 else repr(given)[:57] + "..."
    return BadInput(f"{place} is {shown}, expected {kind.expected}")
