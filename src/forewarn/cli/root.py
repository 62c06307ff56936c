"""The command ``forewarn``: which commands there are, and how every one of them ends.

A command's module is imported only when the command is run, so that each starts as fast as it can.
"""

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TextIO

import click
from click.exceptions import NoArgsIsHelpError

from forewarn import __version__
from forewarn.core.errors import BadInput, ForewarnError, LimitReached, Refused, Unavailable, nearest

if TYPE_CHECKING:
    from pathlib import Path

EXIT_CODES: dict[type[Exception], int] = {
    LimitReached: 4,
    Unavailable: 3,
    BadInput: 2,
    Refused: 1,
    ForewarnError: 1,
}
"""How a command ends when it was not done: the first that fits counts. 0 is done."""
INTERRUPTED = 130
_TRACEBACK = "FOREWARN_TRACEBACK"

_SECTIONS = {
    "Run the service": {
        "demo": ("forewarn.cli.demo:demo", "Run the service with a demo fleet, and say what to type next."),
        "serve": ("forewarn.cli.serve:serve", "Run the service."),
        "doctor": ("forewarn.cli.doctor:doctor", "Look whether all that the service needs is there."),
        "network": ("forewarn.cli.network:network", "Set up, check and take down the guests' link-local network."),
        "journal": ("forewarn.cli.journal:journal", "Check what is on disk."),
    },
    "Describe the fleet": {
        "fleet": ("forewarn.cli.fleet:fleet", "Apply a fleet file, or show the fleet as one."),
        "import": ("forewarn.cli.import_:import_", "Make hosts and VMs from what libvirt knows."),
        "group": ("forewarn.cli.group:group", "List groups, set their terms, scale them in."),
    },
    "Restart and maintain": {
        "vm": ("forewarn.cli.vm:vm", "List, add and remove VMs; restart, redeploy, freeze, evict, delete them."),
        "host": ("forewarn.cli.host:host", "List hosts; maintain one, or tell that it fails."),
        "spot": ("forewarn.cli.spot:spot", "Reclaim spot VMs."),
        "event": ("forewarn.cli.event:event", "List events, tell their stories, approve, postpone and cancel them."),
        "history": ("forewarn.cli.history:history", "Look back: who did what to whom, and when."),
    },
    "Let others in, and tell them": {
        "token": ("forewarn.cli.token:token", "Create, list, rotate and revoke tokens."),
        "login": ("forewarn.cli.login:login", "Remember a service elsewhere, and the token that opens it."),
        "subscription": (
            "forewarn.cli.subscription:subscription",
            "Tell others what happens: webhooks, Slack, Teams, mail.",
        ),
    },
    "In a VM, on Azure and on Forewarn alike": {
        "whoami": ("forewarn.cli.whoami:whoami", "Tell this VM's name, and which service it asks."),
        "events": ("forewarn.cli.events:events", "Show what is coming to this VM and its neighbours."),
        "approve": ("forewarn.cli.approve:approve", "Say that events may start now."),
        "agent": ("forewarn.cli.agent:agent", "Get ready for events, approve, put everything back."),
    },
    "For developers of applications": {
        "emulate": ("forewarn.cli.emulate:emulate", "Make every event happen: scenarios, faults, moved clocks."),
        "record": ("forewarn.cli.record:record", "Keep every document of an endpoint, to play it again."),
        "conformance": (
            "forewarn.cli.conformance:conformance",
            "Look whether a server, or a client, keeps the protocol's rules.",
        ),
    },
}
"""Every command by who needs it: where it is, and what the list of commands says of it."""
_COMMANDS = {name: each for section in _SECTIONS.values() for name, each in section.items()}


class Chosen(NamedTuple):
    """Which service the command line names."""

    data: str | None
    server: str | None


class Ordered(click.Group):
    """A group that lists its commands in the order in which they are written down."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class _Lazy(click.Group):
    """A group whose commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no such command {args[0]!r}{nearest(args[0], _COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # All sections have their texts in one column.
        widest = max(map(len, _COMMANDS))
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{widest}}", told) for name, (_, told) in commands.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--data",
    metavar="DIR",
    help="The data directory of the service to speak to; else FOREWARN_DATA, else data in forewarn.toml, "
    "else ./forewarn-data.",
)
@click.option(
    "--server",
    metavar="URL",
    help="A service elsewhere to speak to, such as https://forewarn.example.org:8255; else FOREWARN_SERVER.",
)
@click.version_option(__version__, message="forewarn %(version)s")
@click.pass_context
def cli(context: click.Context, data: str | None, server: str | None) -> None:
    """Maintenance that asks first: an Azure-compatible Scheduled Events service.

    Commands speak to the service through the control socket in its data directory, or with --server to one
    elsewhere. Every command takes --json.
    Exit codes: 0 done, 1 refused by the rules, 2 wrong usage, 3 service not reachable, 4 limit reached.
    """
    if data and server:
        raise click.UsageError("--data names a service on this machine, --server one elsewhere; give one of them")
    context.obj = Chosen(data, server)


def data_directory(context: click.Context) -> "Path":
    """Return the data directory that commands go by: flag, then environment, then file, then the default."""
    chosen: Chosen = context.find_root().obj
    named = chosen.data or os.environ.get("FOREWARN_DATA")
    if named:
        from pathlib import Path

        return Path(named).expanduser()
    from forewarn.config.settings import load

    return load({}, os.environ).data


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
        _forget(sys.stdout)
        return 0  # who read the output has read enough
    except OSError as error:
        _forget(sys.stdout)
        return _fail(f"{error.filename or 'the output'}: {error.strerror or error}", EXIT_CODES[Unavailable])
    except Exception as error:  # a user is owed a sentence even for our own mistakes
        if os.environ.get(_TRACEBACK):
            raise
        said = f"{type(error).__name__}: {error}".strip().replace("\n", " ")
        return _fail(
            f"a mistake of forewarn itself ({said}); set {_TRACEBACK}=1 to see where", EXIT_CODES[Unavailable]
        )
    return code if isinstance(code, int) else 0


def _usage(error: click.UsageError) -> str:
    said = " ".join(error.format_message().split()).rstrip(".").replace(". Did you", "; did you")
    said = said[:1].lower() + said[1:]
    if error.ctx is None or not said or said.endswith("?"):
        return said or "wrong usage"
    return f"{said}; see '{error.ctx.command_path} --help'"


def _fail(message: str, code: int) -> int:
    try:
        click.echo(f"forewarn: {message}", err=True)
    except OSError:
        _forget(sys.stderr)
    return code


def _forget(stream: TextIO | None) -> None:
    """Let nothing that is still buffered fail once more when the process ends."""
    if stream is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
