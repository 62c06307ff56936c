"""Log formats of a process: text for people, JSON for programs. A record may carry fields."""

import json
import logging
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TextIO

import msgspec


class HumanFormatter(logging.Formatter):
    """``14:32:07 started event=… because="approved by web-0"``."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        fields = "".join(f" {key}={_shown(value)}" for key, value in _flat(getattr(record, "fields", {})))
        return f"{time} {level}{record.getMessage()}{fields}{_trace(self, record)}"


class JsonFormatter(logging.Formatter):
    """One JSON object on each line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds"),
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
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else HumanFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _flat(fields: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """Yield every field; those of a nested record as ``record.field``."""
    for key, value in fields.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def _shown(value: object) -> str:
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(_shown, value))
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    text = json.dumps(value, default=str) if isinstance(value, Mapping) else str(value)
    # Foreign text must not end the line, nor control the terminal.
    is_plain = bool(text) and text.isprintable() and not set(text) & set(' "=')
    return text if is_plain else json.dumps(text, ensure_ascii=not text.isprintable())


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return f"\n{formatter.formatException(record.exc_info)}" if record.exc_info else ""
