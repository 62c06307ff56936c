"""Every month has a partition before it begins."""

from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import cast

from forewarn.journal.postgres.connection import LimitedConnection
from forewarn.journal.postgres.partitions import create_partitions


class _EmptyDatabase:
    """A database that has the partition of one month."""

    def run(self, query: str, **_: object) -> list[tuple[object, ...]]:
        answers: dict[str, list[tuple[object, ...]]] = {
            "read_partitions": [("entries_2026_12", None, None)],
            "is_default_used": [(False,)],
        }
        return answers.get(query, [])

    def execute(self, _: object) -> None:
        """Make the partition."""

    def transaction(self) -> AbstractContextManager[None]:
        return nullcontext()


def test_no_month_is_left_out() -> None:
    """Nor made twice; three more follow the last, also in the next year."""
    connection = cast("LimitedConnection", _EmptyDatabase())
    made = create_partitions(connection, datetime(2026, 11, 30, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))

    assert made == ["entries_2026_11", "entries_2027_01", "entries_2027_02", "entries_2027_03"]
