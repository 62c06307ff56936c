"""One table of a scenario: which keys it may have, what each may be, and what is said when it is wrong."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from forewarn.config import toml
from forewarn.config.values import DURATION, INTEGER, TEXT, ValueType, choice
from forewarn.core.errors import BadInput, nearest
from forewarn.emulator.faults import FaultKind
from forewarn.emulator.verbs import Verb
from forewarn.fleetfile import tables as fleet_tables


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
    """What a step can do beside what is done to VMs and hosts."""

    APPROVE = "approve"
    CANCEL = "cancel"
    ASK = "ask"


class Claim(StrEnum):
    """What can be expected."""

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
    "title": ScenarioKey(TEXT, "What it is called in lists and reports.", is_needed=True),
    "about": ScenarioKey(TEXT, "What happens in it, in a sentence or two."),
    "enrolled": ScenarioKey(
        TRUTH, "Whether groups are on from the beginning, as if their VMs had asked. [default: true]"
    ),
    "until": ScenarioKey(DURATION, "It is not over before this time."),
    "user_operation_limit": ScenarioKey(
        INTEGER, "How many user-initiated events may be Scheduled; 0 is no limit. [default: 0]"
    ),
}
NOTICE_KEYS = {
    "freeze": ScenarioKey(DURATION, "The least notice before a Freeze. [default: 15m]"),
    "reboot": ScenarioKey(DURATION, "The least notice before a Reboot. [default: 15m]"),
    "redeploy": ScenarioKey(DURATION, "The least notice before a Redeploy. [default: 10m]"),
    "preempt": ScenarioKey(DURATION, "The least notice before a Preempt. [default: 30s]"),
}
LASTS_KEYS = {
    "freeze": ScenarioKey(DURATION, "How long a Freeze stays Started. [default: 10m]"),
    "reboot": ScenarioKey(DURATION, "How long a Reboot stays Started. [default: 10m]"),
    "redeploy": ScenarioKey(DURATION, "How long a Redeploy stays Started. [default: 10m]"),
    "preempt": ScenarioKey(DURATION, "How long a Preempt stays Started. [default: 5s]"),
    "terminate": ScenarioKey(DURATION, "How long a Terminate stays Started. [default: 5s]"),
}
STEP_KEYS = {
    "at": ScenarioKey(DURATION, "When, counted from the beginning.", is_needed=True),
    "do": ScenarioKey(_one_of(*Verb, *ScenarioAction), "What is done.", is_needed=True),
    "name": ScenarioKey(NAME, "What other steps and expectations call it, and the events it announces."),
    "vm": ScenarioKey(NAME, "The VM it is done to."),
    "host": ScenarioKey(NAME, "The host it is done to; every group and update domain on it gets an event."),
    "event": ScenarioKey(NAME, "For approve and cancel: the name of the step that announced the event."),
    "by": ScenarioKey(NAME, "For approve: the VM that does; the operator when left out."),
    "notice": ScenarioKey(DURATION, "The notice to give, if it is to be more than the least."),
    "duration": ScenarioKey(INTEGER, "The seconds of interruption to announce."),
    "description": ScenarioKey(TEXT, "What VMs will read."),
    "refused": ScenarioKey(TRUTH, "Whether the rules are to refuse it. [default: false]"),
}
FAULT_KEYS = {
    "kind": ScenarioKey(_one_of(*FaultKind), "What goes wrong.", is_needed=True),
    "probability": ScenarioKey(CHANCE, "How likely it befalls a request. [default: 1]"),
    "from": ScenarioKey(DURATION, "From when on, counted from the first request. [default: 0s]"),
    "until": ScenarioKey(DURATION, "Until when. [default: the end]"),
    "vm": ScenarioKey(NAME, "Whose requests. [default: everybody's]"),
    "method": ScenarioKey(choice("GET", "POST"), "Which requests. [default: all]"),
    "times": ScenarioKey(INTEGER, "How often at most."),
    "seconds": ScenarioKey(SECONDS, "How long, for those that take time; how much, for a skewed date."),
}
EXPECT_KEYS = {
    "that": ScenarioKey(_one_of(*Claim), "What is expected.", is_needed=True),
    "event": ScenarioKey(
        NAME, "The name of the step that announced the event; may be left out where only one step does."
    ),
    "by": ScenarioKey(NAME, "The VM that is to have done it. [default: any]"),
    "within": ScenarioKey(DURATION, "How long after the announcement at most (for asked: after the beginning)."),
    "after": ScenarioKey(DURATION, "How long after the announcement at least."),
    "never": ScenarioKey(TRUTH, "Whether it must not happen at all. [default: false]"),
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
    """Return the values of a table; raise BadInput that names the line, the key and the remedy."""
    where = _called(path)
    if not isinstance(table, dict):
        raise BadInput(f"{file.place(*path)}: {where} is a table; write it with brackets")
    read: dict[str, object] = {}
    for name, given in table.items():
        if name not in keys:
            known = nearest(name, keys) or "; known are " + ", ".join(keys)
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
