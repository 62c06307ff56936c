"""``forewarn network``: the wires between this machine and its guests."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from forewarn.cli.output import json_option, print_json
from forewarn.cli.root import Ordered

if TYPE_CHECKING:
    from forewarn.config.settings import Settings
    from forewarn.core.model import Vm
    from forewarn.network.steps import Step

_Command = TypeVar("_Command", bound=Callable[..., object])


@click.group(cls=Ordered)
def network() -> None:
    """Set up the link-local network of this machine's guests, check it, take it down."""


def _wanting(command: _Command) -> _Command:
    for option in (
        click.option("--bridge", metavar="NAME", help="The bridge of the guests. [default: bridge in [network]]"),
        click.option(
            "--config",
            metavar="FILE",
            help="The settings of the service. [default: FOREWARN_CONFIG, else ./forewarn.toml if present]",
        ),
    ):
        command = option(command)
    return command


_print_option = click.option(
    "--print", "is_printed", is_flag=True, help="Print the commands instead of running them."
)


@network.command
@_wanting
@_print_option
@json_option
@click.pass_context
def setup(context: click.Context, config: str | None, bridge: str | None, is_printed: bool, as_json: bool) -> None:
    """Let guests reach the service, and nobody pretend to be another.

    The address of the service is put on the bridge; packets of a VM's tap are let through from the VM's own addresses
    only, and marked where VMs are known by marks; the control port is closed to guests. VMs come from the running
    service, else from the fleet file of the settings. Whatever is there already is left as it is: run it again
    whenever VMs were added.
    """
    from forewarn.network import checking, machine

    machine.require(root=not is_printed)
    settings = _settings(context, config, bridge)
    steps = checking.missing(settings, _vms(settings))
    _perform(steps, "nothing is missing", is_printed=is_printed, as_json=as_json)


@network.command
@_wanting
@json_option
@click.pass_context
def check(context: click.Context, config: str | None, bridge: str | None, as_json: bool) -> None:
    """Say what is missing, and which command mends it.

    Exits with 1 when something is missing.
    """
    from forewarn.network import checking, machine

    machine.require(root=True)
    settings = _settings(context, config, bridge)
    vms = _vms(settings)
    steps = checking.missing(settings, vms)
    notes = checking.notes(settings, vms)
    if as_json:
        missing = [{"missing": step.what, "command": str(step.command)} for step in steps]
        print_json({"missing": missing, "notes": notes})
    else:
        for step in steps:
            click.echo(f"missing: {step.what}; mend it with:\n{step.command}")
        for note in notes:
            click.echo(f"note: {note}")
        if not steps:
            click.echo("the network is as it should be")
        else:
            click.echo("mend all of it with: forewarn network setup")
    if steps:
        context.exit(1)


@network.command
@_print_option
@json_option
def teardown(is_printed: bool, as_json: bool) -> None:
    """Undo what setup did, and nothing else.

    A bridge on which guests still are stays: without it they would have no network at all.
    """
    from forewarn.network import checking, machine

    machine.require(root=True)
    steps, notes = checking.left()
    _perform(steps, "there is nothing of forewarn's here", is_printed=is_printed, as_json=as_json)
    for note in notes:
        click.echo(f"# {note}" if is_printed else note, err=True)


def _perform(steps: "tuple[Step, ...]", nothing: str, *, is_printed: bool, as_json: bool) -> None:
    from forewarn.network import machine

    for step in steps:
        if not as_json:
            click.echo(str(step.command))
        if not is_printed:
            machine.run(step.command)
    if as_json:
        print_json({"commands": [str(step.command) for step in steps], "ran": not is_printed})
    elif not steps:
        click.echo(f"# {nothing}" if is_printed else nothing)


def _settings(context: click.Context, config: str | None, bridge: str | None) -> "Settings":
    from msgspec.structs import replace

    from forewarn.config.settings import load

    settings = load({"data": context.find_root().obj.data}, os.environ, Path(config) if config else None)
    return replace(settings, network=replace(settings.network, bridge=bridge)) if bridge is not None else settings


def _vms(settings: "Settings") -> "list[Vm]":
    """Return the VMs of the running service; where none runs, those of the fleet file, if there is one."""
    from forewarn.control.client import Client
    from forewarn.control.wish import read
    from forewarn.core.errors import Unavailable

    try:
        with Client.local(settings.data) as client:
            return [vm for page in client.declared() for vm in page.vms]
    except Unavailable:
        if settings.fleet:
            return list(read(settings.fleet).vms.values())
        click.echo("no service runs and the settings name no fleet file: no VM is guarded yet", err=True)
        return []
