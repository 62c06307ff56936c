"""The order in which tests are distributed over processes."""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.order import long_tests_first


class Item(NamedTuple):
    """A test of a file."""

    path: Path
    name: str


def ordered(workers: int) -> str:
    """Order tests of the files a to d; those in capitals are long."""
    items = [Item(Path(name.lower()), name) for name in "aAbbBcCd"]
    return "".join(item.name for item in long_tests_first(items, workers, lambda item: item.name.isupper()))


@pytest.mark.parametrize(("workers", "order"), [(1, "ABCabbcd"), (2, "ACacBbbd"), (3, "AadBbbCc")])
def test_the_part_of_each_worker_begins_with_long_tests(workers: int, order: str) -> None:
    """Files are dealt out in turn; what a worker takes from the end of another's part is short."""
    assert ordered(workers) == order
