"""Journals that commands name, opened to be copied from or into."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from forewarn.core.errors import BadInput

if TYPE_CHECKING:
    from forewarn.config.settings import Settings
    from forewarn.journal.postgres.address import DatabaseAddress
    from forewarn.journal.transfer import JournalSource, JournalTarget


def open_source(settings: "Settings") -> "AbstractContextManager[JournalSource]":
    """Open the journal that settings name, to copy from it."""
    from forewarn.config.settings import POSTGRESQL

    if settings.journal_name == POSTGRESQL:
        address = _address(settings)
        from forewarn.journal.postgres.transfer import opened_source as opened_database

        return opened_database(address)
    _check_files(settings)
    from forewarn.journal.sqlite.transfer import opened_source

    return opened_source(settings.journal_directory)


def open_target(settings: "Settings") -> "AbstractContextManager[JournalTarget]":
    """Open the journal that settings name, to copy into it."""
    from forewarn.config.settings import POSTGRESQL

    if settings.journal_name == POSTGRESQL:
        address = _address(settings)
        from forewarn.journal.postgres.transfer import opened_target as opened_database

        return opened_database(address)
    _check_files(settings)
    from forewarn.journal.sqlite.transfer import opened_target

    return opened_target(settings.journal_directory)


def _address(settings: "Settings") -> "DatabaseAddress":
    from forewarn.extras import require

    require("postgres", "a journal in PostgreSQL")
    from forewarn.journal.postgres.address import DatabaseAddress

    return DatabaseAddress.parse(settings.journal_location)


def _check_files(settings: "Settings") -> None:
    from forewarn.config.settings import SQLITE

    if settings.journal_name != SQLITE:
        raise BadInput(
            f"journals of kind {settings.journal_name!r} cannot be copied; name one as sqlite:DIR or postgresql://HOST/DATABASE"
        )
