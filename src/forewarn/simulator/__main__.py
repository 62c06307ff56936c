"""``python -m forewarn.simulator``: run many seeds, replay one, shrink and save what fails."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from forewarn.simulator.coverage import Coverage
from forewarn.simulator.plan import Plan, format_plan, parse_plan
from forewarn.simulator.seeds import NEVER_ENDED, PlanShares, SeedRun, plan_of, run_plan, run_seeds
from forewarn.simulator.shrink import kind_of, shrink

PLANS = Path("tests/simulator/plans")
"""Where failures are saved, in a checkout."""
_INTERRUPTED = 130
_BUDGET = 600
"""Simulations that the shrinking of one failure may take."""


def main(arguments: Sequence[str] | None = None, *, save_every: int = 1_000) -> int:
    """Return the exit code: 0 where every promise was kept, 1 where one was broken, 130 where it was interrupted.

    The coverage is saved after every ``save_every`` seeds, so that little of it is lost when a run is killed.
    """
    options = _parse(arguments)
    with _ended_in_order():
        try:
            if options.plan:
                return _replay(parse_plan(options.plan.read_text("utf-8")), options)
            if options.seed is not None:
                return _replay(plan_of(options.seed, _shares(options)), options)
        except BrokenPipeError:
            return _leave_closed_pipe()
        except (OSError, ValueError) as error:
            print(f"The plan cannot be read: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            return _INTERRUPTED
        try:
            return _run_many(options, save_every)
        except BrokenPipeError:
            return _leave_closed_pipe()


def _leave_closed_pipe() -> int:
    """End as a program does that is killed by SIGPIPE; what is left to be written goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, so that the files of simulations are removed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m forewarn.simulator",
        description="Run whole systems on simulated time, with faults, and check every promise.",
    )
    add = parser.add_argument
    add("--seeds", type=_number_from(0), default=100, metavar="N", help="how many seeds to run (100)")
    add("--from", type=_number_from(0), default=0, metavar="S", dest="first", help="the first of them (0)")
    add(
        "--jobs",
        type=_number_from(1),
        default=os.cpu_count() or 1,
        metavar="M",
        help="processes (as many as there are CPUs)",
    )
    add("--seed", type=int, metavar="S", help="replay one seed, with its whole transcript")
    add("--plan", type=Path, metavar="FILE", help="replay a plan from a file, with its whole transcript")
    add("--save", metavar="NAME", help=f"write the first failing plan, shrunk, to {PLANS}/NAME.txt or to a path")
    add("--no-shrink", action="store_true", help="leave failing plans as they are")
    add("--failures", type=_number_from(1), default=10, metavar="N", help="failing seeds after which a run ends (10)")
    add("--coverage", type=Path, metavar="FILE", help="add what was reached to this file")
    add("--sqlite-percent", type=int, metavar="P", help="the share of seeds with a real journal of SQLite (1)")
    add("--nodes-percent", type=int, metavar="P", help="the share of seeds with several nodes (10)")
    add("--rollouts-percent", type=int, metavar="P", help="the share of seeds with rollouts (20)")
    add("--made", action="store_true", help="tell how to go on with 'make simulate'")
    return parser.parse_args(arguments)


def _number_from(least: int) -> Callable[[str], int]:
    """Return what reads a whole number that is not below another."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
        return int(text)

    return read


def _shares(options: argparse.Namespace) -> PlanShares:
    return PlanShares(options.sqlite_percent, options.nodes_percent, options.rollouts_percent)


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


def _run_many(options: argparse.Namespace, save_every: int) -> int:
    seeds = range(options.first, options.first + options.seeds)
    try:
        coverage = Coverage.load(options.coverage) if options.coverage else Coverage()
    except (OSError, ValueError) as error:  # a DecodeError is a ValueError
        print(f"{options.coverage} cannot be read: {error}; remove it to begin anew", file=sys.stderr)
        return 2
    progress = _Progress(len(seeds))
    failed: dict[int, str] = {}
    is_interrupted = False
    try:
        for run in run_seeds(seeds, options.jobs, _shares(options)):
            coverage.add(run.reached)
            progress.add(run)
            if options.coverage and progress.done % save_every == 0:
                coverage.save(options.coverage)
            if run.problems:
                _report(run, failed, options)
                if len(failed) >= options.failures:
                    print("enough seeds failed; the others are not run")
                    break
    except KeyboardInterrupt:
        print(f"\nstopped; to go on: {_rest(options, seeds[progress.done :])}")
        is_interrupted = True
    progress.end()
    if options.coverage:
        coverage.save(options.coverage)
    print(coverage.report(longest=12 if options.seeds else None))
    if failed:
        print(f"\nfailed seeds: {', '.join(map(str, failed))}")
    return 1 if failed else _INTERRUPTED if is_interrupted else 0


def _report(run: SeedRun, failed: dict[int, str], options: argparse.Namespace) -> None:
    """Tell of a failing seed: at length where it is the first of its kind."""
    plan = plan_of(run.seed, _shares(options))
    kind = kind_of(run.problems[0], plan)
    is_known = kind in failed.values()
    failed[run.seed] = kind
    print(f"\nseed {run.seed} failed" + (" as one before it:" if is_known else ":"))
    print("\n".join(f"  {problem}" for problem in run.problems))
    if not is_known:
        small = _shrunk(plan, run, options)
        print(f"\n{format_plan(small)}")
        replayed = run_plan(small, has_transcript=True)
        print("\n".join([*replayed.lines, "", *(f"problem: {problem}" for problem in replayed.problems)]))
        if options.save and len(failed) == 1:
            _save(options.save, plan, small)
    print(f"\nto replay it: {_command('--seed', run.seed, *_share_flags(options))}\n", flush=True)


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


def _rest(options: argparse.Namespace, seeds: range) -> str:
    """Return the command that runs the seeds that are left."""
    if options.made:
        return f"make simulate FROM={seeds.start} SEEDS={len(seeds)} JOBS={options.jobs} FAILURES={options.failures}"
    return _command("--from", seeds.start, "--seeds", len(seeds), *_same_flags(options))


def _same_flags(options: argparse.Namespace) -> list[object]:
    """Return the flags that a run which goes on has too."""
    flags = [*_flag("--jobs", options.jobs), *_flag("--failures", options.failures)]
    flags += [*_share_flags(options), *_flag("--coverage", options.coverage)]
    return [*flags, *_flag("--save", options.save), *(["--no-shrink"] if options.no_shrink else [])]


def _share_flags(options: argparse.Namespace) -> list[object]:
    names = ("sqlite", "nodes", "rollouts")
    return [part for name in names for part in _flag(f"--{name}-percent", getattr(options, f"{name}_percent"))]


def _flag(name: str, value: object) -> tuple[object, ...]:
    return () if value is None else (name, value)


def _command(*arguments: object) -> str:
    program = os.path.relpath(sys.executable) if sys.executable.startswith(str(Path.cwd())) else sys.executable
    return " ".join([program, "-m forewarn.simulator", *map(str, arguments)])


class _Progress:
    """One line that says how far it is."""

    def __init__(self, seeds: int) -> None:
        self._seeds = seeds
        self._began_at = self._reported_at = time.monotonic()
        self._steps = 0
        self.done = 0

    def add(self, run: SeedRun) -> None:
        self.done += 1
        self._steps += run.steps
        is_terminal = sys.stderr.isatty()
        if time.monotonic() - self._reported_at > (0.5 if is_terminal else 60.0):
            self._reported_at = time.monotonic()
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
