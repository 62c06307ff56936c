"""The settings of ``forewarn agent``: agent.toml, checked whole before anything is begun.

    --url   =   FOREWARN_AGENT_URL   =   url in agent.toml

The rules ([[rules]]) and the handlers ([handlers.NAME]) stand in the file alone.
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
        raise ValueError  # no program has an empty name
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
    """Return the kind of value that is a member of an enumeration, read as one."""
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
    """A handler as the file describes it."""

    kind: str
    terms: HandlerTerms
    settings: dict[str, object]
    """The handler's own."""
    place: str
    """Where its table stands, for errors."""
    places: dict[str, str] = {}
    """Where each line of its table stands."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one agent runs."""

    url: Annotated[
        str, SettingKey(_SERVICE, "The service to ask, such as http://169.254.169.254; found when empty.")
    ] = ""
    name: Annotated[
        str, SettingKey(TEXT, "The name by which events call this VM; asked at the endpoint when empty.")
    ] = ""
    state: Annotated[Path, SettingKey(DIRECTORY, "Where the agent keeps what must survive a reboot.")] = _STATE
    socket: Annotated[
        LocalAddress | None, SettingKey(_SOCKET, "Where programs on this VM listen and hold; or off.")
    ] = _ADDRESS
    http: Annotated[
        ListenAddress | None, SettingKey(ENDPOINT_OR_OFF, "Where metrics and health are shown; or off.")
    ] = ListenAddress("127.0.0.1", 9254)
    dry_run: Annotated[bool, SettingKey(BOOLEAN, "Say what would be done, and do nothing.")] = False
    approver: Annotated[Approver, SettingKey(_member(Approver), "Who approves an event that several VMs share.")] = (
        Approver.LEADER
    )
    takeover: Annotated[
        timedelta, SettingKey(DURATION, "How long a leader may stay silent before the next VM approves in its place.")
    ] = timedelta(minutes=5)
    coordinator: Annotated[
        tuple[str, ...], SettingKey(_WORDS, "The command that decides: exit code 0 approves, 1 is asked again later.")
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
    "name": SettingKey(TEXT, "What the log and the status call it."),
    "types": SettingKey(_TYPES, "The types of event it is for; all where left out."),
    "source": SettingKey(_SOURCE, "Who wants the event; anybody where left out."),
    "duration_at_most": SettingKey(
        DURATION, "The longest interruption it is for. One of unknown length does not fit."
    ),
    "duration_at_least": SettingKey(
        DURATION, "The shortest interruption it is for. One of unknown length does not fit."
    ),
    "description": SettingKey(TEXT, "A pattern for the description, such as *migration*; case does not matter."),
    "resources": SettingKey(_PATTERNS, "Patterns for names: one of the event's VMs fits one of them."),
    "concerns": SettingKey(_member(Concern), "Whether the event must happen to this VM."),
    "approval": SettingKey(_member(ApprovalMode), "When the event is approved."),
    "late": SettingKey(BOOLEAN, "Whether handlers are run for an event that has started already."),
    "handlers": SettingKey(_STAGES, "What is run, in order; a list inside the list runs in parallel."),
}
"""What a table [[rules]] may say."""

TERM_KEYS = {
    "kind": SettingKey(TEXT, "Which handler it is."),
    "timeout": SettingKey(DURATION, "The longest that one call may take."),
    "takes": SettingKey(DURATION, "How long a call usually takes; what does not fit before NotBefore is left out."),
    "importance": SettingKey(INTEGER, "When not everything fits, the highest goes first; among equals, the earlier."),
    "retries": SettingKey(INTEGER, "How often it is tried again after a failure."),
    "retry_after": SettingKey(DURATION, "How long after a failure it is tried again."),
    "on_failure": SettingKey(
        _member(OnFailure),
        "What it means that it failed or was left out: hold gives no approval, give-up runs nothing more either,"
        " go-on neither. For the handlers log and webhook the default is go-on.",
    ),
}
"""What every table [handlers.NAME] may say, beside the handler's own settings."""


def load(flags: Mapping[str, object], environment: Mapping[str, str], path: Path | None) -> AgentSettings:
    """Return the settings; raise BadInput that names the flag, variable or line that is wrong."""
    found = _from_file(toml.read(path)) if path else {}
    settings = msgspec.structs.replace(AgentSettings(), **(found | from_outside(KEYS, flags, environment, PREFIX)))
    if settings.approver is Approver.COORDINATOR and not settings.coordinator:
        where = f"{path}: " if path else ""
        raise BadInput(
            f'{where}approver = "coordinator" needs a command that decides; write coordinator = ["/path/to/it"]'
        )
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
        raise BadInput(f"{file.place('handlers')}: a handler is a table; write [handlers.NAME] and its kind below")
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
        # It is also the name of the directory in which the handler keeps what it must.
        raise BadInput(f"{place}: {name!r} is no name for a handler; use letters, digits, '-' and '_'")
    own = {key: value for key, value in table.items() if key not in TERM_KEYS}
    found = msgspec.structs.replace(HandlerTerms(), **terms)
    if found.timeout <= timedelta(0) or found.takes > found.timeout:
        raise BadInput(
            f"{place}: [handlers.{name}] may never end in time; give a timeout that is longer than it takes"
        )
    return ConfiguredHandler(str(kind), found, own, place, {key: file.place("handlers", name, key) for key in table})


def _rules(file: toml.TomlFile, given: object, handlers: Mapping[str, ConfiguredHandler]) -> tuple[EventRule, ...]:
    if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
        raise BadInput(f"{file.place('rules')}: rules are tables; write [[rules]] and what each says below")
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
            raise BadInput(f"{place}: handler {name!r} stands there twice; run it once, or give it two names")
    return rule
