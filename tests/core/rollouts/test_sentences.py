"""The facts of rollouts as sentences."""

import pytest

from forewarn.core.facts import RolloutEdited, RolloutHostChanged, RolloutLate
from forewarn.core.rollouts.model import HostStep, RolloutOperation, RolloutTerms
from forewarn.core.rollouts.sentences import describe
from tests.core.harness import NOON


@pytest.mark.parametrize("step", HostStep)
def test_every_step_of_a_host_has_words(step: HostStep) -> None:
    """History shows each of them, with the reason."""
    said = describe(RolloutHostChanged("k", "h1", NOON, step, "it must"))
    assert said.startswith("rollout k: host h1 ")
    assert said.endswith(": it must")


def test_a_late_rollout_says_when_it_was_to_end() -> None:
    """In UTC."""
    assert describe(RolloutLate("k", NOON, NOON)).endswith("it was to end by 2024-01-01T12:00:00Z")


def test_a_changed_rollout_is_named() -> None:
    """What changed is in the fact itself."""
    terms = RolloutTerms(operation=RolloutOperation.REBOOT)
    assert describe(RolloutEdited("k", NOON, terms, (), 60.0)) == "rollout k is changed"
