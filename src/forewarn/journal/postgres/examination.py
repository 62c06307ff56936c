"""What an operator should know of a database before nodes rely on it."""

from datetime import datetime

import msgspec

from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.errors import translate_errors
from forewarn.journal.postgres.schema import check_schema
from forewarn.journal.postgres.sessions import opened


class DatabaseExamination(msgspec.Struct, frozen=True, kw_only=True):
    """What was found."""

    place: str
    version: str
    role: str
    clock: datetime
    revision: int
    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    """As the role has it by default."""
    synchronous_standbys: str
    """The setting; empty: no commit waits for a standby."""
    standbys_in_step: int | None
    """How many standbys commits wait for; None where the role may not see that."""
    owns_entries: bool
    lacking_rights: tuple[str, ...]
    """The tables that the role may not read or write."""
    default_entries: int
    """Entries that no partition of a month took."""


def examine(address: DatabaseAddress) -> DatabaseExamination:
    """Look at a database; raise what keeps it from being used at all."""
    with opened(address) as connection, translate_errors(address.place):
        check_schema(connection, address.place)
        ((*settings, clock),) = connection.run("examine_server")
        version, role, fsync, full_page_writes, synchronous_commit, standbys, in_step = settings
        lacking = tuple(name for (name,) in connection.run("lacking_rights"))
        ((owns_entries,),) = connection.run("owns_entries")
        ((revision,),) = connection.run("last_revision")
        ((default_entries,),) = connection.run("count_default")
    return DatabaseExamination(
        place=address.place,
        version=version,
        role=role,
        clock=clock,
        revision=revision,
        fsync=fsync == "on",
        full_page_writes=full_page_writes == "on",
        synchronous_commit=synchronous_commit,
        synchronous_standbys=standbys,
        standbys_in_step=in_step,
        owns_entries=owns_entries,
        lacking_rights=lacking,
        default_entries=default_entries,
    )
