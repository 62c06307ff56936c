"""``forewarn journal``: verify, copy, export and import journals; create and upgrade the one in a database."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from forewarn.cli.output import json_option, print_json
from forewarn.cli.root import OrderedCommandGroup, data_option, journal_directory

if TYPE_CHECKING:
    from forewarn.config.settings import Settings
    from forewarn.journal.transfer import TransferReport

_journal_option = click.option(
    "--journal", "location", metavar="NAME:LOCATION", help="The journal. [default: the setting journal]"
)


@click.group(cls=OrderedCommandGroup)
def journal() -> None:
    """Check, copy, export and import journals; create and upgrade the one in a database."""


@journal.command
@data_option
@json_option
@click.pass_context
def verify(context: click.Context, as_json: bool) -> None:
    """Check that the journal is whole.

    Every entry, snapshot and index is read, and nothing is changed; a running service may go on meanwhile.
    Exits with 1 when something is wrong.
    """
    from forewarn.core.errors import BadInput
    from forewarn.journal.sqlite.database import NAME
    from forewarn.journal.sqlite.verification import verify as look_through

    directory = journal_directory(context)
    if not (directory / NAME).exists():
        raise BadInput(f"there is no journal in {directory}; name the right directory with 'forewarn --data DIR'")
    report = look_through(directory)
    if as_json:
        print_json(report)
    else:
        for problem in report.problems:
            click.echo(problem)
        state = "is whole" if report.ok else "is damaged"
        click.echo(
            f"the journal in {directory} {state}: {report.entries} entries up to revision {report.last_revision},"
            f" {report.snapshots} snapshots"
        )
    if not report.ok:
        context.exit(1)


@journal.command
@_journal_option
@json_option
def migrate(location: str | None, as_json: bool) -> None:
    """Create or upgrade the tables of the journal in PostgreSQL.

    The service does not do that by itself. A service of the release before may go on meanwhile; nothing is deleted.
    """
    from forewarn.config.settings import POSTGRESQL
    from forewarn.core.errors import BadInput
    from forewarn.extras import require

    settings = _settings(location)
    if settings.journal_name != POSTGRESQL:
        raise BadInput(
            f"the journal is {settings.journal_name!r}, which needs no tables: name one in PostgreSQL with --journal"
        )
    require("postgres", "a journal in PostgreSQL")
    from forewarn.journal.postgres.address import DatabaseAddress
    from forewarn.journal.postgres.schema import migrate as migrate_schema

    report = migrate_schema(DatabaseAddress.parse(settings.journal_location))
    if as_json:
        print_json(report)
    elif not report.before:
        click.echo(f"{report.place} has a new journal, format {report.after}")
    elif report.before < report.after:
        click.echo(f"{report.place} was upgraded from format {report.before} to {report.after}")
    else:
        click.echo(f"{report.place} has format {report.after} already")


@journal.command
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@json_option
def copy(source: str, target: str, as_json: bool) -> None:
    """Copy a journal, such as sqlite:DIR to postgresql://HOST/DATABASE.

    Every entry is read back and compared. A copy that was cut off, or made beside a running service, goes on when the
    command is repeated. Nothing may run on TO; the tables of a database are made by 'forewarn journal migrate'.
    """
    from forewarn.cli.journal_locations import open_source, open_target
    from forewarn.journal.transfer import transfer

    with open_source(_settings(source)) as from_, open_target(_settings(target)) as to:
        _show_transfer(transfer(from_, to), as_json)


@journal.command
@click.argument("file", type=click.File("wb", atomic=False), default="-")
@_journal_option
@json_option
def export(file: BinaryIO, location: str | None, as_json: bool) -> None:
    """Write a journal as lines with checksums.

    Without FILE, they are written to the output; the summary goes to the error output. The file holds secrets of
    subscriptions; only you may read it.
    """
    from forewarn.cli.journal_locations import open_source
    from forewarn.files import PRIVATE, restrict_files
    from forewarn.journal.export_file import export_journal

    if file.name not in ("-", "<stdout>"):
        Path(file.name).touch(PRIVATE)
        restrict_files([Path(file.name)])
    with open_source(_settings(location)) as source:
        header = export_journal(source, file)
    first, last = header.first_revision, header.last_revision
    if as_json:
        summary = json.dumps({"source": source.place, "first_revision": first, "last_revision": last})
    else:
        summary = f"{source.place}: exported revision {first} to {last}"
    click.echo(summary, err=True)


@journal.command("import")
@click.argument("file", type=click.File("rb"))
@_journal_option
@json_option
def import_(file: BinaryIO, location: str | None, as_json: bool) -> None:
    """Read what 'journal export' wrote into an empty journal.

    FILE may be - for the input. Every line is checked, and every entry read back and compared. An import that was cut
    off continues when it is repeated.
    """
    from forewarn.cli.journal_locations import open_target
    from forewarn.journal.export_file import ExportedJournal
    from forewarn.journal.transfer import transfer

    source = ExportedJournal(file, "the input" if file.name == "<stdin>" else str(file.name))
    with open_target(_settings(location)) as target:
        _show_transfer(transfer(source, target), as_json)


def _show_transfer(report: "TransferReport", as_json: bool) -> None:
    if as_json:
        print_json(report)
    elif not report.last_revision:
        click.echo(f"{report.source} is empty, and so is {report.target}")
    else:
        click.echo(
            f"{report.target} holds revision {report.first_revision} to {report.last_revision} of {report.source};"
            f" {report.copied} entries were copied, and all were compared"
        )


def _settings(location: str | None) -> "Settings":
    """Return the settings; of a journal that is named they tell nothing else, for it may be another service's."""
    from pathlib import Path

    from forewarn.config.settings import SQLITE, load

    if location is None:
        return load({}, os.environ, of_system=True)
    name, _, directory = location.partition(":")
    if name == SQLITE and directory:
        location = f"{name}:{Path(directory).expanduser().absolute()}"
    return load({"journal": location}, {}, Path(os.devnull))
