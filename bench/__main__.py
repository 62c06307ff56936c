"""``python -m bench [PART …] [--quick] [--write]``: measure, print, and keep what was measured."""

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import click
import msgspec

from bench import machine, report
from bench.agent import agent
from bench.cluster import cluster
from bench.commands import commands
from bench.crowd import crowd
from bench.dashboard import dashboard
from bench.figures import Figure, Result
from bench.fleet_file import fleet_file
from bench.footprint import memory
from bench.growth import growth
from bench.history import history
from bench.latency import latency
from bench.listeners import listeners
from bench.long_polls import long_polls
from bench.machines import machines
from bench.mixed import mixed
from bench.postgresql import postgresql
from bench.rollouts import rollouts
from bench.simulator import simulator
from bench.single import connections, keep_alive
from bench.storm import approvals
from bench.workers import workers

_ROOT = Path(__file__).parents[1]
_KEPT = _ROOT / "build" / "bench" / "results.jsonl"
_DOCUMENT = _ROOT / "docs" / "benchmarks.md"


class Part(Protocol):
    """One part of the bench: works in a directory of its own, and yields each figure as soon as it has it."""

    def __call__(self, directory: Path, *, quick: bool) -> Iterator[Figure]: ...


PARTS: dict[str, Part] = {
    "keep-alive": keep_alive,
    "connections": connections,
    "mixed": mixed,
    "memory": memory,
    "growth": growth,
    "commands": commands,
    "approvals": approvals,
    "fleet-file": fleet_file,
    "latency": latency,
    "history": history,
    "listeners": listeners,
    "long-polls": long_polls,
    "crowd": crowd,
    "agent": agent,
    "machines": machines,
    "workers": workers,
    "cluster": cluster,
    "rollouts": rollouts,
    "simulator": simulator,
    "postgresql": postgresql,
    "dashboard": dashboard,
}


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(list(PARTS)))
@click.option("--quick", is_flag=True, help="Look only whether everything runs; the figures mean little.")
@click.option("--write", is_flag=True, help="Write what was measured last into docs/benchmarks.md, measure nothing.")
def main(parts: tuple[str, ...], *, quick: bool, write: bool) -> None:
    """Measure speed and memory: all PARTS, or those that are named."""
    if write:
        _DOCUMENT.write_text(report.document(_kept(parts or PARTS), _DOCUMENT.read_text("utf-8")), "utf-8")
        return
    # Whoever ends the bench ends all that it started: every server stands in a `with` block.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _KEPT.parent.mkdir(parents=True, exist_ok=True)
    # Beside the checkout's own files, because the disk that is measured should be the one that is meant.
    with tempfile.TemporaryDirectory(dir=_KEPT.parent) as directory:
        for name in parts or PARTS:
            print(f"\n{name}: {(PARTS[name].__doc__ or '').strip()}", flush=True)
            figures = tuple(_measured(PARTS[name], Path(directory) / name, quick=quick))
            _keep(Result(name, _now(), quick, machine.describe(), figures))


def _measured(part: Part, directory: Path, *, quick: bool) -> Iterator[Figure]:
    directory.mkdir()
    for figure in part(directory, quick=quick):
        print(report.line(figure), flush=True)
        yield figure
    shutil.rmtree(directory)


def _keep(result: Result) -> None:
    with _KEPT.open("ab") as file:
        file.write(msgspec.json.encode(result) + b"\n")


def _kept(parts: Iterable[str]) -> list[Result]:
    """Return the newest whole result of each of these parts that was measured."""
    lines = _KEPT.read_bytes().splitlines() if _KEPT.exists() else []
    found = {result.part: result for line in lines if not (result := _read(line)).is_quick}
    results = [found[name] for name in parts if name in found]
    if not results:
        raise SystemExit("Nothing was measured yet: run `make bench` first.")
    return results


_read: Callable[[bytes], Result] = msgspec.json.Decoder(Result).decode


def _now() -> str:
    return datetime.now(UTC).date().isoformat()


if __name__ == "__main__":
    main()
