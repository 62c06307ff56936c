"""Fills configured templates with values of the event: ``$EventType of $Vm``, as in ``string.Template``.

Values are escaped in JSON and percent-encoded in forms, so that they cannot change the structure.
"""

from collections.abc import Callable
from string import Template
from urllib.parse import quote_plus

import msgspec

from forewarn.agent.handler import Task
from forewarn.wire.event_json import EventJson, make_event_json

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"

NAMES = (*(field.encode_name for field in msgspec.structs.fields(EventJson)), "Vm", "Direction", "Deadline")
"""The names that a template may contain."""


def words_of(task: Task) -> dict[str, str]:
    event: dict[str, object] = msgspec.to_builtins(make_event_json(task.event))
    event["Resources"] = ", ".join(task.event.resources)
    more = {"Vm": task.vm, "Direction": task.direction.value, "Deadline": task.deadline.isoformat(timespec="seconds")}
    return {name: str(value) for name, value in (event | more).items()}


def fill(text: str, words: dict[str, str], content_type: str) -> str:
    """Substitute the values; raise ValueError with what is wrong with the template."""
    escape = _escape(content_type)
    template = Template(text)
    if not template.is_valid():
        raise ValueError("a '$' has no name after it; write $$ for a dollar sign")
    strange = [name for name in template.get_identifiers() if name not in NAMES]
    if strange:
        raise ValueError(f"unknown name ${strange[0]} (known: {', '.join(f'${name}' for name in NAMES)})")
    filled = template.substitute({name: escape(words.get(name, "")) for name in NAMES})
    if _is(content_type, JSON):
        try:
            msgspec.json.decode(filled)
        except msgspec.DecodeError as error:
            raise ValueError(
                f"with the values substituted it is not JSON ({error}); write quotes around each $Name"
            ) from None
    return filled


def _escape(content_type: str) -> Callable[[str], str]:
    if _is(content_type, JSON):
        return lambda word: msgspec.json.encode(word).decode()[1:-1]
    if _is(content_type, FORM):
        return quote_plus
    return str


def _is(content_type: str, kind: str) -> bool:
    given = content_type.partition(";")[0].strip().lower()
    return given == kind or (kind == JSON and given.endswith("+json"))
