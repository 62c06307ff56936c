"""How a process writes its log: lines for people, or JSON for machines. A record may bring fields of its own."""

import logging
from datetime import datetime
from typing import TextIO

import msgspec


class HumanFormatter(logging.Formatter):
    """``14:32:07 started event=… because='approved by web-0'``."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        fields = "".join(f" {key}={_shown(value)}" for key, value in getattr(record, "fields", {}).items())
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
        return msgspec.json.encode(line).decode()


def set_up(stream: TextIO, level: str, form: str) -> None:
    """Write the log of this process to ``stream``."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else HumanFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_shown, value))
    text = str(value)
    # Others' words must not end the line, nor speak to the terminal.
    return repr(text) if not text or " " in text or not text.isprintable() else text


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return f"\n{formatter.formatException(record.exc_info)}" if record.exc_info else ""
