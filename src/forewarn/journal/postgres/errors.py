"""What PostgreSQL and its library report, as one sentence with the place and the remedy."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from forewarn.journal.port import DamagedJournal, JournalFailed, NotAJournal

LACKS_RIGHTS = (
    "lacks rights for this role: run 'forewarn journal migrate' as the role that the service uses, or grant it all on"
    " the schema forewarn"
)
_BY_STATE = {
    "08P01": "does not speak as PostgreSQL does: connect to the server itself, not through a proxy",
    "25006": "is read-only: name the primary, or promote a standby",
    "28000": "does not let this role in: check user, certificate and pg_hba.conf",
    "28P01": "does not accept the password: set PGPASSWORD, or mend .pgpass or the service file",
    "42501": LACKS_RIGHTS,
    "53100": "cannot be written because the disk is full: free some space",
    "53300": "has no free connection: raise max_connections, or end other clients",
    "55P03": "is kept busy by another session: see pg_stat_activity",
    "57014": "took too long: check the load of the server, and its synchronous standbys",
    "57P01": "is shutting down: wait, or start it again",
    "57P03": "is starting up: wait",
}
_NO_SCHEMA = "has no journal of Forewarn yet: create it with 'forewarn journal migrate'"
_NO_STANDBY = "has no server that accepts writes: name the primary, or promote a standby"


@contextmanager
def translate_errors(place: str) -> Iterator[None]:
    """Turn the errors of PostgreSQL into the journal's own, about ``place``."""
    try:
        yield
    except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
        raise NotAJournal(f"{place} {_NO_SCHEMA}") from error
    except errors.UndefinedColumn as error:
        raise NotAJournal(describe_foreign_schema(place)) from error
    except (errors.DataCorrupted, errors.IndexCorrupted) as error:
        raise DamagedJournal(
            f"{place} is damaged ({said(error)}): restore the database from a backup; nothing was changed"
        ) from error
    except psycopg.Error as error:
        raise JournalFailed(f"{place} {describe(error)}") from error


def describe(error: psycopg.Error) -> str:
    """Say what is wrong with the database, and the remedy."""
    if error.sqlstate in _BY_STATE:
        return _BY_STATE[error.sqlstate]
    text = said(error)
    if "session is read-only" in text or "in recovery mode" in text or "hot standby" in text:
        return _NO_STANDBY
    if "password authentication failed" in text or "no password supplied" in text:
        return _BY_STATE["28P01"]
    if "does not exist" in text and "database" in text:
        return "does not exist: create it with createdb, or name another database"
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return f"cannot be reached ({text}): check the address, and that the server runs"
    return f"cannot be used ({text}): check the server's log"


def describe_foreign_schema(place: str) -> str:
    """Say that the schema is not ours."""
    return (
        f"{place} has a schema forewarn that is not a journal of Forewarn: rename that schema, or name another"
        " database; nothing was changed"
    )


def said(error: psycopg.Error) -> str:
    """Return the first sentence of an error."""
    first = error.diag.message_primary or next(iter(str(error).strip().splitlines()), type(error).__name__)
    return first.strip()
