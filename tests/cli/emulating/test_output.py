"""A scenario's verdicts as JUnit XML."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from forewarn.cli.emulating.output import junit_report, write_junit
from forewarn.core.errors import BadInput
from forewarn.emulator.expectations import ExpectationState, Verdict
from forewarn.emulator.scenario import parse

SCENARIO = parse('title = "Odd <&> things"', "odd.toml", "odd")
VERDICTS = [
    Verdict("restart fetched", ExpectationState.MET, "it was fetched after 2s"),
    Verdict('restart "approved"', ExpectationState.MISSED, "it did not happen"),
    Verdict("restart gone", ExpectationState.OPEN, "not yet"),
]


def test_every_verdict_is_a_test_case() -> None:
    """What is missed or still open has failed, and says why."""
    root = ET.fromstring(junit_report(SCENARIO, VERDICTS, 1.5))  # noqa: S314 - we wrote it
    suite = root[0]
    failures = {case.get("name"): failure.get("message") for case in suite for failure in case}

    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("Odd <&> things", "3", "2")
    assert failures == {'restart "approved"': "it did not happen", "restart gone": "not yet"}
    assert {case.get("classname") for case in suite} == {"odd"}


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """In one sentence that names it."""
    with pytest.raises(BadInput, match="cannot be written"):
        write_junit(tmp_path / "nowhere" / "report.xml", SCENARIO, VERDICTS, 1.5)
