"""``forewarn network``: set up, check and remove the link-local network between this machine and its VMs."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from forewarn.cli.output import json_option, print_json
from forewarn.cli.root import OrderedCommandGroup, data_option

if TYPE_CHECKING:
    from forewarn.config.settings import Settings
    from forewarn.network.plan import SetupStep

_Command = TypeVar("_Command", bound=Callable[..., object])
_SETTLES_WITHIN = 0.3
"""Seconds within which related changes occur."""
_POLL_INTERVAL = 60.0
"""Seconds after which the network is checked without a change: the rules may have been flushed."""


@click.group(cls=OrderedCommandGroup)
def network() -> None:
    """Set up the link-local network of this machine's guests, check it, take it down."""


def _wanting(command: _Command) -> _Command:
    for option in (
        click.option("--bridge", metavar="NAME", help="The bridge of the guests. [default: bridge in [network]]"),
        click.option(
            "--config",
            metavar="FILE",
            help="The settings of the service. [default: FOREWARN_CONFIG, else ./forewarn.toml, else "
            "/etc/forewarn/forewarn.toml]",
        ),
        data_option,
    ):
        command = option(command)
    return command


_print_option = click.option(
    "--print", "is_printed", is_flag=True, help="Print the commands instead of running them."
)


@network.command
@_wanting
@_print_option
@click.option(
    "--follow",
    is_flag=True,
    help="Stay, and do it again whenever VMs are added, removed or changed, or a device comes or goes.",
)
@json_option
@click.pass_context
def setup(
    context: click.Context, config: str | None, bridge: str | None, is_printed: bool, follow: bool, as_json: bool
) -> None:
    """Let guests reach the service; drop packets with forged addresses.

    The address of the service is put on the bridge; packets of a VM's tap are let through from the VM's own addresses
    only, and marked where VMs are known by marks; the control port is closed to guests. VMs come from the running
    service, else from its journal and the fleet file of the settings. What is set up already stays as it is: run
    it again whenever VMs were added, or let --follow do that. Exits with 1 when the bridge is one of another program,
    and not there yet.
    """
    from forewarn.network import system

    if follow and is_printed:
        raise click.UsageError("--print shows what would be done now, --follow stays; give one of them")
    system.require(root=not is_printed)
    if follow:
        _follow(lambda: _settings(context, config, bridge), as_json=as_json)
    elif not _set_up(_settings(context, config, bridge), is_printed=is_printed, as_json=as_json):
        context.exit(1)


def _set_up(settings: "Settings", *, is_printed: bool = False, as_json: bool, is_quiet: bool = False) -> bool:
    """Run the missing steps; return whether all could be run."""
    from contextlib import nullcontext

    from forewarn.cli.networking import known_vms
    from forewarn.network import system
    from forewarn.network.checks import NetworkCheck

    with nullcontext() if is_printed else system.locked(_warn):
        survey = NetworkCheck(settings, known_vms(settings, _warn))
        steps, absent = survey.steps(), survey.missing_bridge()
        if steps or not is_quiet:
            nothing = "nothing else is missing" if absent else "nothing is missing"
            _perform(steps, nothing, is_printed=is_printed, as_json=as_json)
    if absent and not is_quiet:
        _warn(f"# {absent}" if is_printed else absent)
    return not absent


def _follow(read: "Callable[[], Settings]", *, as_json: bool) -> None:
    """Repeat the setup after changes, with the current settings."""
    from forewarn.cli.networking import NetworkChanges
    from forewarn.core.errors import ForewarnError

    news = NetworkChanges(read().data)
    is_first, trouble = True, ""
    while True:
        try:
            _set_up(read(), as_json=as_json, is_quiet=not is_first)
            is_first, trouble = False, ""
        except ForewarnError as error:  # the next round tries again
            if str(error) != trouble:
                _warn(str(error))
            trouble = str(error)
        news.wait(_POLL_INTERVAL, _SETTLES_WITHIN)


@network.command
@_wanting
@json_option
@click.pass_context
def check(context: click.Context, config: str | None, bridge: str | None, as_json: bool) -> None:
    """Say what is missing, and which command mends it.

    Exits with 1 when something is missing.
    """
    from forewarn.cli.networking import known_vms
    from forewarn.network import system
    from forewarn.network.checks import NetworkCheck

    system.require(root=True)
    settings = _settings(context, config, bridge)
    survey = NetworkCheck(settings, known_vms(settings, _warn))
    steps, absent, notes = survey.steps(), survey.missing_bridge(), survey.notes()
    if as_json:
        missing = [{"missing": step.what, "command": str(step.command)} for step in steps]
        missing += [{"missing": absent, "command": ""}] if absent else []
        print_json({"missing": missing, "notes": notes})
    else:
        if absent:
            click.echo(f"missing: {absent}")
        for step in steps:
            click.echo(f"missing: {step.what}; mend it with:\n{step.command}")
        for note in notes:
            click.echo(f"note: {note}")
        if steps:
            click.echo("mend all of it with: forewarn network setup")
        elif not absent:
            click.echo("nothing is missing, but see the notes" if notes else "the network is as it should be")
    if steps or absent:
        context.exit(1)


@network.command
@_print_option
@json_option
def teardown(is_printed: bool, as_json: bool) -> None:
    """Undo what setup did, and nothing else.

    A bridge that still has guests stays: without it they would have no network at all.
    """
    from forewarn.network import checks, system

    system.require(root=True)
    with system.locked(_warn):
        steps, notes = checks.check_teardown()
        _perform(steps, "there is nothing of forewarn's here", is_printed=is_printed, as_json=as_json)
    for note in notes:
        _warn(f"# {note}" if is_printed else note)


def _warn(said: str) -> None:
    click.echo(said, err=True)


def _perform(steps: "tuple[SetupStep, ...]", nothing: str, *, is_printed: bool, as_json: bool) -> None:
    from forewarn.network import system

    for step in steps:
        if not as_json:
            click.echo(str(step.command))
        if not is_printed:
            system.run(step.command)
    if as_json:
        print_json({"commands": [str(step.command) for step in steps], "ran": not is_printed})
    elif not steps:
        click.echo(f"# {nothing}" if is_printed else nothing)


def _settings(context: click.Context, config: str | None, bridge: str | None) -> "Settings":
    from msgspec.structs import replace

    from forewarn.config.settings import load

    given = {"data": context.find_root().obj.data}
    settings = load(given, os.environ, Path(config) if config else None, of_system=True)
    return replace(settings, network=replace(settings.network, bridge=bridge)) if bridge is not None else settings
