"""Plain output of the emulator for pipes and logs: one line per activity."""

from forewarn.cli.emulating.activity import ActivityLine
from forewarn.cli.emulating.guide import to_try
from forewarn.cli.output import print_live
from forewarn.emulator.emulation import Emulation
from forewarn.emulator.player import ScenarioPlayer


def print_beginning(emulation: Emulation, player: ScenarioPlayer | None) -> None:
    """Print the URLs and two commands to try."""
    for vm in emulation.vms:
        print_live(f"{vm} asks at {emulation.url(vm)}")
    for line in to_try(emulation, emulation.vms[0]):
        print_live(f"  {line}")
    if player:
        print_live(f"{player.scenario.title}: begins with the first request")


def print_line(line: ActivityLine) -> None:
    print_live(f"{line.at:%H:%M:%S} {line.text}")
