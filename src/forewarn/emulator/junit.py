"""Writes the verdicts of a scenario as JUnit XML."""

from pathlib import Path
from xml.etree import ElementTree as ET

from forewarn.core.errors import BadInput
from forewarn.emulator.expectations import ExpectationState, Verdict
from forewarn.emulator.scenario import Scenario


def report(scenario: Scenario, verdicts: list[Verdict], seconds: float) -> bytes:
    """Return a report with one test case for each verdict; an open verdict counts as failed."""
    missed = [verdict for verdict in verdicts if verdict.outcome is not ExpectationState.MET]
    counts = {"tests": str(len(verdicts)), "failures": str(len(missed)), "errors": "0", "time": f"{seconds:.3f}"}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": scenario.title, **counts})
    for verdict in verdicts:
        case = ET.SubElement(suite, "testcase", {"classname": scenario.name, "name": verdict.claim})
        if verdict.outcome is not ExpectationState.MET:
            ET.SubElement(case, "failure", {"message": verdict.told})
    ET.indent(suites)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suites, encoding="unicode").encode() + b"\n"


def write(path: Path, scenario: Scenario, verdicts: list[Verdict], seconds: float) -> None:
    """Write the report to a file."""
    try:
        path.write_bytes(report(scenario, verdicts, seconds))
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror or error}") from None
