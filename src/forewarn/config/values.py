"""Types of settings: each parses a value of the file, or a string from a flag or the environment."""

import os
import re
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

import msgspec

from forewarn.config.durations import read_duration
from forewarn.core import quiet_hours
from forewarn.core.errors import Refused

_HOST_NAME = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}")
_JOURNAL = re.compile(r"[a-z][a-z0-9_+.-]*:")
_LONGEST = timedelta(days=36_500)
"""Longer durations would overflow date arithmetic."""

MOST_WORKERS = 32
METADATA_PORT = 8254
CONTROL_PORT = 8255

Reader = Callable[[object], object]
"""Convert the given value (a string from a flag or the environment) or raise ValueError."""


class ValueType(msgspec.Struct, frozen=True):
    """A value type: how it is read, what errors say is expected, and its name in help."""

    expected: str
    read: Reader
    metavar: str = "TEXT"
    choices: tuple[str, ...] = ()


class ListenAddress(msgspec.Struct, frozen=True):
    """Host and port to listen on."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def _read_text(given: object) -> str:
    if not isinstance(given, str) or "\0" in given:
        raise ValueError
    return given


def _read_journal(given: object) -> str:
    text = _read_text(given)
    if not _JOURNAL.match(text):
        raise ValueError
    Path(text.partition(":")[2]).expanduser()  # raises for a user that does not exist
    return text


def _read_path(given: object) -> Path:
    text = _read_text(given)
    if not text:
        raise ValueError
    return Path(text).expanduser()


def _number_from(least: float, above: float | None = None) -> Reader:
    def read(given: object) -> float:
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            raise ValueError  # noqa: TRY004 - one error for every value that does not fit
        value = float(given)
        if not least <= value < float("inf") or value == above:
            raise ValueError
        return value

    return read


def _integer_from(least: int, most: int = 2**31 - 1) -> Reader:
    def read(given: object) -> int:
        if isinstance(given, bool) or not isinstance(given, str | int):
            raise ValueError  # noqa: TRY004 - as above
        value = int(given)
        if not least <= value <= most:
            raise ValueError
        return value

    return read


def _read_workers(given: object) -> int:
    if given == "auto":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        return min(max(1, cores - 1), MOST_WORKERS)
    return _integer_from(0, MOST_WORKERS)(given)  # type: ignore[return-value]  # it is one


def _read_hosts(given: object) -> tuple[str, ...]:
    names = given.split(",") if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError
    plain = tuple(name.strip().lower().removesuffix(".") for name in names if given != "")
    if not all(name == "*" or _HOST_NAME.fullmatch(name) for name in plain):
        raise ValueError
    return plain


def _read_windows(given: object) -> tuple[str, ...]:
    written = given.split(";") if isinstance(given, str) else given
    if not isinstance(written, list) or not all(isinstance(each, str) for each in written):
        raise ValueError
    windows = tuple(each.strip() for each in written if each.strip())
    try:
        for each in windows:
            quiet_hours.check_period(each)
    except Refused as refused:
        raise ValueError(str(refused)) from None
    return windows


def _read_duration(given: object) -> timedelta:
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise ValueError  # noqa: TRY004 - as above
    period = read_duration(str(given))
    if period > _LONGEST:
        raise ValueError
    return period


def _read_endpoint(given: object) -> ListenAddress:
    host, colon, port = _read_text(given).rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = str(ip_address(host[1:-1]))
    elif ":" in host:
        raise ValueError
    if not colon or not host or not (port.isascii() and port.isdigit()) or not int(port) <= 65_535:
        raise ValueError
    return ListenAddress(host, int(port))


def _read_endpoint_or_off(given: object) -> ListenAddress | None:
    return None if given in ("", "off") else _read_endpoint(given)


def _read_boolean(given: object) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(given, bool):
        return given
    if not isinstance(given, str) or given.lower() not in words:
        raise ValueError
    return words[given.lower()]


TEXT = ValueType("a text", _read_text)
DIRECTORY = ValueType("a path", _read_path, "DIR")
FILE = ValueType("a path", _read_path, "FILE")
JOURNAL = ValueType("NAME:LOCATION, such as sqlite:/var/lib/forewarn or memory:", _read_journal, "NAME:LOCATION")
NUMBER = ValueType("a number, 0 or more", _number_from(0), "N")
RATE = ValueType("a number above 0", _number_from(0, above=0), "R")
INTEGER = ValueType("a whole number, 0 or more", _integer_from(0), "N")
HOPS = ValueType("a whole number from 0 to 255", _integer_from(0, 255), "N")
WORKERS = ValueType(f"a whole number from 0 to {MOST_WORKERS}, or auto", _read_workers, "N|auto")
HOSTS = ValueType('names without ports, such as "metadata.example.org", or "*" for all', _read_hosts, "NAME,...")
WINDOWS = ValueType(
    'maintenance windows, such as "Sat,Sun 02:00-06:00 Europe/Berlin", with ";" between several',
    _read_windows,
    "TIMES;...",
)
DURATION = ValueType('a duration such as "90s", "15m" or "7d"', _read_duration, "DURATION")
ENDPOINT = ValueType(
    f"HOST:PORT, such as 127.0.0.1:{METADATA_PORT} or [::1]:{METADATA_PORT}", _read_endpoint, "HOST:PORT"
)
ENDPOINT_OR_OFF = ValueType(
    f"HOST:PORT, such as 127.0.0.1:{CONTROL_PORT}, or off", _read_endpoint_or_off, "HOST:PORT|off"
)
BOOLEAN = ValueType("true or false", _read_boolean, "true|false")


def choice(*words: str) -> ValueType:
    def read(given: object) -> str:
        if given not in words:
            raise ValueError
        return str(given)

    return ValueType(f"one of {', '.join(words)}", read, "|".join(words), words)
