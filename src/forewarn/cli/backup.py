"""``forewarn backup`` and ``forewarn restore``: write a verified copy of the journal to a file, and restore it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.output import json_option, print_json
from forewarn.cli.root import data_option, journal_directory

if TYPE_CHECKING:
    from forewarn.journal.sqlite.backup_archive import BackupManifest

_FILE = click.Path(path_type=Path)


@click.command
@click.argument("file", metavar="FILE", type=_FILE)
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
@data_option
@json_option
@click.pass_context
def backup(context: click.Context, file: Path, overwrite: bool, as_json: bool) -> None:
    """Write a verified copy of the journal to a file.

    The service may keep running. The file holds secrets, and only its owner can read it. It gets its name only after
    every entry, snapshot and checksum in it was verified.
    """
    from forewarn.core.errors import BadInput
    from forewarn.journal.sqlite.backup import back_up
    from forewarn.journal.sqlite.database import NAME

    directory = journal_directory(context)
    if not (directory / NAME).exists():
        raise BadInput(f"there is no journal in {directory}; name the right directory with 'forewarn --data DIR'")
    made = back_up(directory, file, datetime.now(UTC), overwrite=overwrite)
    if as_json:
        print_json({"file": str(file), "bytes": file.stat().st_size, **_fields(made)})
    else:
        click.echo(f"{file} holds {_summary(made)}; every entry and checksum in it was verified")


@click.command
@click.argument("file", metavar="FILE", type=_FILE)
@click.option(
    "--replace", is_flag=True, help="Replace the journal in the data directory; the old one is kept in replaced-N."
)
@data_option
@json_option
@click.pass_context
def restore(context: click.Context, file: Path, replace: bool, as_json: bool) -> None:
    """Restore the data directory from a backup.

    Stop the service first. The backup is verified; then the directory is changed in one step, or not at all.
    What was recorded after the backup is lost: read 'Recover the journal' before you restore an old one.
    """
    from forewarn.journal.sqlite.restore import restore as bring_back

    directory = journal_directory(context)
    made = bring_back(directory, file, replace=replace)
    if as_json:
        print_json({"directory": str(directory), **_fields(made)})
        return
    click.echo(f"{directory} holds {_summary(made)}; the copy was made {made.made_at:%Y-%m-%dT%H:%M:%SZ}")
    if made.under_way:
        click.echo(f"{_events(made.under_way)} under way: the service asks the driver for the outcome when it starts")
    if waiting := made.unfinished - made.under_way:
        click.echo(f"{_events(waiting)} announced: what is due by then begins when the service starts")


def _summary(made: "BackupManifest") -> str:
    return (
        f"revision {made.revision} of {made.last_at:%Y-%m-%dT%H:%M:%SZ} (entries: {made.entries},"
        f" snapshots: {made.snapshots}, unfinished events: {made.unfinished})"
    )


def _events(count: int) -> str:
    return f"{count} event was" if count == 1 else f"{count} events were"


def _fields(made: "BackupManifest") -> dict[str, object]:
    from msgspec.structs import asdict

    return {key: value for key, value in asdict(made).items() if key != "files"}
