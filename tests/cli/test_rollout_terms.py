"""The options that say what a rollout does."""

import click
import pytest
from click.testing import CliRunner

from forewarn.cli.rollout_terms import edit_options, read_edit
from forewarn.control.bodies import RolloutEditBody
from forewarn.core.rollouts.model import HealthGate, RolloutOperation, RolloutTerms


def edit(*words: str, gate: HealthGate | None = None) -> RolloutEditBody:
    """Return what ``rollout edit`` sends with these options, while a rollout has this gate."""
    found: list[RolloutEditBody] = []

    @click.command
    @edit_options
    def command(**given: object) -> None:
        found.append(read_edit(given, lambda: gate))

    result = CliRunner().invoke(command, words, standalone_mode=False)
    if result.exception:
        raise result.exception
    return found[0]


FULL = RolloutTerms(
    operation=RolloutOperation.REBOOT,
    gate=HealthGate(url="http://h/"),
    windows=("00:00-01:00",),
    alerts=("down",),
    parallel_per={"rack": 1},
    lead=60,
    host_limit=60,
    opt_out="keep",
    asks="true",
    every=60,
)


def test_each_term_can_be_taken_away() -> None:
    """The rollout is then as if it had never been given."""
    options = ("gate", "windows", "alerts", "parallel-per", "lead", "host-limit", "opt-out", "asks", "every")
    edited = edit(*(f"--no-{each}" for each in options))
    assert edited.applied_to(FULL) == RolloutTerms(operation=RolloutOperation.REBOOT)


def test_a_part_of_a_gate_is_changed_alone() -> None:
    """What the gate asks stays; another question is another gate."""
    gate = HealthGate(query="errors", threshold="<1", timeout=60)
    assert edit("--gate-threshold", "<0.9", gate=gate).gate == HealthGate("", "", "errors", "<0.9", 60)
    assert edit("--gate-url", "http://h/", gate=gate).gate == HealthGate(url="http://h/")


def test_nothing_to_change_is_wrong_usage() -> None:
    """The sentence has an example."""
    with pytest.raises(click.UsageError, match="say what to change, such as --parallel 3"):
        edit()
