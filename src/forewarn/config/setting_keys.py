"""A setting, wherever it is written: as a flag, in the environment, or in a file, by one rule.

    --rate-limit   =   FOREWARN_RATE_LIMIT   =   rate_limit in the file

A flag goes before the environment, the environment before the file. A record declares its settings as fields that are
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
    """What is known of a setting beside its name and default."""

    kind: ValueType
    help: str
    reloadable: bool = False
    """Whether a running process takes a changed value over when it reloads its configuration."""


def keys_of(record: type[msgspec.Struct]) -> dict[str, SettingKey]:
    """Return the settings of a record by name."""
    hints = get_type_hints(record, include_extras=True)
    return {name: key for name, hint in hints.items() for key in get_args(hint) if isinstance(key, SettingKey)}


def from_outside(
    keys: Mapping[str, SettingKey], flags: Mapping[str, object], environment: Mapping[str, str], prefix: str
) -> dict[str, object]:
    """Return what flags, or else the environment, say of the settings; BadInput names the one that is wrong."""
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
    """Return what a table of a file says; BadInput names the line and the key that is wrong or unknown."""
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
    """Read a value of a file, where numbers are not to be written as texts; ``place`` begins the error."""
    if key.kind in (NUMBER, RATE, INTEGER) and isinstance(given, str):
        raise _wrong(key.kind, given, place)
    return _value(key.kind, given, place)


def unknown_key(file: TomlFile, path: tuple[PathStep, ...], known: Iterable[str]) -> BadInput:
    """Say that a file has a key that nobody knows, and name the nearest."""
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
