"""The list of mutations that no test needs to find, each with the reason: ``accepted.txt``.

    src/forewarn/core/turns.py settle
    - if event.waits_for != blocker.id:
    + if event.waits_for == blocker.id:
    The reason, on one line.

An entry is recognised by its file, function and text, so that it stays valid when lines move.
"""

from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("accepted.txt")


@dataclass(frozen=True)
class Accepted:
    """One mutation that may survive, and why."""

    file: str
    function: str
    before: str
    after: str
    reason: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What identifies the mutation."""
        return self.file, self.function, self.before, self.after


def parse(text: str) -> list[Accepted]:
    """Return the entries of a list; raise ValueError for one that has not four lines."""
    found = []
    for block in filter(None, (each.strip() for each in text.split("\n\n"))):
        if block.startswith("#"):
            continue
        match block.splitlines():
            case [place, before, after, reason] if before.startswith("- ") and after.startswith("+ "):
                file, _, function = place.partition(" ")
                found.append(Accepted(file, function, before[2:], after[2:], reason))
            case _:
                raise ValueError(f"an entry needs four lines (place, - before, + after, reason): {block!r}")
    return found
