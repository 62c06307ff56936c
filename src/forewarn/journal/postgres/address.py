"""The address of a database: what PostgreSQL's own library reads, with what a node needs added."""

import msgspec
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from forewarn.core.errors import BadInput

_DEFAULTS: dict[str, str] = {
    "application_name": "forewarn",
    "client_encoding": "UTF8",
    "target_session_attrs": "read-write",
    "connect_timeout": "3",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
_TIMEOUT_OF_SEVERAL = {"connect_timeout": "2"}
"""A server that does not answer is given up, so that the next one of the address is tried; less is not possible."""
_WRITABLE = ("read-write", "primary")


class DatabaseAddress(msgspec.Struct, frozen=True):
    """Where a database is."""

    conninfo: str
    """For PostgreSQL's library, without a password: that comes from the environment, or from a file."""
    place: str
    """For people: hosts and database, and nothing secret."""

    @classmethod
    def parse(cls, location: str) -> "DatabaseAddress":
        """Read what follows ``postgresql:``: ``//HOST,HOST/DATABASE?KEY=VALUE``, or ``KEY=VALUE KEY=VALUE``."""
        try:
            read = conninfo_to_dict(f"postgresql:{location}" if location.startswith("//") else location)
        except ProgrammingError:
            # What the library says of it may quote a password.
            raise BadInput(
                "the setting journal is no address of PostgreSQL: write postgresql://HOST/DATABASE, or"
                " postgresql:service=NAME"
            ) from None
        given = {key: str(value) for key, value in read.items() if value is not None}
        if "password" in given:
            raise BadInput(
                "the address of the journal holds a password, which messages and other users could show: remove it,"
                " and set PGPASSWORD or use ~/.pgpass or a service file"
            )
        if given.get("target_session_attrs", _WRITABLE[0]) not in _WRITABLE:
            raise BadInput(
                f"target_session_attrs of the setting journal is {given['target_session_attrs']}, and a node writes"
                " to its journal: leave it out, or write read-write"
            )
        given.pop("load_balance_hosts", None)  # all sessions of a process use one host
        has_several = "," in given.get("host", given.get("hostaddr", ""))
        defaults = _DEFAULTS | _TIMEOUT_OF_SEVERAL if has_several else _DEFAULTS
        return cls(make_conninfo("", **defaults | given), _place(given))


def _place(given: dict[str, str]) -> str:
    if "service" in given and "host" not in given:
        return f"postgresql:service={given['service']}"
    hosts = given.get("host", given.get("hostaddr", "")).split(",")
    ports = given.get("port", "").split(",")
    if len(ports) < len(hosts):
        ports = ports * len(hosts)
    hosts = [f"[{host}]" if ":" in host else host for host in hosts]
    named = (f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=False))
    return f"postgresql://{','.join(named)}/{given.get('dbname', '')}"
