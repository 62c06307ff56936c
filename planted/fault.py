"""A fault: one change of one file, the promise that it breaks, and what finds it."""

from dataclasses import dataclass

SIMULATOR = "simulator"
"""Stands in ``found_by`` for runs of ``python -m forewarn.simulator``."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One planted fault."""

    name: str
    """What the product does wrong with it, as a sentence."""
    promise: str
    """What it breaks: a guarantee of docs/architecture.md, or a rule that follows from one."""
    file: str
    old: str
    """Text that occurs in the file exactly once."""
    new: str
    found_by: tuple[str, ...]
    """Test files or single tests, or SIMULATOR."""
    seconds: float = 60.0
    """How long finding it may take."""
