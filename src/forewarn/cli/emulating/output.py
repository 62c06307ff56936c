"""Plain and JSON output of the emulator.

Plain: one line per activity. JSON: one object per line: ``listening``, then ``activity`` for each activity, then
``result``, ``stopped`` or ``error``.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import msgspec

from forewarn.cli.emulating.activity import ActivityLine
from forewarn.cli.output import print_live
from forewarn.core.errors import BadInput
from forewarn.core.model import EventStatus
from forewarn.emulator.emulation import Emulation
from forewarn.emulator.expectations import ExpectationState, Verdict
from forewarn.emulator.player import ScenarioPlayer
from forewarn.emulator.scenario import Scenario
from forewarn.wire.azure_names import show_id

DOCUMENT = "/metadata/scheduledevents?api-version=2020-07-01"


def to_try(emulation: Emulation, vm: str) -> tuple[str, ...]:
    """Return two complete commands in short lines: fetch the document, approve an event."""
    url = f"'{emulation.url(vm)}{DOCUMENT}'"
    group = emulation.setup.fleet.vms[vm].group
    scheduled = (
        event for event in emulation.node.replica.fleet.events_of(group) if event.status is EventStatus.SCHEDULED
    )
    event = next(scheduled, None)
    id_ = show_id(event.id) if event else "EVENT-ID"
    body = f'{{"StartRequests":[{{"EventId":"{id_}"}}]}}'
    return "curl -s -H Metadata:true \\", f"  {url}", "curl -si -H Metadata:true \\", f"  -d '{body}' \\", f"  {url}"


def print_beginning(emulation: Emulation, player: ScenarioPlayer | None) -> None:
    """Print the URLs and two commands to try."""
    for vm in emulation.vms:
        print_live(f"{vm} asks at {emulation.url(vm)}")
    for line in to_try(emulation, emulation.vms[0]):
        print_live(f"  {line}")
    if player:
        print_live(f"{player.scenario.title}: begins with the first request")


def print_line(line: ActivityLine) -> None:
    print_live(f"{line.at:%H:%M:%S} {line.text}")


def print_json_line(type_: str, at: datetime | None = None, **fields: object) -> None:
    """Print one object, at once."""
    print_live(msgspec.json.encode({"type": type_, "at": at or datetime.now(UTC), **fields}).decode())


def print_listening(urls: Mapping[str, str], scenario: str = "") -> None:
    """Print the URLs of the VMs; ``url`` is that of the first."""
    print_json_line("listening", url=next(iter(urls.values()), ""), urls=urls, scenario=scenario)


def print_activity(line: ActivityLine) -> None:
    print_json_line("activity", line.at, text=line.text)


@contextmanager
def last_line(*, as_json: bool) -> Iterator[None]:
    """With ``as_json``, also print an exception as the last line; it is raised again."""
    try:
        yield
    except click.exceptions.Exit:
        raise
    except KeyboardInterrupt:
        if as_json:
            print_json_line("stopped")
        raise
    except Exception as error:
        if as_json:
            said = error.format_message() if isinstance(error, click.ClickException) else str(error)
            print_json_line("error", error=said or type(error).__name__)
        raise


def junit_report(scenario: Scenario, verdicts: list[Verdict], seconds: float) -> bytes:
    """Return a report with one test case for each verdict; an open verdict counts as failed."""
    missed = [verdict for verdict in verdicts if verdict.outcome is not ExpectationState.MET]
    counts = {"tests": str(len(verdicts)), "failures": str(len(missed)), "errors": "0", "time": f"{seconds:.3f}"}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": scenario.title, **counts})
    for verdict in verdicts:
        case = ET.SubElement(suite, "testcase", {"classname": scenario.name, "name": verdict.claim})
        if verdict.outcome is not ExpectationState.MET:
            ET.SubElement(case, "failure", {"message": verdict.detail})
    ET.indent(suites)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suites, encoding="unicode").encode() + b"\n"


def write_junit(path: Path, scenario: Scenario, verdicts: list[Verdict], seconds: float) -> None:
    try:
        path.write_bytes(junit_report(scenario, verdicts, seconds))
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror or error}") from None
