"""The tables and keys of a scenario file: types, help texts and validation."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from forewarn.config import toml
from forewarn.config.durations import show_duration
from forewarn.config.values import DURATION, INTEGER, TEXT, ValueType, choice
from forewarn.core.errors import BadInput, nearest
from forewarn.core.event_types import DEFAULT_NOTICES
from forewarn.emulator.faults import FaultKind
from forewarn.emulator.setup import IMPACT_DURATIONS
from forewarn.emulator.verbs import Verb
from forewarn.fleetfile import tables as fleet_tables
from forewarn.wire.azure_names import TYPES


def _read_chance(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, str | int | float) or not 0 <= float(given) <= 1:
        raise ValueError
    return float(given)


def _read_signed(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, str | int | float) or not abs(float(given)) <= 1e9:
        raise ValueError
    return float(given)


NAME = ValueType("a name", fleet_tables.name)
TRUTH = ValueType("true or false", fleet_tables.boolean)
CHANCE = ValueType("a number from 0 to 1", _read_chance)
SECONDS = ValueType("a number of seconds", _read_signed)


class ScenarioAction(StrEnum):
    """Actions of a step besides operations on VMs and hosts."""

    APPROVE = "approve"
    CANCEL = "cancel"
    ASK = "ask"


class Claim(StrEnum):
    """The facts that an expectation can state."""

    FETCHED = "fetched"
    APPROVED = "approved"
    STARTED = "started"
    GONE = "gone"
    COMPLETED = "completed"
    CANCELED = "canceled"
    FAILED = "failed"
    ASKED = "asked"


class ScenarioKey(msgspec.Struct, frozen=True):
    """One key of a table."""

    kind: ValueType
    help: str
    is_needed: bool = False


def _one_of(*words: StrEnum) -> ValueType:
    return choice(*(word.value for word in words))


SCENARIO_KEYS = {
    "title": ScenarioKey(TEXT, "Title in lists and reports.", is_needed=True),
    "about": ScenarioKey(TEXT, "Description in a sentence or two."),
    "enrolled": ScenarioKey(TRUTH, "Whether groups are enrolled from the start. [default: true]"),
    "until": ScenarioKey(DURATION, "The scenario is not over before this time."),
    "user_operation_limit": ScenarioKey(
        INTEGER, "Limit of user-initiated events that are Scheduled; 0 means no limit. [default: 0]"
    ),
}
NOTICE_KEYS = {
    str(type_): ScenarioKey(DURATION, f"The least notice before a {TYPES[type_]}. [default: {show_duration(least)}]")
    for type_, least in DEFAULT_NOTICES.items()
}
LASTS_KEYS = {
    str(type_): ScenarioKey(
        DURATION, f"How long a {TYPES[type_]} stays Started. [default: {show_duration(duration)}]"
    )
    for type_, duration in IMPACT_DURATIONS.items()
}
STEP_KEYS = {
    "at": ScenarioKey(DURATION, "Time of the step, from the start of the scenario.", is_needed=True),
    "do": ScenarioKey(_one_of(*Verb, *ScenarioAction), "The operation or action.", is_needed=True),
    "name": ScenarioKey(NAME, "Name by which steps and expectations refer to this step and its events."),
    "vm": ScenarioKey(NAME, "The VM of the operation."),
    "host": ScenarioKey(NAME, "The host of the operation; every group and update domain on it gets an event."),
    "event": ScenarioKey(NAME, "For approve and cancel: the name of the step that announced the event."),
    "by": ScenarioKey(NAME, "For approve: the VM that approves; the operator if not set."),
    "notice": ScenarioKey(DURATION, "The notice, if longer than the least notice."),
    "duration": ScenarioKey(INTEGER, "The announced duration in seconds."),
    "description": ScenarioKey(TEXT, "The event's description."),
    "refused": ScenarioKey(TRUTH, "Whether the service must refuse the step. [default: false]"),
}
FAULT_KEYS = {
    "kind": ScenarioKey(_one_of(*FaultKind), "The fault.", is_needed=True),
    "probability": ScenarioKey(CHANCE, "Probability for each request. [default: 1]"),
    "from": ScenarioKey(DURATION, "Start, counted from the first request. [default: 0s]"),
    "until": ScenarioKey(DURATION, "End, counted from the first request. [default: never]"),
    "vm": ScenarioKey(NAME, "The VM with faulty requests. [default: all]"),
    "method": ScenarioKey(choice("GET", "POST"), "The method of faulty requests. [default: all]"),
    "times": ScenarioKey(INTEGER, "Largest number of faulty requests."),
    "seconds": ScenarioKey(SECONDS, "Duration of a delay, or offset of a skewed date."),
}
EXPECT_KEYS = {
    "that": ScenarioKey(_one_of(*Claim), "The expected fact.", is_needed=True),
    "event": ScenarioKey(NAME, "The name of the step that announced the event; not needed if only one step does."),
    "by": ScenarioKey(NAME, "The VM that must do it. [default: any]"),
    "within": ScenarioKey(DURATION, "Longest time after the announcement (for asked: after the start)."),
    "after": ScenarioKey(DURATION, "Shortest time after the announcement."),
    "never": ScenarioKey(TRUTH, "Whether it must not happen. [default: false]"),
}
TABLES = {
    "notice": NOTICE_KEYS,
    "lasts": LASTS_KEYS,
    "step": STEP_KEYS,
    "fault": FAULT_KEYS,
    "expect": EXPECT_KEYS,
}
FLEET_TABLES = ("host", "group", "vm")


def read_keys(
    file: toml.TomlFile, path: tuple[toml.PathStep, ...], table: object, keys: Mapping[str, ScenarioKey]
) -> dict[str, object]:
    """Return the values of a table; raise BadInput with the line, the key and the remedy."""
    where = _called(path)
    if not isinstance(table, dict):
        raise BadInput(f"{file.place(*path)}: {where} must be a table; write it with brackets")
    read: dict[str, object] = {}
    for name, given in table.items():
        if name not in keys:
            known = nearest(name, keys) or "; known keys: " + ", ".join(keys)
            raise BadInput(f"{file.place(*path, name)}: {where} has no key {name!r}{known}")
        read[name] = read_value(keys[name].kind, given, f"{file.place(*path, name)}: {name} of {where}")
    for name, key in keys.items():
        if key.is_needed and name not in read:
            raise BadInput(f"{file.place(*path)}: {where} lacks {name!r}: {key.kind.expected}")
    return read


def read_value(kind: ValueType, given: object, place: str) -> object:
    try:
        return kind.read(given)
    except (ValueError, OverflowError):
        shown = repr(given) if len(repr(given)) <= 60 else repr(given)[:57] + "..."
        suggestion = nearest(str(given), kind.choices) if kind.choices else ""
        raise BadInput(f"{place} is {shown}, expected {kind.expected}{suggestion}") from None


def _called(path: tuple[toml.PathStep, ...]) -> str:
    match path:
        case ():
            return "the scenario"
        case (str(name), int(number)):
            return f"[[{name}]] {number + 1}"
        case _:
            return f"[{path[0]}]"
