"""Log formats of a process: text for people, JSON for programs. A record may carry fields."""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import TextIO

import msgspec

_PLAIN = re.compile(r"[!#-<>-~]+")
"""Text that needs no quotes, for sure: ASCII without space, quote and equals sign."""


_SIMPLE = frozenset((str, int, list))
"""Types of most fields; they hold no fields themselves."""


class HumanFormatter(logging.Formatter):
    """``14:32:07 started event=… because="approved by web-0"``."""

    def format(self, record: logging.LogRecord) -> str:
        time, _ = _time_texts(int(record.created))
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        fields = "".join([f" {key}={_shown(value)}" for key, value in _flat(getattr(record, "fields", {}))])
        return f"{time} {level}{record.getMessage()}{fields}{_trace(self, record)}"


class JsonFormatter(logging.Formatter):
    """One JSON object on each line."""

    def format(self, record: logging.LogRecord) -> str:
        seconds, fraction = divmod(int(record.created * 1000), 1000)
        _, time = _time_texts(seconds)
        line = {
            "time": time.replace(".000", f".{fraction:03}", 1),
            "level": record.levelname.lower(),
            "message": record.getMessage() + _trace(self, record),
            **getattr(record, "fields", {}),
        }
        try:
            return msgspec.json.encode(line, enc_hook=str).decode()
        except UnicodeEncodeError:  # such as a file name that is not UTF-8: escape it, so that the line is not lost
            return json.dumps(msgspec.to_builtins(line, str_keys=True, enc_hook=str))


def set_up(stream: TextIO, level: str, form: str) -> None:
    """Write the log of this process to ``stream``."""
    # Neither format shows where in the code a line comes from, nor its thread: to find that out costs more than both.
    logging._srcfile = None  # noqa: SLF001 - the documentation says to
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else HumanFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


@lru_cache(maxsize=1)
def _time_texts(seconds: int) -> tuple[str, str]:
    """Return a time in both formats; most lines are of the same second as the one before."""
    local = datetime.fromtimestamp(seconds).astimezone()
    return local.strftime("%H:%M:%S"), local.isoformat(timespec="milliseconds")


def _flat(fields: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """Yield every field; those of a nested record as ``record.field``."""
    for key, value in fields.items():
        if type(value) not in _SIMPLE and isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def _shown(value: object) -> str:
    if type(value) is str and _PLAIN.fullmatch(value):
        return value
    if type(value) is int:
        return str(value)
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(_shown, value))
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    text = json.dumps(value, default=str) if isinstance(value, Mapping) else str(value)
    # Foreign text must not end the line, nor control the terminal.
    if not text.isprintable():
        return json.dumps(text)
    return text if text and not set(text) & set(' "=') else msgspec.json.encode(text).decode()


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return f"\n{formatter.formatException(record.exc_info)}" if record.exc_info else ""
