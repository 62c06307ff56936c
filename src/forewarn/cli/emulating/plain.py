"""The emulator on a pipe or in a log: a line for each thing that happens."""

import sys

import click

from forewarn.cli.emulating.activity import Line
from forewarn.cli.emulating.guide import to_try
from forewarn.emulator.emulation import Emulation
from forewarn.emulator.player import Player


def print_beginning(emulation: Emulation, player: Player | None) -> None:
    """Say where to ask, and two lines to try."""
    for vm in emulation.vms:
        click.echo(f"{vm} asks at {emulation.url(vm)}")
    for line in to_try(emulation, emulation.vms[0]):
        click.echo(f"  {line}")
    if player:
        click.echo(f"{player.scenario.title}: begins with the first request")
    sys.stdout.flush()


def print_line(line: Line) -> None:
    click.echo(f"{line.at:%H:%M:%S} {line.text}")
    sys.stdout.flush()
