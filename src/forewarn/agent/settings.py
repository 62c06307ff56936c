"""Reads the settings of ``forewarn agent`` from flags, environment and agent.toml, and validates all of them.

    --url   =   FOREWARN_AGENT_URL   =   url in agent.toml

Rules ([[rules]]) and handlers ([handlers.NAME]) can be set in the file only.
"""

import re
import shlex
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec

from forewarn.agent.decision.approval_turn import Approver
from forewarn.agent.decision.plan import HandlerTerms, OnFailure
from forewarn.agent.decision.rules import ApprovalMode, Concern, EventRule
from forewarn.agent.local.address import LocalAddress, read_address
from forewarn.client import endpoint_url
from forewarn.config import toml
from forewarn.config.setting_keys import SettingKey, from_file, from_outside, keys_of, unknown_key
from forewarn.config.values import (
    BOOLEAN,
    DIRECTORY,
    DURATION,
    ENDPOINT_OR_OFF,
    INTEGER,
    TEXT,
    ListenAddress,
    ValueType,
    choice,
)
from forewarn.core.errors import BadInput, nearest
from forewarn.core.model import EventSource, EventType
from forewarn.wire.azure_names import SOURCES, TYPES, read_source, read_type

PREFIX = "FOREWARN_AGENT_"
_NAME = re.compile(r"\w[\w.-]*")
_WINDOWS = sys.platform == "win32"
_STATE = Path(r"C:\ProgramData\forewarn-agent" if _WINDOWS else "/var/lib/forewarn-agent")
_ADDRESS: LocalAddress = ListenAddress("127.0.0.1", 9255) if _WINDOWS else Path("/run/forewarn-agent/agent.sock")


def _read_words(given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        return tuple(shlex.split(given))
    if not isinstance(given, list) or not all(isinstance(word, str) and "\0" not in word for word in given):
        raise ValueError
    if given and not given[0]:
        raise ValueError  # the program's name is empty
    return tuple(given)


def _read_stages(given: object) -> tuple[tuple[str, ...], ...]:
    if not isinstance(given, list):
        raise ValueError  # noqa: TRY004 - one error for every value that does not fit
    return tuple((stage,) if isinstance(stage, str) else _read_names(stage) for stage in given)


def _read_names(given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or not given or not all(isinstance(name, str) for name in given):
        raise ValueError
    return tuple(given)


def _read_types(given: object) -> tuple[EventType, ...]:
    types = tuple(read_type(word) for word in _read_names(given))
    known = tuple(each for each in types if isinstance(each, EventType))
    if len(known) != len(types):
        raise ValueError
    return known


def _read_event_source(given: object) -> EventSource:
    source = read_source(given) if isinstance(given, str) else None
    if not isinstance(source, EventSource):
        raise ValueError  # noqa: TRY004 - as above
    return source


def _read_service(given: object) -> str:
    if not isinstance(given, str):
        raise ValueError  # noqa: TRY004 - as above
    try:
        if given:
            endpoint_url.read_endpoint_url(given)
    except BadInput:
        raise ValueError from None
    return given


def _read_socket(given: object) -> LocalAddress | None:
    if not isinstance(given, str):
        raise ValueError  # noqa: TRY004 - as above
    try:
        return read_address(given)
    except BadInput:
        raise ValueError from None


def _member(of: type[StrEnum]) -> ValueType:
    """Return the value type of an enumeration."""
    words: ValueType = choice(*of)
    read: Callable[[object], object] = lambda given: of(str(words.read(given)))  # noqa: E731 - reads as a setting
    return msgspec.structs.replace(words, read=read)


_WORDS = ValueType('a list of texts, such as ["/usr/local/bin/decide", "--now"]', _read_words, "COMMAND")
_PATTERNS = ValueType('a list of patterns, such as ["web-*"]', _read_names)
_STAGES = ValueType('a list of handlers, such as ["first", ["these", "together"], "last"]', _read_stages)
_TYPES = ValueType(f"a list of {', '.join(TYPES.values())}", _read_types)
_SOURCE = ValueType(" or ".join(SOURCES.values()), _read_event_source)
_SERVICE = ValueType("an address such as http://169.254.169.254", _read_service, "URL")
_SOCKET = ValueType("a path, 127.0.0.1:PORT, or off", _read_socket, "PATH|HOST:PORT|off")


class ConfiguredHandler(msgspec.Struct, frozen=True):
    """A handler as configured in the file."""

    kind: str
    terms: HandlerTerms
    settings: dict[str, object]
    """The settings of this handler type."""
    place: str
    """File and line of its table, for errors."""
    places: dict[str, str] = {}
    """File and line of each key of its table."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one agent."""

    url: Annotated[
        str, SettingKey(_SERVICE, "The metadata service, such as http://169.254.169.254; discovered when empty.")
    ] = ""
    name: Annotated[
        str, SettingKey(TEXT, "This VM's name in Resources of events; requested from the endpoint when empty.")
    ] = ""
    state: Annotated[Path, SettingKey(DIRECTORY, "Directory of the state that survives a reboot.")] = _STATE
    socket: Annotated[
        LocalAddress | None, SettingKey(_SOCKET, "Local socket on which programs subscribe and hold; or off.")
    ] = _ADDRESS
    http: Annotated[
        ListenAddress | None, SettingKey(ENDPOINT_OR_OFF, "HTTP address of metrics, health and status; or off.")
    ] = ListenAddress("127.0.0.1", 9254)
    dry_run: Annotated[bool, SettingKey(BOOLEAN, "Log what the agent would do, and do nothing.")] = False
    approver: Annotated[
        Approver, SettingKey(_member(Approver), "Which VM approves an event that several VMs share.")
    ] = Approver.LEADER
    takeover: Annotated[
        timedelta, SettingKey(DURATION, "Time without the leader's approval after which the next VM approves.")
    ] = timedelta(minutes=5)
    coordinator: Annotated[
        tuple[str, ...],
        SettingKey(_WORDS, "The command that decides: exit code 0 approves, 1 means ask again later."),
    ] = ()
    log_level: Annotated[
        str, SettingKey(choice("debug", "info", "warning", "error"), "The lowest level that is logged.")
    ] = "info"
    log_format: Annotated[str, SettingKey(choice("human", "json"), "The format of the log.")] = "human"
    rules: tuple[EventRule, ...] = ()
    handlers: dict[str, ConfiguredHandler] = {}


KEYS = keys_of(AgentSettings)
"""Every setting that has a flag, a variable and a key."""

RULE_KEYS = {
    "name": SettingKey(TEXT, "Name of the rule in log and status."),
    "types": SettingKey(_TYPES, "Event types that match; all if not set."),
    "source": SettingKey(_SOURCE, "EventSource that matches; any if not set."),
    "duration_at_most": SettingKey(DURATION, "Longest duration that matches. An unknown duration does not match."),
    "duration_at_least": SettingKey(DURATION, "Shortest duration that matches. An unknown duration does not match."),
    "description": SettingKey(TEXT, "Pattern for the description, such as *migration*; case does not matter."),
    "resources": SettingKey(_PATTERNS, "Patterns for VM names; one of the event's Resources must match."),
    "concerns": SettingKey(_member(Concern), "Whether the event must affect this VM, other VMs, or any."),
    "approval": SettingKey(_member(ApprovalMode), "When the event is approved."),
    "late": SettingKey(BOOLEAN, "Whether handlers are called for an event that has already started."),
    "handlers": SettingKey(_STAGES, "Handlers to call, in order; those of an inner list run in parallel."),
}
"""The settings of a table [[rules]]."""

TERM_KEYS = {
    "kind": SettingKey(TEXT, "Type of the handler."),
    "timeout": SettingKey(DURATION, "Longest duration of one call."),
    "takes": SettingKey(
        DURATION, "Usual duration of a call; a handler that does not fit before NotBefore is left out."
    ),
    "importance": SettingKey(
        INTEGER, "If not all handlers fit, higher importance goes first; among equals, the configured order."
    ),
    "retries": SettingKey(INTEGER, "Number of retries after a failure."),
    "retry_after": SettingKey(DURATION, "Time between a failure and the retry."),
    "on_failure": SettingKey(
        _member(OnFailure),
        "What follows when it fails or is left out: with hold the event is not approved; with give-up no further"
        " handler is called either; with go-on neither. For the handlers log and webhook the default is go-on.",
    ),
}
"""The settings of [handlers.NAME] that all handlers share."""


def load(flags: Mapping[str, object], environment: Mapping[str, str], path: Path | None) -> AgentSettings:
    """Return the settings; raise BadInput with the wrong flag, variable or line."""
    found = _from_file(toml.read(path)) if path else {}
    settings = msgspec.structs.replace(AgentSettings(), **(found | from_outside(KEYS, flags, environment, PREFIX)))
    if settings.approver is Approver.COORDINATOR and not settings.coordinator:
        where = f"{path}: " if path else ""
        raise BadInput(f'{where}approver = "coordinator" needs a command; set coordinator = ["/path/to/command"]')
    return settings


def _from_file(file: toml.TomlFile) -> dict[str, object]:
    found: dict[str, object] = {}
    handlers = _handlers(file, file.tables.get("handlers", {}))
    for name, given in file.tables.items():
        match name:
            case "handlers":
                found[name] = handlers
            case "rules":
                found[name] = _rules(file, given, handlers)
            case _ if name in KEYS:
                found[name] = from_file(KEYS[name], given, f"{file.place(name)}: {name}")
            case _:
                raise unknown_key(file, (name,), (*KEYS, "rules", "handlers"))
    return found


def _handlers(file: toml.TomlFile, given: object) -> dict[str, ConfiguredHandler]:
    if not isinstance(given, dict) or not all(isinstance(table, dict) for table in given.values()):
        raise BadInput(
            f"{file.place('handlers')}: a handler must be a table; write [handlers.NAME] and its kind below"
        )
    return {name: _handler(file, name, table) for name, table in given.items()}


def _handler(file: toml.TomlFile, name: str, table: dict[str, object]) -> ConfiguredHandler:
    place = file.place("handlers", name)
    terms = {
        key: from_file(TERM_KEYS[key], value, f"{file.place('handlers', name, key)}: {key} in [handlers.{name}]")
        for key, value in table.items()
        if key in TERM_KEYS
    }
    kind = terms.pop("kind", None)
    if not kind:
        raise BadInput(f'{place}: [handlers.{name}] has no kind; write kind = "command", or another handler')
    if not _NAME.fullmatch(name):
        # It is also the name of the handler's directory.
        raise BadInput(f"{place}: {name!r} is not a valid handler name; use letters, digits, '-' and '_'")
    own = {key: value for key, value in table.items() if key not in TERM_KEYS}
    found = msgspec.structs.replace(HandlerTerms(), **terms)
    if found.timeout <= timedelta(0) or found.takes > found.timeout:
        raise BadInput(
            f"{place}: [handlers.{name}] cannot end in time; set a timeout that is at least as long as takes"
        )
    return ConfiguredHandler(str(kind), found, own, place, {key: file.place("handlers", name, key) for key in table})


def _rules(file: toml.TomlFile, given: object, handlers: Mapping[str, ConfiguredHandler]) -> tuple[EventRule, ...]:
    if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
        raise BadInput(f"{file.place('rules')}: rules must be tables; write [[rules]] and its settings below")
    return tuple(_rule(file, number, table, handlers) for number, table in enumerate(given))


def _rule(
    file: toml.TomlFile, number: int, table: dict[str, object], handlers: Mapping[str, ConfiguredHandler]
) -> EventRule:
    found: dict[str, object] = {}
    for key, value in table.items():
        if key not in RULE_KEYS:
            raise unknown_key(file, ("rules", number, key), RULE_KEYS)
        found[key] = from_file(RULE_KEYS[key], value, f"{file.place('rules', number, key)}: {key} in [[rules]]")
    found.setdefault("name", f"rule {number + 1}")
    found["stages"] = found.pop("handlers", ())
    rule = msgspec.structs.replace(EventRule(name=""), **found)
    place = file.place("rules", number, "handlers")
    for name in rule.handlers:
        if name not in handlers:
            near = nearest(name, handlers) or f"; write [handlers.{name}] and its kind"
            raise BadInput(f"{place}: there is no handler {name!r}{near}")
        if rule.handlers.count(name) > 1:
            raise BadInput(
                f"{place}: handler {name!r} is listed twice; list it once, or configure it under two names"
            )
    return rule
