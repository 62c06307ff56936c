"""Texts of the VM's owner with the event's words in them: ``$EventType of $Vm``, as in ``string.Template``.

A word is written so that it cannot break out of its place: escaped inside JSON, percent-encoded inside a form.
"""

from collections.abc import Callable
from string import Template
from urllib.parse import quote_plus

import msgspec

from forewarn.agent.handler import Task
from forewarn.wire.event_json import EventJson, make_event_json

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"

NAMES = (
    *(field.encode_name for field in msgspec.structs.fields(EventJson)),
    "Vm",
    "Direction",
    "Deadline",
)
"""What may stand in a template."""


def words_of(task: Task) -> dict[str, str]:
    """Return the value of each name."""
    event: dict[str, object] = msgspec.to_builtins(make_event_json(task.event))
    event["Resources"] = ", ".join(task.event.resources)
    more = {"Vm": task.vm, "Direction": task.direction.value, "Deadline": task.deadline.isoformat(timespec="seconds")}
    return {name: str(value) for name, value in (event | more).items()}


def fill(text: str, words: dict[str, str], content_type: str) -> str:
    """Put the words into their places; raise ValueError that says what is wrong with the text."""
    escape = _escape(content_type)
    template = Template(text)
    if not template.is_valid():
        raise ValueError("a '$' stands alone; write $$ for one")
    strange = [name for name in template.get_identifiers() if name not in NAMES]
    if strange:
        raise ValueError(f"there is no ${strange[0]} (there are {', '.join(f'${name}' for name in NAMES)})")
    filled = template.substitute({name: escape(words.get(name, "")) for name in NAMES})
    if _is(content_type, JSON):
        try:
            msgspec.json.decode(filled)
        except msgspec.DecodeError as error:
            raise ValueError(
                f"with the words in their places it is no JSON ({error}); write quotes around each $Name"
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
