"""Taking turns: what is compared is measured in every round, so that what disturbs one disturbs all."""

import sys
from collections.abc import Callable, Mapping

Measure = Callable[[], float]


def alternate(measures: Mapping[str, Measure], rounds: int) -> dict[str, list[float]]:
    """Measure everything once per round, one after another; return each one's series."""
    series: dict[str, list[float]] = {name: [] for name in measures}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for name, measure in measures.items():
            series[name].append(measure())
    say("")
    return series


def say(progress: str) -> None:
    """Show how far it has come, where somebody is looking."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{progress}")
        sys.stderr.flush()
