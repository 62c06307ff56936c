"""``python -m forewarn.simulator``: run many seeds, replay one, shrink and save what fails."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from forewarn.simulator.coverage import Coverage
from forewarn.simulator.plan import Plan, format_plan, parse_plan
from forewarn.simulator.seeds import NEVER_ENDED, SeedRun, plan_of, run_plan, run_seeds
from forewarn.simulator.shrink import kind_of, shrink

PLANS = Path("tests/simulator/plans")
"""Where failures are saved, in a checkout."""
_BUDGET = 600
"""Simulations that the shrinking of one failure may take."""
_MOST_FAILURES = 10
"""Failing seeds after which a run ends: more of them rarely tell more."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 where every promise was kept, 1 where one was broken."""
    options = _parse(arguments)
    try:
        if options.plan:
            return _replay(parse_plan(options.plan.read_text("utf-8")), options)
        if options.seed is not None:
            return _replay(plan_of(options.seed, options.sqlite_percent), options)
    except (OSError, ValueError) as error:
        print(f"The plan cannot be read: {error}", file=sys.stderr)
        return 2
    return _run_many(options)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m forewarn.simulator",
        description="Run whole systems on simulated time, with faults, and check every promise.",
    )
    add = parser.add_argument
    add("--seeds", type=int, default=100, metavar="N", help="how many seeds to run (100)")
    add("--from", type=int, default=0, metavar="S", dest="first", help="the first of them (0)")
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="M", help="processes (as many as there are CPUs)")
    add("--seed", type=int, metavar="S", help="replay one seed, with its whole transcript")
    add("--plan", type=Path, metavar="FILE", help="replay a plan from a file, with its whole transcript")
    add("--save", metavar="NAME", help=f"write the first failing plan, shrunk, to {PLANS}/NAME.txt or to a path")
    add("--no-shrink", action="store_true", help="leave failing plans as they are")
    add("--coverage", type=Path, metavar="FILE", help="add what was reached to this file")
    add("--sqlite-percent", type=int, metavar="P", help="the share of seeds with a real journal of SQLite (1)")
    return parser.parse_args(arguments)


def _replay(plan: Plan, options: argparse.Namespace) -> int:
    run = run_plan(plan, has_transcript=True)
    print(format_plan(plan))
    print("\n".join(run.lines))
    print(f"\n{run.steps} steps in {run.seconds:.0f} s of simulated time, digest {run.digest[:16]}")
    for problem in run.problems:
        print(f"problem: {problem}")
    if run.problems and options.save:
        _save(options.save, plan, _shrunk(plan, run, options))
    if not run.problems:
        print("every promise was kept")
    return 1 if run.problems else 0


def _run_many(options: argparse.Namespace) -> int:
    seeds = range(options.first, options.first + options.seeds)
    coverage = Coverage.load(options.coverage) if options.coverage else Coverage()
    progress = _Progress(len(seeds))
    failed: dict[int, str] = {}
    try:
        for run in run_seeds(seeds, options.jobs, options.sqlite_percent):
            coverage.add(run.reached)
            progress.add(run)
            if run.problems:
                _report(run, failed, options)
                if len(failed) >= _MOST_FAILURES:
                    print(f"{len(failed)} seeds failed; the others are not run")
                    break
    except KeyboardInterrupt:
        print(f"\nstopped; to go on: {_command('--from', seeds.start + progress.done)}")
    progress.end()
    if options.coverage:
        coverage.save(options.coverage)
    print(coverage.report(longest=12 if options.seeds else None))
    if failed:
        print(f"\nfailed seeds: {', '.join(map(str, failed))}")
    return 1 if failed else 0


def _report(run: SeedRun, failed: dict[int, str], options: argparse.Namespace) -> None:
    """Tell of a failing seed: at length where it is the first of its kind."""
    plan = plan_of(run.seed, options.sqlite_percent)
    kind = kind_of(run.problems[0], plan)
    is_known = kind in failed.values()
    failed[run.seed] = kind
    print(f"\nseed {run.seed} failed" + (" as one before it:" if is_known else ":"))
    print("\n".join(f"  {problem}" for problem in run.problems))
    share = () if options.sqlite_percent is None else ("--sqlite-percent", options.sqlite_percent)
    if not is_known:
        small = _shrunk(plan, run, options)
        print(f"\n{format_plan(small)}")
        told = run_plan(small, has_transcript=True)
        print("\n".join([*told.lines, "", *(f"problem: {problem}" for problem in told.problems)]))
        if options.save and len(failed) == 1:
            _save(options.save, plan, small)
    print(f"\nto replay it: {_command('--seed', run.seed, *share)}\n", flush=True)


def _shrunk(plan: Plan, run: SeedRun, options: argparse.Namespace) -> Plan:
    """Return the smallest plan found that has a problem of the same kind."""
    if options.no_shrink or NEVER_ENDED in run.problems:  # to ask whether another one never ends takes too long
        return plan
    kind = kind_of(run.problems[0], plan)
    return shrink(plan, lambda small: kind in {kind_of(each, plan) for each in run_plan(small).problems}, _BUDGET)


def _save(name: str, plan: Plan, small: Plan) -> None:
    path = Path(name) if "/" in name else PLANS / f"{name.removesuffix('.txt')}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    told = "".join(f"# {problem}\n" for problem in run_plan(small, has_transcript=True).problems)
    path.write_text(f"# Found by seed {plan.seed}:\n{told}{format_plan(small)}", "utf-8")
    print(f"saved as {path}; to replay it: {_command('--plan', path)}")


def _command(*arguments: object) -> str:
    program = os.path.relpath(sys.executable) if sys.executable.startswith(str(Path.cwd())) else sys.executable
    return " ".join([program, "-m forewarn.simulator", *map(str, arguments)])


class _Progress:
    """One line that says how far it is."""

    def __init__(self, seeds: int) -> None:
        self._seeds = seeds
        self._began_at = self._told_at = time.monotonic()
        self._steps = 0
        self.done = 0

    def add(self, run: SeedRun) -> None:
        self.done += 1
        self._steps += run.steps
        is_terminal = sys.stderr.isatty()
        if time.monotonic() - self._told_at > (0.5 if is_terminal else 60.0):
            self._told_at = time.monotonic()
            end = "\r" if is_terminal else "\n"
            print(self._line(), end=end, file=sys.stderr, flush=True)

    def end(self) -> None:
        print(self._line())

    def _line(self) -> str:
        took = max(time.monotonic() - self._began_at, 1e-6)
        return (
            f"{self.done} of {self._seeds} seeds in {took:.0f} s: "
            f"{self.done / took:.1f} seeds/s, {self._steps / took:,.0f} steps/s"
        )


if __name__ == "__main__":
    sys.exit(main())
