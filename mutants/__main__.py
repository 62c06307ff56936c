"""``python -m mutants``: judge a sample of mutations, print a line for each that survived, and the totals."""

import argparse
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mutants import accepted
from mutants.mutations import Mutation, mutations_of
from mutants.session import NOT_RUN, ROOT, Finding, Verdict, judge

PATTERNS = ("src/forewarn/core/*.py", "src/forewarn/wire/*.py")
FOUND = (Verdict.KILLED, Verdict.TOO_LONG)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 where a mutation survived that is not accepted."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=200, help="how many mutations; 0 for all")
    parser.add_argument("--seed", type=int, default=1, help="which sample")
    parser.add_argument("--files", default=" ".join(PATTERNS), help="patterns of source files, separated by spaces")
    parser.add_argument("--again", type=Path, help="judge only what survived according to this report of a run")
    parser.add_argument("--tests", default="", help="test files and folders; all fast ones if empty")
    parser.add_argument(
        "--budget", type=float, default=10.0, help="seconds for tests of other packages, per mutation"
    )
    parser.add_argument("--verbose", action="store_true", help="name the test that found each mutation")
    options = parser.parse_args(arguments)

    known = {each.key for each in accepted.parse(accepted.FILE.read_text(encoding="utf-8"))}
    every = [each for each in find_mutations(options.files.split()) if each.key not in known]
    if options.again:
        every = [each for each in every if each.key in survivors(options.again.read_text(encoding="utf-8"))]
        options.sample = 0
    chosen = random.Random(options.seed).sample(every, min(options.sample or len(every), len(every)))  # noqa: S311
    print(f"{len(chosen)} of {len(every)} mutations; {len(known)} are accepted", flush=True)

    tests = options.tests.split() or [
        str(each.relative_to(ROOT))
        for each in sorted((ROOT / "tests").iterdir())
        if each.is_dir() and each.name not in (*NOT_RUN, "__pycache__", "scenarios")
    ]
    began, totals = time.monotonic(), Counter[Verdict]()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for finding in judge(chosen, tests, options.budget):
            totals[finding.verdict] += 1
            if options.verbose or finding.verdict not in FOUND:
                print(describe(finding), flush=True)
            if not sum(totals.values()) % 20:
                print(f"{sum(totals.values())} of {len(chosen)}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"stopped after {sum(totals.values())} of {len(chosen)}")
    seconds = time.monotonic() - began
    print(", ".join(f"{verdict}: {totals[verdict]}" for verdict in Verdict))
    print(f"{sum(totals.values())} in {seconds:.0f} s: {sum(totals.values()) / max(seconds, 0.001):.1f} per second")
    return int(sum(totals[each] for each in FOUND) < len(chosen))


def survivors(report: str) -> set[tuple[str, str, str, str]]:
    """Return the keys of the mutations in a report; its other lines are passed over."""
    blocks = [block for block in report.split("\n\n") if "\n- " in block]
    return {each.key for block in blocks for each in accepted.parse("\n".join(block.strip().splitlines()[-4:]))}


def find_mutations(patterns: Sequence[str]) -> list[Mutation]:
    """Return the mutations of the files that match."""
    files = sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.suffix == ".py"})
    return [
        mutation
        for path in files
        for mutation in mutations_of(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    ]


def describe(finding: Finding) -> str:
    """Return a finding in the form of the accepted list, with the verdict as its last line."""
    mutation = finding.mutation
    verdict = f"{finding.verdict}{f' by {finding.test}' if finding.test else ''} (line {mutation.line})"
    return f"{mutation.file} {mutation.function}\n- {mutation.before}\n+ {mutation.after}\n{verdict}\n"


if __name__ == "__main__":
    sys.path[:0] = [str(Path.cwd())]
    sys.exit(main())
