"""``python -m planted``: plant every fault, or those whose name contains a text, and say what was found."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from planted.catalogue import FAULTS
from planted.runner import Verdict, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 where a fault was not found."""
    parser = argparse.ArgumentParser(prog="python -m planted", description=__doc__)
    parser.add_argument("name", nargs="?", default="", help="part of the names of the faults to plant; all if empty")
    parser.add_argument("--list", action="store_true", help="print the names only")
    parser.add_argument(
        "--seeds", type=int, default=0, help="find them by so many seeds of the simulator, not by tests"
    )
    options = parser.parse_args(arguments)
    chosen = [fault for fault in FAULTS if options.name.lower() in fault.name.lower()]
    if not chosen:
        print(f"no fault has {options.name!r} in its name; python -m planted --list prints them", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(fault.name for fault in chosen))
        return 0
    began, totals = time.monotonic(), Counter[Verdict]()
    for finding in run(chosen, options.seeds):
        totals[finding.verdict] += 1
        print(f"{finding.verdict:13}  {finding.seconds:5.1f} s  {finding.fault.name}", flush=True)
        print(f"{'':24}{finding.detail or finding.fault.promise}", flush=True)
    counts = ", ".join(f"{verdict}: {totals[verdict]}" for verdict in Verdict if totals[verdict])
    print(f"{len(chosen)} faults in {time.monotonic() - began:.0f} s: {counts}")
    return int(totals[Verdict.FOUND] < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
