"""The schema: created and upgraded by a command, recognised before it is used."""

import msgspec
from psycopg.errors import InsufficientPrivilege

from forewarn.core.errors import BadInput
from forewarn.core.fact import FORMAT
from forewarn.journal.port import JournalFailed, NewerJournal, NotAJournal
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.connection import READ_LIMIT, LimitedConnection
from forewarn.journal.postgres.errors import describe_foreign_schema, translate_errors
from forewarn.journal.postgres.partitions import create_partitions
from forewarn.journal.postgres.sessions import opened
from forewarn.journal.postgres.sql import migrations

SCHEMA_FORMAT = 1
"""The format of the schema that this release makes, and uses."""
USABLE_FROM = 1
"""The oldest format whose releases can use it too, so that nodes of two releases run together."""
_CREATE = "create it with 'forewarn journal migrate'"


class MigrateReport(msgspec.Struct, frozen=True):
    """What was done to a schema."""

    place: str
    before: int
    """The format that was there; 0: none."""
    after: int
    partitions: tuple[str, ...]
    """The partitions that were made."""


def check_schema(connection: LimitedConnection, place: str) -> None:
    """Refuse a database without a journal, with tables of another program, or with a newer journal."""
    with connection.transaction():
        ((has_schema, is_ours),) = connection.run("find_schema")
        if not has_schema:
            raise NotAJournal(f"{place} has no journal of Forewarn yet: {_CREATE}")
        if not is_ours:
            raise NotAJournal(describe_foreign_schema(place))
        found = connection.run("read_formats")
    if not found:
        raise NotAJournal(describe_foreign_schema(place))
    ((format_, usable_from, fact_format),) = found
    if usable_from > SCHEMA_FORMAT or fact_format > FORMAT:
        raise NewerJournal(
            f"{place} was written by a newer release (format {format_} of its schema, {fact_format} of its facts;"
            f" this release knows {SCHEMA_FORMAT} and {FORMAT}): install that release here; nothing was changed"
        )
    if format_ < SCHEMA_FORMAT:
        raise NotAJournal(
            f"{place} has format {format_} of the schema, and this release uses {SCHEMA_FORMAT}: upgrade it with"
            " 'forewarn journal migrate'; nodes of the release before go on meanwhile"
        )


def migrate(address: DatabaseAddress) -> MigrateReport:
    """Create the schema, or upgrade it, in one transaction; what is there already stays as it is."""
    with opened(address, READ_LIMIT) as connection, translate_errors(address.place):
        ((encoding, database, role),) = connection.run("describe_database")
        if encoding != "UTF8":
            raise BadInput(
                f"{address.place} encodes text as {encoding}: create the database with UTF-8:"
                f" createdb --template template0 --encoding UTF8 {database}"
            )
        try:
            return _migrate(connection, address.place)
        except InsufficientPrivilege as error:
            raise JournalFailed(
                f"{address.place} lacks rights for this role: run it as the role that the service uses, after GRANT"
                f" CREATE ON DATABASE {database} TO {role}"
            ) from error


def _migrate(connection: LimitedConnection, place: str) -> MigrateReport:
    with connection.transaction():
        connection.run("lock_schema")
        before = _format(connection, place)
        for number, script in migrations():
            if number > before:
                connection.execute(script)
        if not before:
            connection.run("found_cluster", schema_format=SCHEMA_FORMAT, usable_from=USABLE_FROM, fact_format=FORMAT)
        elif before < SCHEMA_FORMAT:
            connection.run("note_format", schema_format=SCHEMA_FORMAT, usable_from=USABLE_FROM)
        ((now,),) = connection.run("read_clock")
        made = create_partitions(connection, now, now)
        return MigrateReport(place, before, SCHEMA_FORMAT, tuple(made))


def _format(connection: LimitedConnection, place: str) -> int:
    ((has_schema, _),) = connection.run("find_schema")
    if not has_schema:
        return 0
    try:
        check_schema(connection, place)
    except NotAJournal:
        ((_, is_ours),) = connection.run("find_schema")
        if not is_ours:
            raise
    ((format_, _, _),) = connection.run("read_formats")
    return int(format_)
