"""What is said of the network of the guests."""

import pytest

from forewarn.network import checks, system
from forewarn.network.plan import SetupStep
from tests.cli.conftest import Forewarn


class NoBridge:
    """The check of a machine without the bridge."""

    def __init__(self, *_: object) -> None:
        """Look at nothing."""

    def steps(self) -> tuple[SetupStep, ...]:
        return ()

    def missing_bridge(self) -> str:
        return "there is no bridge br9"

    def notes(self) -> tuple[str, ...]:
        return ()


def test_a_bridge_that_is_missing_has_no_command_that_mends_it(
    forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is another program's; for programs the command is empty."""
    monkeypatch.setattr(system, "require", lambda **_: None)
    monkeypatch.setattr(checks, "NetworkCheck", NoBridge)

    result = forewarn("network", "check", "--json")
    assert (result.code, result.json) == (
        1,
        {"missing": [{"missing": "there is no bridge br9", "command": ""}], "notes": []},
    )
    assert forewarn("network", "check").out == "missing: there is no bridge br9\n"
