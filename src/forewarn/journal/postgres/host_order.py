"""Which host of an address accepted writes last: all sessions of this process try it first.

So all of them use one host as long as it answers. When a session finds that another server accepts writes, the
sessions on the one before are ended: they would wait for an answer that does not come. Two servers may have one host,
one after the other, as behind a virtual address.
"""

from datetime import datetime
from threading import Lock as Mutex
from weakref import WeakKeyDictionary

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn

from forewarn.journal.postgres.connection import LimitedConnection

_INVALID = "none"
"""No mode of TLS has this name."""
_Host = tuple[str, str]
"""Host and port."""
_Server = tuple[_Host, datetime]
"""Its host, and when it was started."""


class HostOrder:
    """The hosts of the addresses that this process uses; from any thread."""

    def __init__(self) -> None:
        self._last: dict[str, _Host] = {}
        self._sessions: WeakKeyDictionary[LimitedConnection, tuple[str, _Server]] = WeakKeyDictionary()
        self._mutex = Mutex()

    def arrange(self, conninfo: str) -> list[str]:
        """Return an address for each host of an address, the one in front that accepted writes last."""
        given = {key: str(value) for key, value in conninfo_to_dict(conninfo).items()}
        columns = {key: value.split(",") for key, value in _read_places(conninfo).items()}
        count = max(map(len, columns.values()), default=0)
        if count < 2 or any(len(values) not in (1, count) for values in columns.values()):
            return [conninfo]  # of what does not fit, PostgreSQL's library says so
        rows = [
            {key: values[number if len(values) > 1 else 0] for key, values in columns.items()}
            for number in range(count)
        ]
        if last := self._last.get(conninfo):
            rows.sort(key=lambda row: (row.get("host") or row.get("hostaddr"), row["port"] or last[1]) != last)
        kept = {key: value for key, value in given.items() if key not in columns}
        # What is empty is stated, too: a list in a service file would take its place.
        return [make_conninfo("", **kept, **row) for row in rows]

    def note(self, conninfo: str, connection: LimitedConnection, started_at: datetime) -> None:
        """Take note of a session that accepts writes, and end those on another server of its address."""
        host = connection.info.host, str(connection.info.port)
        server = host, started_at
        with self._mutex:
            self._last[conninfo] = host
            self._sessions[connection] = conninfo, server
            others = [
                session
                for session, (address, other) in self._sessions.items()
                if address == conninfo and other != server
            ]
            for session in others:
                del self._sessions[session]
        for session in others:
            session.interrupt()


def _read_places(conninfo: str) -> dict[str, str]:
    """Return where PostgreSQL's library would connect to; service file and environment may name hosts, too.

    It reads these when it begins to connect. An invalid mode of TLS ends that before it looks for any host.
    """
    begun = PGconn.connect_start(make_conninfo(conninfo, sslmode=_INVALID).encode())
    try:
        options = {each.keyword.decode(): each.val.decode() for each in begun.info if each.val is not None}
    finally:
        begun.finish()
    return {key: options[key] for key in ("host", "hostaddr", "port") if key in options}


HOSTS = HostOrder()
"""Those of this process."""
