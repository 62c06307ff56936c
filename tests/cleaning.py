"""Real parts that are made in several steps leave nothing when one of the steps fails."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def closed_on_failure(close: Callable[[], None]) -> Iterator[None]:
    """Call ``close`` when the block fails; pytest does not call the end of a fixture that never began."""
    try:
        yield
    except BaseException:
        close()
        raise
