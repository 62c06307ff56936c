"""``forewarn doctor``: check that everything the service needs is present."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.output import json_option, print_json, wrapped
from forewarn.cli.root import data_option

if TYPE_CHECKING:
    from forewarn.cli.doctoring.finding import DoctorReport


@click.command
@click.option(
    "--config",
    metavar="FILE",
    help="The settings. [default: FOREWARN_CONFIG, else ./forewarn.toml, else /etc/forewarn/forewarn.toml]",
)
@data_option
@json_option
@click.pass_context
def doctor(context: click.Context, config: str | None, as_json: bool) -> None:
    """Check that everything the service needs is present, and say what to do where it is not.

    Looks at settings, data directory, journal, listeners, fleet, driver and its machines, network and clock; changes
    nothing, and may be run beside the service. Exits with 1 when something is wrong.
    """
    from forewarn.cli.doctoring.finding import DoctorReport

    findings = DoctorReport()
    with findings.looking("settings"):
        _examine(context, config, findings)
    if as_json:
        print_json({"ok": findings.is_well, "findings": findings.all})
    else:
        for each in findings.all:
            click.echo(wrapped(each.said, f"{each.state:<8}{each.what:<10}"))
    if not findings.is_well:
        context.exit(1)


def _examine(context: click.Context, config: str | None, findings: "DoctorReport") -> None:
    from forewarn import extras
    from forewarn.cli.doctoring.clock import examine_clock
    from forewarn.cli.doctoring.endpoints import examine_endpoint
    from forewarn.cli.doctoring.machines import examine_driver, examine_network, find_vms
    from forewarn.cli.doctoring.storage import examine_storage
    from forewarn.config.settings import load

    given = {"data": context.find_root().obj.data}
    settings = load(given, os.environ, Path(config) if config else None, of_system=True)
    findings.ok("settings", "they can be read")
    if lacking := extras.missing("server"):
        findings.wrong("packages", f"the service cannot start, for packages are {extras.advice('server', lacking)}")
    examine_storage(settings, findings)
    found = find_vms(settings, findings)
    examine_endpoint("metadata", settings.metadata, found, findings, by_tap=settings.identity == "tap")
    if "*" in settings.allowed_hosts and not settings.metadata.is_loopback:
        findings.unsure(
            "metadata",
            "allowed_hosts is *, so a web page in a guest's browser can read events by DNS rebinding; name the hosts",
        )
    if settings.control:
        examine_endpoint("control", settings.control, found, findings)
    examine_driver(settings, found, findings)
    examine_network(settings, found.vms, findings)
    examine_clock(findings)
