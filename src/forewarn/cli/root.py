"""The command ``forewarn``: its subcommands, global options and exit codes.

A command's module is imported only when the command runs, so that each command starts fast.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, TextIO, TypeVar

import click
from click.exceptions import NoArgsIsHelpError

from forewarn import __version__
from forewarn.core.errors import BadInput, ForewarnError, LimitReached, Refused, Unavailable, nearest

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

EXIT_CODES: dict[type[Exception], int] = {
    LimitReached: 4,
    Unavailable: 3,
    BadInput: 2,
    Refused: 1,
    ForewarnError: 1,
}
"""Exit codes by error class: the first match counts. 0 is success."""
INTERRUPTED = 130
_TRACEBACK = "FOREWARN_TRACEBACK"
_Command = TypeVar("_Command", bound=Callable[..., object])
_Given = TypeVar("_Given")

_SECTIONS = {
    "Run the service": {
        "demo": ("forewarn.cli.demo:demo", "Run the service with a demo fleet, and say what to type next."),
        "serve": ("forewarn.cli.serve:serve", "Run the service."),
        "doctor": ("forewarn.cli.doctor:doctor", "Check that everything the service needs is present."),
        "network": ("forewarn.cli.network:network", "Set up, check and take down the guests' link-local network."),
        "journal": (
            "forewarn.cli.journal:journal",
            "Check, copy, export and import the journal; make its tables.",
        ),
        "cluster": ("forewarn.cli.cluster:cluster", "Show the nodes that share the journal."),
        "backup": ("forewarn.cli.backup:backup", "Write a verified copy of the journal to a file."),
        "restore": ("forewarn.cli.backup:restore", "Restore the data directory from a backup."),
    },
    "Describe the fleet": {
        "fleet": ("forewarn.cli.fleet:fleet", "Apply a fleet file, compare with one, or show the fleet as one."),
        "import": ("forewarn.cli.import_:import_", "Import hosts and VMs from libvirt."),
        "group": ("forewarn.cli.group:group", "List groups, set their terms, scale them in."),
    },
    "Restart and maintain": {
        "vm": (
            "forewarn.cli.vm:vm",
            "List, add and remove VMs; restart, redeploy, move, freeze, evict, delete them.",
        ),
        "host": ("forewarn.cli.host:host", "List hosts; maintain one, or report that it fails."),
        "rollout": ("forewarn.cli.rollout:rollout", "Maintain many hosts in waves."),
        "spot": ("forewarn.cli.spot:spot", "Reclaim spot VMs."),
        "event": ("forewarn.cli.event:event", "List and show events; approve, postpone and cancel them."),
        "history": ("forewarn.cli.history:history", "Show the record: who did what, to which VM, and when."),
    },
    "Access and notifications": {
        "token": ("forewarn.cli.token:token", "Create, list, rotate and revoke tokens."),
        "dashboard": ("forewarn.cli.dashboard:dashboard", "Open the dashboard in a browser, logged in."),
        "login": ("forewarn.cli.login:login", "Save the address and the token of a service elsewhere."),
        "subscription": (
            "forewarn.cli.subscription:subscription",
            "Send notifications to webhooks, Slack, Teams and mail.",
        ),
    },
    "In a VM, on Azure and on Forewarn alike": {
        "whoami": ("forewarn.cli.whoami:whoami", "Show this VM's name, and which service it asks."),
        "events": ("forewarn.cli.events:events", "Show the events of this VM and its neighbours."),
        "approve": ("forewarn.cli.approve:approve", "Approve events: they may start now."),
        "agent": ("forewarn.cli.agent:agent", "Run the agent: prepare for events, approve, and undo afterwards."),
    },
    "For developers of applications": {
        "emulate": ("forewarn.cli.emulate:emulate", "Emulate events: scenarios, faults, a clock that can be moved."),
        "record": ("forewarn.cli.record:record", "Record every document of an endpoint, to replay it."),
        "conformance": (
            "forewarn.cli.conformance:conformance",
            "Check whether a server or a client keeps the protocol's rules.",
        ),
    },
}
"""All commands by section: location and summary."""
_AFTER = ("--json", "--wide")
"""Options of commands that are also accepted before the command."""
_LOCAL = ("demo", "serve", "doctor", "network", "journal", "backup", "restore", "emulate")
"""Commands that work on this machine only and do not accept --url."""
_COMMANDS = {name: each for section in _SECTIONS.values() for name, each in section.items()}


@dataclass
class ServiceChoice:
    """The service options of the command line, before or after the command."""

    data: str | None = None
    url: str | None = None
    idempotency_key: str | None = None

    @cached_property
    def at(self) -> "datetime":
        """When the command was given; where it is repeated with its key, when it was given first."""
        from forewarn.cli.times import command_time

        return command_time(self.idempotency_key)


class _SuggestingGroup(click.Group):
    """A group that names the most similar command to an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            ctx.fail(f"no such command {args[0]!r}{nearest(args[0], known)}")
        return super().resolve_command(ctx, args)


class OrderedCommandGroup(_SuggestingGroup):
    """A group that lists its commands in the order of definition."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def service_options(command: _Command) -> _Command:
    """Add the control-plane options to a command."""
    for option in (
        click.option("--url", metavar="URL", expose_value=False, callback=_choose, help="As 'forewarn --url'."),
        data_option,
    ):
        command = option(command)
    return command


def _choose(context: click.Context, option: click.Parameter, given: str | None) -> None:
    if given is not None:
        setattr(context.find_root().obj, str(option.name), not_empty(context, option, given))


def not_empty(context: click.Context, parameter: click.Parameter, given: _Given) -> _Given:
    """Refuse an empty text, such as the value of an unset shell variable."""
    texts = given if isinstance(given, tuple) else (given,)
    if any(isinstance(text, str) and not text.strip() for text in texts):
        remedy = "give a value" if parameter.required else "give a value, or leave it out"
        raise click.BadParameter(f"it is empty; {remedy}", context, parameter)
    return given


class SecretCommand(click.Command):
    """A command with secret arguments: its usage error does not repeat surplus arguments."""

    surplus = "too many arguments; they are not repeated here because they may be secret"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; refuse surplus ones."""
        ctx.allow_extra_args = True
        left = super().parse_args(ctx, args)
        if left and not ctx.resilient_parsing:
            ctx.fail(self.surplus)
        return left


class ControlCommandGroup(OrderedCommandGroup):
    """A group of control-plane commands."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        super().add_command(refuse_empty(service_options(cmd)), name)


def refuse_empty(command: click.Command) -> click.Command:
    """Refuse an empty text for every name, id and file that a command takes; a description may be empty."""
    for each in command.params:
        if each.type is click.STRING and each.callback is None and each.name not in ("description", "reason"):
            each.callback = not_empty
    return command


def data_option(command: _Command) -> _Command:
    help_text = "As 'forewarn --data'."
    return click.option("--data", metavar="DIR", expose_value=False, callback=_choose, help=help_text)(command)


class _LazyCommandGroup(_SuggestingGroup):
    """A group that imports its commands lazily."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # All sections have their texts in one column.
        widest = max(map(len, _COMMANDS))
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{widest}}", help_text) for name, (_, help_text) in commands.items()])


@click.group(
    cls=_LazyCommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--data",
    metavar="DIR",
    callback=not_empty,
    help="The data directory of the service to speak to; else FOREWARN_DATA, else data in ./forewarn.toml "
    "or /etc/forewarn/forewarn.toml, else ./forewarn-data.",
)
@click.option(
    "--url",
    metavar="URL",
    callback=not_empty,
    help="A service elsewhere to speak to. Operators' commands: its control plane, such as "
    "https://forewarn.example.org:8255; else FOREWARN_URL. Commands in a VM: its metadata endpoint, such as "
    "http://169.254.169.254; else SCHEDULED_EVENTS_URL, else it is looked for.",
)
@click.option(
    "--idempotency-key",
    metavar="KEY",
    callback=not_empty,
    help="Key to repeat an operator's command after an unknown outcome: commands with the same key are "
    "carried out once. With a key of your own, write times in full (an ISO time): "
    "+20m is another time at each repetition.",
)
@click.version_option(__version__, message="forewarn %(version)s")
@click.pass_context
def cli(context: click.Context, data: str | None, url: str | None, idempotency_key: str | None) -> None:
    """Maintenance that asks first: an Azure-compatible Scheduled Events service.

    Operators' commands speak to the service through the control socket in its data directory, or with --url to one
    elsewhere. --data and --url may also stand after the command. Every command takes --json.
    Exit codes: 0 done, 1 refused by the rules, 2 wrong usage, 3 service not reachable, 4 limit reached.
    """
    if url is not None and context.invoked_subcommand in _LOCAL:
        raise click.UsageError(f"{context.invoked_subcommand} works on this machine; leave --url out")
    context.obj = ServiceChoice(data, url, idempotency_key)


def data_directory(context: click.Context) -> "Path":
    """Return the data directory: flag, then environment, then file, then the default."""
    chosen: ServiceChoice = context.find_root().obj
    named = chosen.data or os.environ.get("FOREWARN_DATA")
    if named:
        from pathlib import Path

        return Path(named).expanduser()
    from forewarn.config.settings import load

    return load({}, os.environ, of_system=True).data


def journal_directory(context: click.Context) -> "Path":
    """Return the directory of the journal's files; refuse where the settings name a journal without such files.

    Where a data directory is named, the file of settings does not count: it may be another service's.
    """
    from pathlib import Path

    from forewarn.config.settings import POSTGRESQL, SQLITE, load
    from forewarn.core.errors import BadInput

    variable = "FOREWARN_JOURNAL"
    chosen: ServiceChoice = context.find_root().obj
    if named := chosen.data or os.environ.get("FOREWARN_DATA"):
        environment = {variable: os.environ[variable]} if variable in os.environ else {}
        settings = load({"data": named}, environment, Path(os.devnull))
    else:
        settings = load({}, os.environ, of_system=True)
    if settings.journal_name == POSTGRESQL:
        raise BadInput(
            "the journal is in PostgreSQL, and this command works on the files of 'sqlite' only; back the database up"
            " and restore it with PostgreSQL's own tools (pg_dump, or pg_basebackup with archived WAL), or export it"
            " with 'forewarn journal export'"
        )
    if settings.journal_name != SQLITE:
        raise BadInput(
            f"the journal is {settings.journal_name!r}, and this command works on the files of 'sqlite' only;"
            " name the data directory of another service with 'forewarn --data DIR'"
        )
    return settings.journal_directory


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. No traceback reaches the user, whatever happens."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    try:
        code = cli.main(arguments, prog_name="forewarn", standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()
    except NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_CODES[BadInput]
    except click.UsageError as error:
        return _fail(_usage(error), EXIT_CODES[BadInput])
    except click.ClickException as error:
        return _fail(error.format_message(), EXIT_CODES[BadInput])
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", INTERRUPTED)
    except ForewarnError as error:
        return _fail(str(error), next(code for family, code in EXIT_CODES.items() if isinstance(error, family)))
    except BrokenPipeError:
        discard_buffered(sys.stdout)
        return 0  # the reader has closed the output
    except OSError as error:
        discard_buffered(sys.stdout)
        return _fail(f"{error.filename or 'the output'}: {error.strerror or error}", EXIT_CODES[Unavailable])
    except Exception as error:  # internal errors are reported as one sentence too
        if os.environ.get(_TRACEBACK):
            raise
        said = f"{type(error).__name__}: {error}".strip().replace("\n", " ")
        return _fail(
            f"internal error of forewarn ({said}); set {_TRACEBACK}=1 to see the traceback", EXIT_CODES[Unavailable]
        )
    return code if isinstance(code, int) else 0


def _usage(error: click.UsageError) -> str:
    from forewarn.core.redaction import shown_text  # errors repeat arguments, which may contain passwords

    is_early = error.ctx is not None and isinstance(error.ctx.command, click.Group)
    if is_early and isinstance(error, click.NoSuchOption) and error.option_name in _AFTER:
        return f"{error.option_name} stands after the command: forewarn vm list {error.option_name}"
    said = " ".join(shown_text(error.format_message()).split()).rstrip(".").replace(". Did you", "; did you")
    said = said[:1].lower() + said[1:].replace("valid integer range", "whole number").replace(
        "valid float range", "number"
    )
    if error.ctx is None or not said or said.endswith("?"):
        return said or "wrong usage"
    return f"{said}; see '{error.ctx.command_path} --help'"


def _fail(message: str, code: int) -> int:
    from forewarn.core.redaction import shown_tokens  # a token may have been given instead of a name or a file

    try:
        click.echo(f"forewarn: {shown_tokens(message)}", err=True)
    except OSError:
        discard_buffered(sys.stderr)
    return code


def discard_buffered(stream: TextIO | None) -> None:
    """Discard buffered output, so that it cannot fail again at exit."""
    if stream is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
