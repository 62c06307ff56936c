"""The partitions of the entries: one for each month, made before it begins."""

from collections.abc import Iterator
from datetime import UTC, datetime

from psycopg import sql as compose

from forewarn.journal.postgres.connection import LimitedConnection

AHEAD = 3
"""How many months have a partition before they begin."""


def create_partitions(connection: LimitedConnection, first: datetime, last: datetime) -> list[str]:
    """Make the missing partitions of the months from ``first`` to some after ``last``; return their names.

    ``LockNotAvailable``: another session uses the entries for long; appends are not to wait behind this one.
    """
    existing = {name for name, _, _ in connection.run("read_partitions")}
    made: list[str] = []
    for begin, end in _months(first, last):
        name = f"entries_{begin:%Y_%m}"
        if name in existing:
            continue
        ((is_used,),) = connection.run("is_default_used", begin=begin, end=end)
        if is_used:
            continue  # what is there stays there until it is old
        statement = compose.SQL(
            "CREATE TABLE forewarn.{} PARTITION OF forewarn.entries FOR VALUES FROM ({}) TO ({})"
        ).format(compose.Identifier(name), compose.Literal(begin.isoformat()), compose.Literal(end.isoformat()))
        with connection.transaction():
            connection.run("wait_briefly")
            connection.execute(statement)
        made.append(name)
    return made


def _months(first: datetime, last: datetime) -> Iterator[tuple[datetime, datetime]]:
    number, end = first.year * 12 + first.month - 1, last.year * 12 + last.month - 1 + AHEAD
    while number <= end:
        yield _month(number), _month(number + 1)
        number += 1


def _month(number: int) -> datetime:
    return datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)
