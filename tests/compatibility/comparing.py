"""How what is seen now is compared with what was recorded: nothing may be missing or different, more may be there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


def stored(path: Path) -> Any:
    """Return what was recorded."""
    return json.loads(path.read_text(encoding="utf-8"))


def differences(before: Any, now: Any) -> list[str]:
    """Return what is not as it was recorded; a later version may have added keys to an object."""
    return [*_differences(before, msgspec.json.decode(msgspec.json.encode(now)), "")]


def _differences(before: Any, now: Any, place: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key, value in before.items():
            if key in now:
                yield from _differences(value, now[key], f"{place}/{key}")
            else:
                yield f"{place}/{key} is missing"
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _differences(one, other, f"{place}/{number}")
    elif before != now:
        yield f"{place} was {before!r:.200} and is {now!r:.200}"
