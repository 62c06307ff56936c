"""``forewarn agent``: run the agent, check its configuration, simulate an event, show status and changes."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from forewarn.cli.output import json_log_option, json_option, print_json, print_table, wide_option, wrapped
from forewarn.cli.root import OrderedCommandGroup
from forewarn.cli.vm_commands import url_option
from forewarn.core.errors import BadInput
from forewarn.core.model import EventType

if TYPE_CHECKING:
    from forewarn.agent.settings import AgentSettings
    from forewarn.agent.subscriber import AgentSocket

_Command = TypeVar("_Command", bound=Callable[..., object])
_USUAL = Path("/etc/forewarn/agent.toml")
_EVENTS = tuple(EventType)


def _config_option(command: _Command) -> _Command:
    help_text = f"The agent's configuration. [default: FOREWARN_AGENT_CONFIG, else ./agent.toml, else {_USUAL}]"
    return click.option("--config", metavar="FILE", help=help_text)(command)


def load_settings(config: str | None, **flags: object) -> "AgentSettings":
    """Read the configuration that a command names, or the usual one."""
    from forewarn.agent.settings import PREFIX, load

    named = config or os.environ.get(f"{PREFIX}CONFIG")
    if named:
        return load(flags, os.environ, Path(named))
    path = next((each for each in (Path("agent.toml"), _USUAL) if each.exists()), None)
    if path is None:
        raise BadInput(f"there is no agent.toml here, and no {_USUAL}; name the configuration with --config FILE")
    return load(flags, os.environ, path)


@click.group(cls=OrderedCommandGroup, invoke_without_command=True)
@_config_option
@url_option("[default: FOREWARN_AGENT_URL, else url in the file, else SCHEDULED_EVENTS_URL, else looked for]")
@click.option("--name", metavar="VM", help="This VM's name in events. [default: the service is asked]")
@click.option("--state", metavar="DIR", help="Where the agent keeps what must survive a reboot.")
@click.option("--dry-run", is_flag=True, default=None, help="Say what would be done, and do nothing.")
@json_log_option
@click.pass_context
def agent(context: click.Context, /, config: str | None, as_json: bool, **flags: object) -> None:
    """Run the agent: it waits for events, prepares this VM, approves, and undoes the preparation afterwards."""
    if context.invoked_subcommand:
        given = [
            f"--{name.replace('_', '-')}"
            for name, value in {"config": config, "json": as_json, **flags}.items()
            if value
        ]
        if given:
            said = f"{given[0]} is for running the agent; give it after {context.invoked_subcommand!r} if it has one"
            raise click.UsageError(said, context)
        return
    import signal
    import sys

    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a hangup must not end the agent, also while it starts
    from forewarn import logs
    from forewarn.agent.runtime.assembly import run

    settings = load_settings(config, **flags, log_format="json" if as_json else None)
    logs.set_up(sys.stderr, settings.log_level, settings.log_format)
    run(settings)


@agent.command
@_config_option
@wide_option
@json_option
def check(config: str | None, as_json: bool) -> None:
    """Check the configuration; show which handlers run for which event.

    It checks the settings of the handlers too, and notes what is probably a mistake. No handler is run, and no
    service is asked.
    """
    from forewarn.agent.runtime.assembly import close_handlers, holding_by_default, make_handlers
    from forewarn.agent.settings_advice import find_doubtful_settings
    from forewarn.wire.azure_names import TYPES

    settings = load_settings(config)
    handlers = make_handlers(settings)
    close_handlers(handlers)
    if as_json:
        print_json(settings.rules)
        return
    rows = [
        (
            rule.name,
            ", ".join(TYPES[each] for each in rule.types) or "all",
            rule.concerns,
            rule.approval,
            _stages(rule.stages),
        )
        for rule in settings.rules
    ]
    headers = ("RULE", "TYPES", "CONCERNS", "APPROVAL", "HANDLERS")
    print_table(headers, rows, "no rules: events are only logged", drop=("CONCERNS", "APPROVAL", "TYPES"))
    for sentence in find_doubtful_settings(settings.rules, settings.handlers, holding_by_default(settings, handlers)):
        click.echo(wrapped(sentence, "note: "), err=True)


def _stages(stages: tuple[tuple[str, ...], ...]) -> str:
    return ", then ".join(" and ".join(stage) for stage in stages) or "none"


@agent.command(
    help=f"""Play an event through the configured handlers.

    EVENT is {", ".join(_EVENTS[:-1])} or {_EVENTS[-1]}. An emulated service announces it to this agent alone.
    The handlers are really called, unless it is a dry run: they drain, stop, and put back. Exit code 1 says that
    something failed.
    """
)
@_config_option
@click.argument("event", type=click.Choice(_EVENTS, case_sensitive=False), metavar="EVENT")
@click.option("--notice", metavar="DURATION", help="How long ahead it is announced; as on Azure when not given.")
@click.option(
    "--timeout", metavar="DURATION", default="30m", help="Give up after so long of real time.  [default: 30m]"
)
@click.option("--dry-run", is_flag=True, help="Say what the handlers would be called for, and do nothing.")
@wide_option
@json_option
def test(config: str | None, event: str, notice: str | None, timeout: str, dry_run: bool, as_json: bool) -> int:
    from forewarn.cli.agent_simulation import print_result, simulate_event
    from forewarn.cli.times import read_seconds

    seconds = read_seconds(timeout, "--timeout")
    said = simulate_event(load_settings(config, dry_run=dry_run or None), event, notice, seconds, quiet=as_json)
    print_result(said, as_json=as_json)
    return 0 if said.is_well else 1


@agent.command
@_config_option
@wide_option
@json_option
def status(config: str | None, as_json: bool) -> None:
    """Show what the running agent knows and does."""
    from forewarn.cli.agent_output import show_status

    with _connect_agent(config, "asked") as socket:
        found = socket.status()
    if as_json:
        print_json(found)
    else:
        show_status(found)


@agent.command
@_config_option
@json_option
def listen(config: str | None, as_json: bool) -> None:
    """Print every change that the running agent reports, until Ctrl-C."""
    import msgspec

    from forewarn.cli.agent_output import describe_change

    with _connect_agent(config, "listened to") as socket, suppress(KeyboardInterrupt):
        for line in socket.changes():
            click.echo(msgspec.json.encode(line) if as_json else describe_change(line))


def _connect_agent(config: str | None, what: str) -> "AgentSocket":
    from forewarn.agent.local.address import TOKEN_FILE
    from forewarn.agent.subscriber import AgentSocket

    settings = load_settings(config)
    if settings.socket is None:
        raise BadInput(f'the configuration says socket = "off", so that no agent can be {what}')
    return AgentSocket(settings.socket, token_file=settings.state / TOKEN_FILE)
