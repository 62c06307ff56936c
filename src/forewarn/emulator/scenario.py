"""Reads scenarios: a fleet, timed steps, faults, and expectations of the VMs.

All times are Azure's, and are divided by ``hurry`` when the scenario is played.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec.structs import replace

from forewarn.config import toml
from forewarn.config.settings import NoticeSettings
from forewarn.core.errors import BadInput, nearest
from forewarn.core.model import EventType, Vm
from forewarn.emulator.faults import Fault
from forewarn.emulator.scenario_tables import (
    EXPECT_KEYS,
    FAULT_KEYS,
    FLEET_TABLES,
    SCENARIO_KEYS,
    STEP_KEYS,
    TABLES,
    Claim,
    ScenarioAction,
    read_keys,
)
from forewarn.emulator.setup import EmulationSetup, fleet_of
from forewarn.emulator.verbs import HOST_VERBS, VM_VERBS, Verb
from forewarn.fleetfile import parser
from forewarn.fleetfile.parser import DesiredFleet

USUAL_VM = "web-0"
_SHIPPED = files("forewarn.emulator") / "scenarios"


class ScenarioStep(msgspec.Struct, frozen=True, kw_only=True):
    """One operation or action at a time."""

    at: timedelta
    do: Verb | ScenarioAction
    name: str = ""
    vm: str = ""
    host: str = ""
    event: str = ""
    by: str = ""
    notice: timedelta | None = None
    duration: int | None = None
    description: str | None = None
    refused: bool = False

    def __str__(self) -> str:
        return " ".join(filter(None, (self.do, self.vm or self.host or self.event, f"by {self.by}" * bool(self.by))))


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """One fact that must, or must not, occur."""

    that: Claim
    event: str = ""
    by: str = ""
    within: timedelta | None = None
    after: timedelta | None = None
    never: bool = False


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario for the emulator."""

    name: str
    title: str
    about: str = ""
    setup: EmulationSetup
    steps: tuple[ScenarioStep, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    until: timedelta = timedelta()


def shipped() -> list[str]:
    """Return the names of the built-in scenarios."""
    return sorted(each.name.removesuffix(".toml") for each in _SHIPPED.iterdir() if each.name.endswith(".toml"))


def load(name: str) -> Scenario:
    """Return a built-in scenario or one in a file; raise BadInput with what is wrong."""
    if name in shipped():
        return parse((_SHIPPED / f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml", name)
    path = Path(name)
    if not path.suffix and not path.exists():
        raise BadInput(f"there is no scenario {name!r}{nearest(name, shipped()) or '; see forewarn emulate --list'}")
    return scenario_of(toml.read(path), path.stem)


def parse(text: str, file: str, name: str) -> Scenario:
    """Return the scenario in a text; ``file`` is its name in errors."""
    return scenario_of(toml.parse(text, file), name)


def scenario_of(file: toml.TomlFile, name: str) -> Scenario:
    known = (*SCENARIO_KEYS, *TABLES, *FLEET_TABLES)
    for key in file.tables:
        if key not in known:
            remedy = nearest(key, known) or "; known keys: " + ", ".join(known)
            raise BadInput(f"{file.place(key)}: a scenario has no {key!r}{remedy}")
    top = {key: value for key, value in file.tables.items() if key in SCENARIO_KEYS}
    values = read_keys(file, (), top, SCENARIO_KEYS)
    fleet = _fleet(file)
    faults = tuple(_fault(file, number, table, fleet) for number, table in _tables(file, "fault"))
    steps = _steps(file, fleet)
    setup = EmulationSetup(
        fleet=fleet,
        notice=msgspec.convert(_durations(file, "notice"), NoticeSettings),
        lasts=msgspec.convert(_durations(file, "lasts"), dict[EventType, timedelta]),
        faults=faults,
        **{key: values.pop(key) for key in ("enrolled", "user_operation_limit") if key in values},  # type: ignore[arg-type]
    )
    expectations = tuple(_expectation(file, number, table, fleet, steps) for number, table in _tables(file, "expect"))
    return Scenario(name=name, setup=setup, steps=steps, expectations=expectations, **values)  # type: ignore[arg-type]


def renamed(scenario: Scenario, names: Sequence[str]) -> Scenario:
    """Give the VMs of a scenario other names, in their order."""
    vms = scenario.setup.fleet.vms
    if len(names) > len(vms):
        raise BadInput(
            f"scenario {scenario.name} has {len(vms)} VMs, and {len(names)} names are given; give at most {len(vms)}"
        )
    others = dict(zip(vms, names, strict=False))
    changed = [_renamed_vm(vm, others) for vm in vms.values()]
    if len({vm.name for vm in changed}) < len(changed):
        raise BadInput(f"scenario {scenario.name} would have two VMs of the same name; give other names")
    old = scenario.setup.fleet
    groups = {others.get(name, name) if name in vms else name: terms for name, terms in old.groups.items()}
    groups = {name: replace(terms, name=name) for name, terms in groups.items()}
    fleet = DesiredFleet(old.hosts, groups, {vm.name: vm for vm in changed})
    faults = tuple(replace(fault, vm=others.get(fault.vm, fault.vm)) for fault in scenario.setup.faults)
    return replace(
        scenario,
        setup=replace(scenario.setup, fleet=fleet, faults=faults),
        steps=tuple(
            replace(step, vm=others.get(step.vm, step.vm), by=others.get(step.by, step.by)) for step in scenario.steps
        ),
        expectations=tuple(replace(each, by=others.get(each.by, each.by)) for each in scenario.expectations),
    )


def _renamed_vm(vm: Vm, others: dict[str, str]) -> Vm:
    group = others.get(vm.group, vm.group) if vm.group == vm.name else vm.group
    return replace(vm, name=others.get(vm.name, vm.name), group=group)


def _fleet(file: toml.TomlFile) -> DesiredFleet:
    tables = {key: value for key, value in file.tables.items() if key in FLEET_TABLES}
    return parser.parse_fleet(toml.TomlFile(file.name, file.text, tables)) if tables else fleet_of((USUAL_VM,))


def _durations(file: toml.TomlFile, name: str) -> dict[str, object]:
    return read_keys(file, (name,), file.tables[name], TABLES[name]) if name in file.tables else {}


def _tables(file: toml.TomlFile, name: str) -> Iterator[tuple[int, object]]:
    tables = file.tables.get(name, [])
    if not isinstance(tables, list):
        raise BadInput(f"{file.place(name)}: {name} must be a list of tables; write [[{name}]], with two brackets")
    return enumerate(tables)


def _fault(file: toml.TomlFile, number: int, table: object, fleet: DesiredFleet) -> Fault:
    values = read_keys(file, ("fault", number), table, FAULT_KEYS)
    _check_vm(file, ("fault", number, "vm"), values, fleet)
    return fault_of(values)


def fault_of(values: dict[str, object]) -> Fault:
    fields = {"since" if key == "from" else key: value for key, value in values.items()}
    return msgspec.convert(fields, Fault)


def _steps(file: toml.TomlFile, fleet: DesiredFleet) -> tuple[ScenarioStep, ...]:
    steps: list[ScenarioStep] = []
    for number, table in _tables(file, "step"):
        values = read_keys(file, ("step", number), table, STEP_KEYS)
        word = str(values["do"])
        values["do"] = Verb(word) if word in list(Verb) else ScenarioAction(word)
        for key in ("vm", "by"):
            _check_vm(file, ("step", number, key), values, fleet)
        step = ScenarioStep(**values)  # type: ignore[arg-type]  # each value was read by its key's kind
        wrong = _what_is_wrong(step, steps, fleet)
        if wrong:
            key, said = wrong
            raise BadInput(f"{file.place('step', number, key)}: [[step]] {number + 1}: {said}")
        steps.append(step)
    return tuple(steps)


def _what_is_wrong(step: ScenarioStep, earlier: list[ScenarioStep], fleet: DesiredFleet) -> tuple[str, str] | None:
    """Return the wrong key and the message, or None."""
    names = [each.name for each in earlier if each.name]
    if step.name in names:
        return "name", f"another step has the name {step.name!r}; give it another name"
    if step.host and step.host not in fleet.hosts:
        return "host", f"there is no host {step.host!r}{nearest(step.host, fleet.hosts)}"
    match step.do:
        case ScenarioAction.APPROVE | ScenarioAction.CANCEL:
            if step.event not in names:
                said = f"there is no earlier step {step.event!r}" if step.event else f"{step.do} needs an event"
                return "event", f"{said}{nearest(step.event, names)}; name the step that announces it"
        case ScenarioAction.ASK:
            if not step.vm:
                return "do", "ask needs a vm"
        case verb:
            if bool(step.vm) == bool(step.host):
                return "do", f"{verb} needs a vm or a host; set one of the two"
            if step.vm and verb not in VM_VERBS:
                return "do", f"{verb} is an operation on a host, not on a VM"
            if step.host and verb not in HOST_VERBS:
                return "do", f"{verb} is an operation on a VM, not on a host"
    return None


def _expectation(
    file: toml.TomlFile, number: int, table: object, fleet: DesiredFleet, steps: tuple[ScenarioStep, ...]
) -> Expectation:
    values = read_keys(file, ("expect", number), table, EXPECT_KEYS)
    _check_vm(file, ("expect", number, "by"), values, fleet)
    values["that"] = Claim(str(values["that"]))
    expectation = Expectation(**values)  # type: ignore[arg-type]  # each value was read by its key's kind
    place = f"{file.place('expect', number, 'event')}: [[expect]] {number + 1}"
    announcing = [step.name for step in steps if isinstance(step.do, Verb) and step.name]
    if expectation.that is Claim.ASKED:
        if expectation.event:
            raise BadInput(f"{place}: asked refers to a VM, not to an event; remove event")
        if expectation.within is None:
            raise BadInput(f"{place}: asked needs within; without it the scenario would never end")
        return expectation
    if not expectation.event and len(announcing) == 1:
        return replace(expectation, event=announcing[0])
    if expectation.event not in announcing:
        said = f"there is no step {expectation.event!r}" if expectation.event else "event is missing"
        raise BadInput(
            f"{place}: {said}{nearest(expectation.event, announcing)}; set event to the name of an announcing step"
        )
    return expectation


def _check_vm(
    file: toml.TomlFile, path: tuple[str, int, str], values: dict[str, object], fleet: DesiredFleet
) -> None:
    name = values.get(path[-1])
    if isinstance(name, str) and name not in fleet.vms:
        place = f"{file.place(*path)}: [[{path[0]}]] {path[1] + 1}"
        raise BadInput(f"{place}: there is no VM {name!r}{nearest(name, fleet.vms)}")
