"""Deletes old entries: whole months at a time, and single ones that no partition of a month took.

The oldest go first, so that what is left has no gap. Where the clock was set, entries of one month may stand before
and after those of another; such a month is emptied by single entries, together with the older ones elsewhere.
"""

from datetime import datetime

import msgspec
import psycopg
from psycopg import sql as compose
from psycopg.errors import LockNotAvailable

from forewarn.journal.postgres.connection import LimitedConnection


class _Month(msgspec.Struct, frozen=True):
    """A partition, and the first and the last revision in it; None where it is empty."""

    name: str
    begin: datetime
    end: datetime
    first: int | None
    last: int | None


def delete_old(connection: LimitedConnection, limit: int) -> bool:
    """Delete a month of which all entries are released, or some entries; return whether there may be more.

    Nothing is deleted while another session reads the oldest entries; the next snapshot tries again.
    """
    ((released,),) = connection.run("read_released")
    ((clock,),) = connection.run("read_clock")
    months = _months(connection)
    ((elsewhere,),) = connection.run("first_in_default")
    try:
        for month in months:
            if month.end > clock or (month.last or 0) > released:
                continue
            if month.last is None or _is_oldest(month, months, elsewhere):
                return _drop(connection, month, released)
            ((deleted,),) = connection.run("delete_oldest", last=month.last, limit=limit)
            return bool(deleted)
        older = min((month.first - 1 for month in months if month.first is not None), default=released)
        ((deleted,),) = connection.run("delete_from_default", last=min(released, older), limit=limit)
    except LockNotAvailable:
        return False
    return bool(deleted == limit)


def _months(connection: LimitedConnection) -> list[_Month]:
    months = []
    for name, begin, end in connection.run("read_partitions"):
        if begin is not None:
            ((first, last),) = connection.run("bounds_of_partition", begin=begin, end=end)
            months.append(_Month(name, begin, end, first, last))
    return months


def _is_oldest(month: _Month, months: list[_Month], elsewhere: int | None) -> bool:
    """Return whether all entries outside of a month came after it."""
    firsts = [elsewhere, *(each.first for each in months if each is not month)]
    return all(first is None or first > (month.last or 0) for first in firsts)


def _drop(connection: LimitedConnection, month: _Month, released: int) -> bool:
    """Drop a partition; return whether it was dropped. One that has got an entry since it was looked at stays."""
    table = compose.Identifier("forewarn", month.name)
    with connection.transaction():
        connection.run("wait_briefly")
        connection.run("delete_bulks", begin=month.begin, end=month.end)
        connection.execute(compose.SQL("ALTER TABLE forewarn.entries DETACH PARTITION {}").format(table))
        # From here on nothing is added to it: a clock that was set back may have done so.
        newer = connection.execute(
            compose.SQL("SELECT 1 FROM {} WHERE revision > %s LIMIT 1").format(table), (released,)
        ).fetchone()
        if newer:
            raise psycopg.Rollback
        connection.execute(compose.SQL("DROP TABLE {}").format(table))
    return newer is None
