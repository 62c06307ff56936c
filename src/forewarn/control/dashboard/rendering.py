"""Templates: loaded once, with every value escaped, and all texts from ``texts.toml``."""

import re
import tomllib
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, get_args

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from forewarn import __version__
from forewarn.core.facts import AnyFact
from forewarn.wire.azure_names import show_id, show_name

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)", re.ASCII)
STATIC = files("forewarn.control.dashboard") / "static"


def render(template: str, values: dict[str, Any]) -> bytes:
    return _environment().get_template(template).render(values).encode()


@cache
def texts() -> dict[str, Any]:
    """Return all texts of the pages, by section."""
    return tomllib.loads((files("forewarn.control.dashboard") / "texts.toml").read_text("utf-8"))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("forewarn.control.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        t=texts(), version=__version__, script_texts=_script_texts(), fact_kinds=" ".join(_fact_kinds())
    )
    environment.filters.update(instant=_instant, event_id=show_id, azure=show_name, count=_count)
    environment.filters.update(plain=_plain, moment=_moment, times=_times)
    return environment


def _script_texts() -> str:
    """Return the texts of scripts as JSON; ``<`` is escaped, because it stands inside an element."""
    return msgspec.json.encode(texts()["script"]).decode().replace("<", "\\u003c")


def _fact_kinds() -> list[str]:
    """Return the kinds of facts, by which the stream of changes names its messages."""
    return ["reset", *sorted(fact.__struct_config__.tag for fact in get_args(AnyFact))]


def _instant(at: datetime | None) -> str:
    """Return a time in UTC, as the script reads it and shows it in the time zone of the browser."""
    return "" if at is None else at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _plain(value: object) -> str:
    """Return a value of a history line as text: words as they are, and anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()


def _moment(value: object) -> datetime | None:
    """Return the time that a value of a history line is; None for any other value."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not value.endswith("Z") or not value[:4].isdecimal():
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None


def _times(text: str) -> Markup:
    """Return a text in which scripts show each time in the time zone of the browser."""
    parts = _TIME.split(text)  # every second part is a time
    return Markup("").join(
        Markup('<time datetime="{0}">{0}</time>').format(part) if number % 2 else part
        for number, part in enumerate(parts)
    )


def _count(number: int) -> str:
    return f"{number:,}"
