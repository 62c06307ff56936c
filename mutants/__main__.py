"""``python -m mutants``: judge a sample of mutations, print a line for each that survived, and the totals."""

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from mutants import accepted
from mutants.mutations import Mutation, mutations_of
from mutants.session import NOT_RUN, ROOT, Finding, Verdict, judge

PATTERNS = ("src/forewarn/core/**/*.py", "src/forewarn/wire/**/*.py")
Key = tuple[str, str, str, str]
FOUND = (Verdict.KILLED, Verdict.TOO_LONG)


def main(arguments: Sequence[str] | None = None, *, accepted_file: Path = accepted.FILE) -> int:
    """Return 1 where a mutation survived that is not accepted."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=200, help="how many mutations; 0 for all")
    parser.add_argument("--seed", type=int, default=1, help="which sample")
    parser.add_argument("--files", default=" ".join(PATTERNS), help="patterns of source files, separated by spaces")
    parser.add_argument("--again", type=Path, help="judge only what survived according to this report of a run")
    parser.add_argument("--record", type=Path, help="append every finding to this file; leave out what is in it")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes judge at a time")
    parser.add_argument("--tests", default="", help="test files and folders; all fast ones if empty")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of tests, per mutation")
    parser.add_argument("--verbose", action="store_true", help="name the test that found each mutation")
    options = parser.parse_args(arguments)

    known = {each.key for each in accepted.parse(accepted_file.read_text(encoding="utf-8"))}
    every = find_mutations(options.files.split())
    if options.again:
        report = findings(options.again.read_text(encoding="utf-8"))
        survivors = {each.key for each in report if not each.reason.startswith(FOUND)}
        every = [each for each in every if each.key in survivors]
        options.sample = 0
    sampled = sample(every, options.seed, options.sample or len(every))
    chosen = [each for each in sampled if each.key not in known]
    print(f"{len(sampled)} of {len(every)} mutations; {len(sampled) - len(chosen)} of them are accepted", flush=True)
    if options.record and options.record.exists():
        judged = Counter(each.key for each in findings(options.record.read_text(encoding="utf-8")))
        chosen = [each for each in chosen if not is_counted(judged, each.key)]
        print(f"{len(chosen)} of them are not judged yet", flush=True)

    tests = options.tests.split() or [
        str(each.relative_to(ROOT))
        for each in sorted((ROOT / "tests").iterdir())
        if (each.is_dir() and each.name not in (*NOT_RUN, "__pycache__", "scenarios"))
        or (ROOT / "src" / "forewarn" / each.name.removeprefix("test_")).is_file()
    ]
    began, totals = time.monotonic(), Counter[Verdict]()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for finding in judge(chosen, tests, options.budget, options.jobs):
            totals[finding.verdict] += 1
            if options.record:
                with options.record.open("a", encoding="utf-8") as file:
                    print(describe(finding), file=file)
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


def sample(mutations: Sequence[Mutation], seed: int, count: int) -> list[Mutation]:
    """Return as many mutations as asked, chosen by the seed; a change of the code moves none of the others."""
    return sorted(mutations, key=lambda each: sha256(f"{seed}/{each.key}".encode()).digest())[:count]


def findings(report: str) -> list[accepted.Accepted]:
    """Return the findings in a report, with the verdict as the reason; its other lines are passed over."""
    blocks = [block for block in report.split("\n\n") if "\n- " in block]
    return [each for block in blocks for each in accepted.parse("\n".join(block.strip().splitlines()[-4:]))]


def is_counted(counts: Counter[Key], key: Key) -> bool:
    """Take one away from the count of a key: the same text can stand in a function more than once."""
    counts[key] -= 1
    return counts[key] >= 0


def find_files(patterns: Sequence[str]) -> list[Path]:
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.suffix == ".py"})


def find_mutations(patterns: Sequence[str]) -> list[Mutation]:
    """Return the mutations of the files that match."""
    return [
        mutation
        for path in find_files(patterns)
        for mutation in mutations_of(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    ]


def describe(finding: Finding) -> str:
    """Return a finding in the form of the accepted list, with the verdict as its last line."""
    mutation = finding.mutation
    verdict = f"{finding.verdict}{f' by {finding.test}' if finding.test else ''} (line {mutation.lines.start})"
    return f"{mutation.file} {mutation.function}\n- {mutation.before}\n+ {mutation.after}\n{verdict}\n"


if __name__ == "__main__":
    sys.path[:0] = [str(Path.cwd())]
    sys.exit(main())
