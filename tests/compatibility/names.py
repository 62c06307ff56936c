"""The names by which others know the present version: records on disk, API, settings, commands, metrics, plugins.

Everything is plain JSON: lists of names, or lists of names by what they belong to.
"""

import inspect
import json
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import click
import msgspec

import forewarn
from forewarn import testing
from forewarn.agent import settings as agent_settings
from forewarn.agent.decision import facts as agent_facts
from forewarn.agent.decision.memory import AgentMemory
from forewarn.agent.decision.run_counters import RunCounters
from forewarn.agent.handlers import command, haproxy, log, pacemaker, signal, systemd, webhook
from forewarn.agent.handlers.kubernetes.settings import KubernetesSettings
from forewarn.agent.observation import metrics as agent_metrics
from forewarn.audit.history_lines import COLUMNS
from forewarn.cli.root import EXIT_CODES
from forewarn.config import settings
from forewarn.control.notifications.notification import NotificationType
from forewarn.core.chunks import FleetChunk
from forewarn.core.facts import AnyFact, Entry
from forewarn.drivers import command as command_driver
from forewarn.drivers import progress_store, simulated
from forewarn.drivers import webhook as webhook_driver
from forewarn.drivers.libvirt.settings import LibvirtSettings
from forewarn.drivers.qemu.settings import QemuSettings
from forewarn.emulator import faults, scenario, scenario_tables
from forewarn.fleetfile import tables
from forewarn.journal.sqlite.snapshot_files import SnapshotHeader
from forewarn.node.driver import Impact
from forewarn.testing import plugin
from tests.agent.samples import status
from tests.harness import ApiHarness
from tools import reference

Names = dict[str, Any]

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def names() -> Names:
    """Return all of them."""
    return {
        "records": {kind: records_of(each) for kind, each in _RECORDS.items()},
        "api": api(),
        "history columns": [*COLUMNS],
        "notices": [*NotificationType],
        "settings": {kind: [*keys] for kind, keys in _settings().items()},
        "commands": {context.command_path: sorted(_parameters(context.command)) for context in reference.contexts()},
        "exit codes": {kind.__name__: code for kind, code in EXIT_CODES.items()},
        "agent metrics": sorted(_agent_metrics()),
        "plugins": {
            group: sorted(members)
            for group, members in tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"][
                "entry-points"
            ].items()
        },
        "programs": {
            "forewarn": _public(forewarn),
            "forewarn.Client": _public(forewarn.Client),
            "forewarn.AsyncClient": _public(forewarn.AsyncClient),
            "forewarn.Change": _public(forewarn.Change),
            "forewarn.Document": _public(forewarn.Document),
            "forewarn.ScheduledEvent": _public(forewarn.ScheduledEvent),
            "forewarn.testing": _public(testing),
            "forewarn.testing.ScheduledEvents": _public(testing.ScheduledEvents),
            "pytest": [name for name in ("scheduled_events",) if hasattr(plugin, name)],
        },
        "scenarios": {
            "shipped": sorted(scenario.shipped()),
            "faults": sorted(faults.FAULTS),
            "top": sorted(scenario_tables.SCENARIO_KEYS),
            **{name: sorted(keys) for name, keys in scenario_tables.TABLES.items()},
        },
    }


def _parameters(command_: click.Command) -> Iterator[str]:
    """Yield the options of a command, and the places of its arguments, which have no names for those who type."""
    arguments = 0
    for each in command_.params:
        if isinstance(each, click.Argument):
            arguments += 1
            yield f"argument {arguments}"
        else:
            yield from (*each.opts, *each.secondary_opts)


def _settings() -> dict[str, Iterable[str]]:
    structs: dict[str, type[msgspec.Struct]] = {
        "service.notice": settings.NoticeSettings,
        "service.mail": settings.MailSettings,
        "service.network": settings.NetworkSettings,
        "driver command": command_driver.CommandDriverSettings,
        "driver libvirt": LibvirtSettings,
        "driver qemu": QemuSettings,
        "driver simulated": simulated.SimulatedSettings,
        "driver webhook": webhook_driver.WebhookDriverSettings,
        "handler command": command.CommandHandlerSettings,
        "handler haproxy": haproxy.HaproxySettings,
        "handler kubernetes": KubernetesSettings,
        "handler log": log.LogSettings,
        "handler pacemaker": pacemaker.PacemakerSettings,
        "handler signal": signal.SignalSettings,
        "handler systemd": systemd.SystemdSettings,
        "handler webhook": webhook.WebhookHandlerSettings,
    }
    return {kind: each.__struct_encode_fields__ for kind, each in structs.items()} | {
        "service keys": settings.KEYS,
        "agent": agent_settings.KEYS,
        "agent rules": agent_settings.RULE_KEYS,
        "agent handlers": agent_settings.TERM_KEYS,
        "fleet host": tables.HOST_KEYS,
        "fleet group": tables.GROUP_KEYS,
        "fleet vm": tables.VM_KEYS,
    }


def _public(of: object) -> list[str]:
    """Return the names that a module offers, or a class: its members, and the arguments of its methods."""
    if not inspect.isclass(of):
        return sorted(getattr(of, "__all__", ()))
    found = []
    for name, member in inspect.getmembers(of):
        if not name.startswith("_") or name == "__init__":
            found.append(name)
            if inspect.isfunction(member):
                found += [f"{name}({each})" for each in inspect.signature(member).parameters if each != "self"]
    return sorted(found)


def _agent_metrics() -> Iterator[str]:
    tally = RunCounters()
    for line in agent_metrics.render(tally, status(), ["drain"]).decode().splitlines():
        if line.startswith("# TYPE "):
            yield line.removeprefix("# TYPE ")


_RECORDS: dict[str, Any] = {
    "entry": Entry,
    "fact": AnyFact,
    "snapshot header": SnapshotHeader,
    "snapshot part": FleetChunk,
    "agent fact": agent_facts.AgentFact,
    "agent memory": AgentMemory,
    "driver ledger": progress_store.WorkBegun | progress_store.WorkStep | progress_store.WorkEnded,
    "driver program": Impact,
    "driver webhook": webhook_driver.ImpactMessage,
    "driver webhook switch": webhook_driver.SwitchMessage,
}


def records_of(kind: Any) -> dict[str, dict[str, Any]]:
    """Return the fields of records by tag: all of them by their path, those that must be there, and words."""
    members = get_args(kind) or (kind,)
    found: dict[str, dict[str, Any]] = {}
    for info in msgspec.inspect.multi_type_info(members):
        shape = _Shape()
        shape.take(info, "")
        tag = getattr(info, "tag", None)
        found[str(tag or "")] = {
            "tag field": getattr(info, "tag_field", None),
            "fields": sorted(shape.fields),
            "needed": sorted(shape.needed),
            "words": {path: sorted(words) for path, words in sorted(shape.words.items())},
        }
    return found


class _Shape:
    """The fields of a record and of the records in it."""

    def __init__(self) -> None:
        self.fields: set[str] = set()
        self.needed: set[str] = set()
        self.words: dict[str, set[str]] = {}
        self._within: list[type] = []

    def take(self, info: msgspec.inspect.Type, path: str) -> None:
        match info:
            case msgspec.inspect.StructType() if info.cls not in self._within:
                self._within.append(info.cls)
                is_entry = info.cls is Entry
                for number, field in enumerate(info.fields):
                    below = f"{path}.{number if info.array_like else field.encode_name}".lstrip(".")
                    self.fields.add(below)
                    if field.required:
                        self.needed.add(below)
                    if not (is_entry and field.name == "facts"):
                        self.take(field.type, below)
                if info.tag is not None:
                    self.words.setdefault(f"{path}.{info.tag_field}".lstrip("."), set()).add(str(info.tag))
                self._within.pop()
            case msgspec.inspect.UnionType():
                for each in info.types:
                    self.take(each, path)
            case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
                self.take(info.item_type, f"{path}[]")
            case msgspec.inspect.DictType():
                self.take(info.value_type, f"{path}{{}}")
            case msgspec.inspect.EnumType():
                self.words.setdefault(path, set()).update(str(each.value) for each in info.cls)
            case _:
                pass


def api() -> dict[str, list[str]]:
    """Return, for every operation of the control API, its parameters and the fields of its bodies."""
    with TemporaryDirectory() as place:
        harness = ApiHarness(Path(place))
        harness.start()
        try:
            harness.open()
            document = json.loads(harness.ask("GET", "/openapi.json").body)
        finally:
            harness.stop()
    found: dict[str, list[str]] = {}
    problems: set[str] = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            result = {f"{each['in']} {each['name']}" for each in operation.get("parameters", ())}
            for content in operation.get("requestBody", {}).get("content", {}).values():
                result |= {f"request {each}" for each in _properties(content.get("schema", {}), document, "", ())}
            for status_, answer in operation["responses"].items():
                result.add(f"answer {status_}")
                for content in answer.get("content", {}).values():
                    fields = _properties(content.get("schema", {}), document, "", ())
                    result |= {each for each in fields if status_.startswith("2")}
                    if not status_.startswith("2"):
                        problems |= set(fields)
            found[f"{method} {path}"] = sorted(result)
    return found | {"problems": sorted(problems)}


def _properties(
    schema: dict[str, Any], document: dict[str, Any], path: str, within: tuple[str, ...]
) -> Iterator[str]:
    if reference_ := schema.get("$ref"):
        if reference_ not in within:
            target = document["components"]["schemas"][reference_.rpartition("/")[2]]
            yield from _properties(target, document, path, (*within, reference_))
        return
    for kind in ("oneOf", "anyOf", "allOf"):
        for each in schema.get(kind, ()):
            yield from _properties(each, document, path, within)
    for name, each in schema.get("properties", {}).items():
        below = f"{path}.{name}".lstrip(".")
        yield below
        yield from _properties(each, document, below, within)
    if isinstance(schema.get("items"), dict):
        yield from _properties(schema["items"], document, f"{path}[]", within)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _properties(schema["additionalProperties"], document, f"{path}{{}}", within)
    yield from (f"{path}={word}" for word in schema.get("enum", ()) if word is not None)
