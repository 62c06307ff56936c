"""The order of tests: long ones begin first."""

from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Protocol, TypeVar


class TestItem(Protocol):
    """What pytest collects."""

    @property
    def path(self) -> Path: ...


_Item = TypeVar("_Item", bound=TestItem)


def long_tests_first(items: Sequence[_Item], workers: int, is_long: Callable[[_Item], bool]) -> list[_Item]:
    """Order tests in one part for each worker, which begins with the long tests; those of a file stay together.

    At first, xdist (worksteal) gives each worker one part of the list. A worker that has finished takes tests from
    the end of the part of another: these are short ones, so that no worker waits long for the last test of another.
    """
    parts: list[list[_Item]] = [[] for _ in range(workers)]
    for tests in (filter(is_long, items), (item for item in items if not is_long(item))):
        for number, (_, of_a_file) in enumerate(groupby(tests, lambda item: item.path)):
            parts[number % workers].extend(of_a_file)
    return [item for part in parts for item in part]
