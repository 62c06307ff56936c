"""The slowest GETs beside other work, against those without."""

from collections.abc import Sequence
from statistics import median

from bench.figures import Figure, percentile, spread_of

TAIL = 0.999
_ALLOWED = 20.0
"""Milliseconds above the p99.9 of undisturbed GETs."""


def tail_beside(work: str, beside: Sequence[Sequence[float]], without: Sequence[Sequence[float]]) -> Figure:
    """Compare the p99.9 of both; what GETs took is in milliseconds, and by rounds."""
    tails = [percentile(each, TAIL) for each in beside]
    quiet_tails = [percentile(each, TAIL) for each in without]
    took, quiet = ([millis for each in rounds for millis in each] for rounds in (beside, without))
    tail, quiet_tail = percentile(took, TAIL), percentile(quiet, TAIL)
    return Figure(
        name=f"p99.9 of GETs beside {work}",
        asked=f"at most {_ALLOWED:.0f} ms above the p99.9 without",
        limit=_ALLOWED,
        is_at_least=False,
        measured=tail - quiet_tail,
        unit="ms above",
        spread=spread_of([one - other for one, other in zip(tails, quiet_tails, strict=True)]),
        noise=spread_of([each - median(quiet_tails) for each in quiet_tails]),
        detail=f"{tail:.1f} ms against {quiet_tail:.1f} ms; medians {median(took):.2f} and {median(quiet):.2f} ms;"
        f" longest {max(took):.0f} ms",
    )
