"""What an unchanged fleet file adds to a start: each start is a process of its own, with and without the file."""

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.figures import Figure, spread_of
from bench.rounds import alternate

_VMS = 100_000
_FEW = 2_000
_START = """
import asyncio, gc, sys, time
from pathlib import Path
from forewarn.clocks import SystemClock
from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.wiring import Assembly

async def main():
    data, file = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None
    clock = SystemClock()
    settings = Settings(metadata=ListenAddress("127.0.0.1", 0), fleet=file)
    driver = SimulatedDriver.from_settings({}, clock, 1.0)
    assembly = Assembly(settings, clock, SqliteJournal(data), driver)
    gc.disable()
    began = time.perf_counter()
    await assembly.start()
    print(time.perf_counter() - began)
    assembly.journal.take_snapshot()
    await assembly.stop()

asyncio.run(main())
"""


def fleet_file(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """How much longer a start takes with a fleet file that did not change than without one."""
    vms = _FEW if quick else _VMS
    file, data = directory / "fleet.toml", directory / "data"
    data.mkdir()
    _write(file, vms)
    first = _seconds(data, file)
    measures = {name: partial(_seconds, data, given) for name, given in (("without", None), ("with", file))}
    took = alternate(measures, 2 if quick else 11)
    spread = spread_of([more - less for more, less in zip(took["with"], took["without"], strict=True)])
    yield Figure(
        name=f"an unchanged fleet file of {vms:,} VMs",
        asked="at most 0.3 s more than a start without a file",
        limit=0.3,
        is_at_least=False,
        measured=spread.median,
        unit="s",
        spread=spread,
        detail=f"without: {spread_of(took['without']).median:.2f} s; its first start, which parses it: {first:.1f} s",
    )


def _write(file: Path, vms: int) -> None:
    with file.open("w", encoding="utf-8") as lines:
        lines.writelines(f'[[host]]\nname = "host-{number}"\n' for number in range(vms // 50))
        lines.writelines(
            f'[[group]]\nname = "group-{number}"\nkind = "availability-set"\n' for number in range(vms // 10)
        )
        for number in range(vms):
            address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            lines.write(
                f'[[vm]]\nname = "vm-{number}"\ngroup = "group-{number // 10}"\nhost = "host-{number // 50}"\n'
                f'update_domain = {number % 5}\naddress = "{address}"\n'
            )


def _seconds(data: Path, file: Path | None) -> float:
    command = [sys.executable, "-c", _START, str(data), *([str(file)] if file else [])]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return float(done.stdout)
