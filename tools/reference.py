"""Writes the pages of docs/reference that say what the code says: from commands to scenarios (``make docs``)."""  # noqa: INP001 - a script

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import get_args, get_type_hints

import click
import msgspec

from forewarn.agent import settings as agent_settings
from forewarn.agent.decision import plan, rules
from forewarn.cli.root import cli
from forewarn.config import settings
from forewarn.config.durations import show_duration
from forewarn.config.setting_keys import SettingKey
from forewarn.conformance import openapi
from forewarn.core import credentials, facts, model
from forewarn.drivers import command, simulated
from forewarn.emulator import faults, scenario, scenario_tables
from tools.azure import azure_page

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
WIDTH = 100
_PARTS = (facts.Entry, facts.Mark, facts.Fetch)
_NESTED = (
    model.Event,
    model.Vm,
    model.InstanceFacts,
    model.Host,
    model.Observation,
    model.GroupTerms,
    model.Policy,
    model.Caller,
    credentials.Token,
    credentials.Subscription,
)
_WORDS = {
    "str": "a text",
    "int": "a number",
    "bool": "true or false",
    "datetime": "a time in UTC",
    "dict[str, str]": "texts by name",
    "AnyFact": "a fact",
}
_RECORDS = {kind.__name__ for kind in (*_PARTS, *_NESTED)}


def pages() -> dict[Path, str]:
    """Return every generated page."""
    return {
        FOLDER / "commands.md": commands_page(),
        FOLDER / "settings.md": settings_page(),
        FOLDER / "agent.md": agent_page(),
        FOLDER / "facts.md": facts_page(),
        FOLDER / "scenarios.md": scenarios_page(),
        FOLDER / "azure.md": azure_page(),
        FOLDER / "openapi.json": f"{json.dumps(openapi.describe(), indent=2)}\n",
    }


def commands_page() -> str:
    at_the_top = (context for context in contexts() if context.parent and not context.parent.parent)
    contents = "\n".join(map(_told_group, at_the_top))
    told = "\n\n".join(
        f"## {context.command_path}\n\n```\n{context.command.get_help(context)}\n```" for context in contexts()
    )
    return f"""\
# Commands

What `forewarn` can do, in the words of its own `--help`.
This page is generated; `make docs` writes it anew.

{contents}

{told}
"""


def _told_group(context: click.Context) -> str:
    """Return the line of the contents for a command, with those below it."""
    below = contexts(context.command, context.parent)
    links = (f"[{each.info_name}](#{each.command_path.replace(' ', '-')})" for each in below)
    return f"- {next(links)}{': ' * isinstance(context.command, click.Group)}{', '.join(links)}"


def contexts(command: click.Command = cli, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Yield a context of every command, a group before its members."""
    name = "forewarn" if parent is None else command.name
    context = click.Context(command, parent, name, **{**command.context_settings, "terminal_width": WIDTH})
    yield context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            if (member := command.get_command(context, each)) is not None:
                yield from contexts(member, context)


def settings_page() -> str:
    usual = settings.Settings()
    flags = _table(
        ("setting", "default", "meaning", "expected", "a change"),
        (
            (f"`{name}`", _default(getattr(usual, name)), _cell(key.help), _cell(key.kind.expected), _change(key))
            for name, key in settings.KEYS.items()
        ),
    )
    notice = _settings_table(usual.notice, "the least notice ")
    return f"""\
# Settings

How `forewarn serve` can be told to run.
This page is generated; `make docs` writes it anew.

Each setting has three spellings, by one rule: `--rate-limit` = `FOREWARN_RATE_LIMIT` = `rate_limit` in the file.
A flag goes before the environment, the environment before the file.
The file is `--config FILE`, else `FOREWARN_CONFIG`, else `./forewarn.toml` if there is one.
A key that does not exist is an error that names its line and the nearest key.

{flags}

A change counts after a reload (`systemctl reload forewarn`, or `SIGHUP`) or only after a restart.
A reload tells which changed settings wait for a restart.
A reload reads the certificate and its key again; to begin or to end TLS needs a restart.
Changes of `[notice]` and `[mail]` need a reload, those of a driver's settings a restart.
`forewarn network` reads `[network]` each time it runs.
More in [run the service](../how-to/run-the-service.md#change-settings-while-it-runs).

The tables below stand in the file only.

## [notice]

How long before its NotBefore an event of each type is announced, at least.
A Terminate goes by its group's own `terminate_notice`.

{notice}

## [mail]

The mail server of [notifications](../how-to/notifications.md) by mail.

{_settings_table(usual.mail)}

## [network]

What `forewarn network` works on; see [Link-local network](../how-to/set-up-link-local.md).

{_settings_table(usual.network)}

## [drivers.simulated]

{_driver_table(simulated, simulated.SimulatedSettings)}

## [drivers.command]

{_driver_table(command, command.CommandDriverSettings)}

[Command driver](../how-to/drive-machines-with-a-command.md) explains how to write the program.

## Other drivers

Their settings are on their own pages:
[webhook](../how-to/drive-machines-with-a-webhook.md), [qemu](../how-to/drive-qemu.md#tell-forewarn),
[libvirt](../how-to/drive-libvirt.md#set-it-up).
"""


def agent_page() -> str:
    usual = agent_settings.AgentSettings()
    rule = rules.EventRule(name="")
    terms = plan.HandlerTerms()
    defaults: dict[str, object] = {"handlers": (), "kind": ""}
    flags = _key_table(agent_settings.KEYS, lambda name: getattr(usual, name))
    of_rules = _key_table(agent_settings.RULE_KEYS, lambda name: defaults.get(name, getattr(rule, name, "")))
    of_terms = _key_table(agent_settings.TERM_KEYS, lambda name: defaults.get(name, getattr(terms, name, "")))
    return f"""\
# The agent's settings

How `forewarn agent` can be told to run.
This page is generated; `make docs` writes it anew.

Each setting has three spellings, by one rule: `--dry-run` = `FOREWARN_AGENT_DRY_RUN` = `dry_run` in the file.
A flag goes before the environment, the environment before the file; not every setting has a flag.
The file is `--config FILE`, else `FOREWARN_AGENT_CONFIG`, else `./agent.toml`, else `/etc/forewarn/agent.toml`.
A key that does not exist is an error that names its line and the nearest key.

{flags}

On Windows, `state` is `C:\\ProgramData\\forewarn-agent` and `socket` is `127.0.0.1:9255`.

The tables below stand in the file only.

## [[rules]]

What is done about which events. The first rule that fits an event counts; if none does, nothing is done about it.

{of_rules}

## [handlers.NAME]

Each handler that a rule names. Its own settings stand in the same table; every handler's page tells them.

{of_terms}
"""


def _key_table(keys: dict[str, SettingKey], default: Callable[[str], object]) -> str:
    rows = (
        (f"`{name}`", _default(default(name)), _cell(key.help), _cell(key.kind.expected))
        for name, key in keys.items()
    )
    return _table(("setting", "default", "meaning", "expected"), rows)


def _change(key: SettingKey) -> str:
    return "reload" if key.reloadable else "restart"


def _settings_table(usual: msgspec.Struct, before: str = "") -> str:
    rows = (
        (f"`{name}`", _default(getattr(usual, name)), _cell(before + key.help))
        for name, hint in get_type_hints(type(usual), include_extras=True).items()
        for key in get_args(hint)
        if isinstance(key, SettingKey)
    )
    return _table(("setting", "default", "meaning"), rows)


def facts_page() -> str:
    tree = ast.parse(inspect.getsource(facts))
    kinds = {each.__name__: each for each in get_args(facts.AnyFact)}
    told = "\n\n".join(_told_fact(kind, _field_docs(tree, name)) for name, kind in kinds.items())
    records = "\n\n".join(_told_record(kind) for kind in (*_PARTS, *_NESTED))
    return f"""\
# Facts

Everything that can have happened: what the journal holds, and what the log tells, a line each.
This page is generated; `make docs` writes it anew.

A fact is never changed once it was released: new fields get defaults, a change of meaning is a new fact.
The journal's format is {facts.FORMAT}; a service refuses a journal of a higher one.
Fields that have their default are left out of the JSON.

{told}

## What facts are made of

{records}
"""


def scenarios_page() -> str:
    def keys(table: dict[str, scenario_tables.ScenarioKey]) -> str:
        rows = (
            (
                f"`{name}`" + " (required)" * key.is_needed,
                _cell(key.help),
                _cell(key.kind.expected),
            )
            for name, key in table.items()
        )
        return _table(("key", "meaning", "expected"), rows)

    titles = {
        "notice": "The least notice of each type of event. A Terminate goes by its group's own `terminate_notice`.",
        "lasts": "How long an event stays Started, by type: Azure's medians unless the scenario says otherwise.",
        "step": "What is done, and when. A step is done to a `vm` or to a `host`, or it approves, cancels or asks.",
        "fault": "What goes wrong, how often and when; the same keys follow a comma in the flag `--fault`.",
        "expect": "What is to come about. A scenario in which something does not ends with exit code 1.",
    }
    told = "\n\n".join(
        f"## {f'[{name}]' if name in ('notice', 'lasts') else f'[[{name}]]'}\n\n{titles[name]}\n\n{keys(table)}"
        for name, table in scenario_tables.TABLES.items()
    )
    shipped = _table(
        ("scenario", "what happens"),
        ((f"`{name}`", _cell(scenario.load(name).about)) for name in scenario.shipped()),
    )
    kinds = _table(("kind", "what goes wrong"), ((f"`{kind}`", _cell(said)) for kind, said in faults.FAULTS.items()))
    return f"""\
# Scenarios

Scripts for the emulator: `forewarn emulate NAME`, or `forewarn emulate FILE.toml` for one of your own.
This page is generated; `make docs` writes it anew.

How to use them is told in [emulate events](../how-to/emulate-events.md).
All times are Azure's and are hurried as a whole by `--hurry`.
A key that does not exist is an error that names its line and the nearest key.

## Scenarios that come with Forewarn

{shipped}

## Keys at the top

{keys(scenario_tables.SCENARIO_KEYS)}

Tables `[[host]]`, `[[group]]` and `[[vm]]` are those of a [fleet file](../how-to/describe-your-fleet.md).
A VM needs no address here: each has a port of its own.
A scenario without VMs has one, `{scenario.USUAL_VM}`.

{told}

## Kinds of faults

{kinds}
"""


def _told_fact(kind: type[msgspec.Struct], docs: dict[str, str]) -> str:
    return f"## {kind.__struct_config__.tag}\n\n{_first(kind)}\n\n{_fields(kind, docs)}"


def _told_record(kind: type[msgspec.Struct]) -> str:
    module = inspect.getmodule(kind)
    docs = _field_docs(ast.parse(inspect.getsource(module)), kind.__name__) if module else {}
    return f"### {kind.__name__}\n\n{_first(kind)}\n\n{_fields(kind, docs)}"


def _first(kind: type[msgspec.Struct]) -> str:
    return (inspect.getdoc(kind) or "").split("\n\n")[0].replace("``", "`")


def _fields(kind: type[msgspec.Struct], docs: dict[str, str]) -> str:
    hints = ast_hints(kind)
    told = {field.name: field for field in msgspec.structs.fields(kind)}
    return "\n".join(
        f"- `{field.encode_name}`: {_plainly(hints[name])}{'' if field.required else ' (optional)'}"
        + (f". {_cell(docs[name])}" if name in docs else "")
        for name, field in told.items()
    )


def _plainly(hint: str) -> str:
    """Say in words what an annotation allows."""
    if hint.endswith(" | None"):
        return f"{_plainly(hint.removesuffix(' | None'))}, or nothing"
    if match := re.fullmatch(r"tuple\[(\w+), \.\.\.\]", hint):
        return f"a list, each {_plainly(match[1])}"
    if hint in _WORDS:
        return _WORDS[hint]
    if hint in _RECORDS:
        return f"a{'n' * (hint[0] in 'EI')} [{hint}](#{hint.lower()})"
    words = getattr(model, hint, None)
    if isinstance(words, type) and issubclass(words, StrEnum):
        return f"one of {', '.join(f'`{word}`' for word in words)}"
    return f"`{hint}`"


def ast_hints(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the annotations of a record as they are written."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    if not isinstance(tree, ast.ClassDef):
        raise TypeError(kind)
    return {
        each.target.id: ast.unparse(each.annotation)
        for each in tree.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }


def _driver_table(module: ModuleType, kind: type[msgspec.Struct]) -> str:
    docs = _field_docs(ast.parse(inspect.getsource(module)), kind.__name__)
    rows = (
        (
            f"`{field.encode_name}`",
            "required" if field.required else _default(_usual(field)),
            _cell(docs.get(field.name, "")),
        )
        for field in msgspec.structs.fields(kind)
    )
    return _table(("setting", "default", "meaning"), rows)


def _usual(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _field_docs(tree: ast.Module, name: str) -> dict[str, str]:
    """Return the texts that stand below the fields of a class."""
    (found,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    docs = {}
    for field, below in zip(found.body, found.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(value=ast.Constant(value=str(text))):
                docs[key] = " ".join(text.split())
    return docs


def _default(value: object) -> str:
    match value:
        case timedelta():
            return f"`{show_duration(value)}`"
        case bool():
            return f"`{str(value).lower()}`"
        case float():
            return f"`{value:g}`"
        case "" | None | {} | ():
            return "none"
        case tuple():
            return f"`{', '.join(map(str, value))}`"
        case _:
            return f"`{value}`"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("``", "`")


def _table(headers: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (headers, ("---",) * len(headers), *rows))


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
