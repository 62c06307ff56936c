"""``forewarn journal``: verify the journal on disk."""

import click

from forewarn.cli.output import json_option, print_json
from forewarn.cli.root import OrderedCommandGroup, data_option, journal_directory


@click.group(cls=OrderedCommandGroup)
def journal() -> None:
    """Check the journal on disk."""


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
