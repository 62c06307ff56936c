"""Figures as people read them: a few lines on the terminal, and a page of the documentation."""

import re
from collections.abc import Iterable, Iterator

from bench.figures import Figure, Result, Spread
from bench.remarks import METHODS, SHORTFALLS, STANDING

_HEAD = """\
# Benchmarks

Written by `python -m bench --write` from what `make bench` measured last. Figures are ratios within one run wherever
that is possible: server and load are pinned to different cores, what is compared takes turns for at least ten rounds,
and CPU is the user and system time of all threads of the server, from /proc. *Spread* is the least and the greatest
round. *Noise* is the machine's own: nginx against a second nginx, or the same thing against itself.

"""


def line(figure: Figure) -> str:
    """Return a figure for the terminal."""
    met = {True: "met", False: "NOT MET", None: "-"}[figure.is_met]
    result = [f"  {figure.name}", f"    measured {_amount(figure)}   asked {figure.asked or '-'}   {met}"]
    if figure.spread:
        result.append(f"    spread {_range(figure.spread)}, median deviation {figure.spread.deviation:.3f}")
    if figure.noise:
        result.append(f"    noise of the machine {_range(figure.noise)}")
    if figure.detail:
        result.append(f"    {figure.detail}")
    return "\n".join(result)


def document(results: Iterable[Result], present: str = "") -> str:
    """Return the page: what was measured, on what, and why something falls short.

    Parts without a result keep the section that they have on the present page.
    """
    sections = _sections(present) | {result.part: _section(result) for result in results}
    return _HEAD + "\n".join(sections[part] for part in METHODS if part in sections)


def _sections(page: str) -> dict[str, str]:
    _, *sections = re.split("^(?=## )", page, flags=re.MULTILINE)
    return {section.partition("\n")[0].removeprefix("## "): section.rstrip("\n") + "\n" for section in sections}


def _section(result: Result) -> str:
    found = ", ".join(f"{name} {value}" for name, value in result.machine.items())
    rows = "\n".join(_row(figure) for figure in result.figures)
    remarks = "".join(f"\n{remark}\n" for remark in _remarks(result))
    return (
        f"## {result.part}\n\n{METHODS[result.part]}\n\n"
        "| figure | asked | measured | spread | noise | |\n|---|---|---|---|---|---|\n"
        f"{rows}\n{remarks}\nMeasured on {result.at}: {found}.\n"
    )


def _row(figure: Figure) -> str:
    met = {True: "", False: "**falls short** ", None: ""}[figure.is_met]
    spread = _range(figure.spread) if figure.spread and figure.spread.rounds > 1 else ""
    noise = _range(figure.noise) if figure.noise else ""
    cells = (figure.name, figure.asked, met + _amount(figure), spread, noise, figure.detail)
    return f"| {' | '.join(cells)} |"


def _remarks(result: Result) -> Iterator[str]:
    if result.part in STANDING:
        yield STANDING[result.part]
    if any(figure.is_met is False for figure in result.figures) and result.part in SHORTFALLS:
        yield SHORTFALLS[result.part]


def _amount(figure: Figure) -> str:
    digits = 2 if abs(figure.measured) < 100 else 0
    return f"{figure.measured:,.{digits}f} {figure.unit}".strip()


def _range(spread: Spread) -> str:
    digits = 2 if spread.high < 100 else 0
    return f"{spread.low:,.{digits}f} to {spread.high:,.{digits}f}"
