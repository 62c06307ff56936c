"""Deletes old entries: whole months at a time, and single ones that no partition of a month took."""

from datetime import datetime

import psycopg
from psycopg import sql as compose
from psycopg.errors import LockNotAvailable

from forewarn.journal.postgres.connection import LimitedConnection


def delete_old(connection: LimitedConnection, limit: int) -> bool:
    """Delete a month of which all entries are released, or some entries; return whether there may be more.

    Nothing is deleted while another session reads the oldest entries; the next snapshot tries again.
    """
    ((released,),) = connection.run("read_released")
    ((clock,),) = connection.run("read_clock")
    try:
        for name, begin, end in connection.run("read_partitions"):
            if begin is None or end > clock:
                continue
            ((last,),) = connection.run("last_in_partition", begin=begin, end=end)
            if last is None or last <= released:
                return _drop(connection, name, begin, end, released)
        ((deleted,),) = connection.run("delete_from_default", released=released, limit=limit)
    except LockNotAvailable:
        return False
    return bool(deleted == limit)


def _drop(connection: LimitedConnection, name: str, begin: datetime, end: datetime, released: int) -> bool:
    """Drop a partition; return whether it was dropped. One that has got an entry since it was looked at stays."""
    table = compose.Identifier("forewarn", name)
    with connection.transaction():
        connection.run("wait_briefly")
        connection.run("delete_bulks", begin=begin, end=end)
        connection.execute(compose.SQL("ALTER TABLE forewarn.entries DETACH PARTITION {}").format(table))
        # From here on nothing is added to it: a clock that was set back may have done so.
        newer = connection.execute(
            compose.SQL("SELECT 1 FROM {} WHERE revision > %s LIMIT 1").format(table), (released,)
        ).fetchone()
        if newer:
            raise psycopg.Rollback
        connection.execute(compose.SQL("DROP TABLE {}").format(table))
    return newer is None
