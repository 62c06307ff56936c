"""The facts of rollouts as sentences."""

import pytest
from msgspec.structs import replace

from forewarn.core.rollouts.facts import (
    RolloutBlocked,
    RolloutChecked,
    RolloutEdited,
    RolloutEnded,
    RolloutFact,
    RolloutHostChanged,
    RolloutHostFailing,
    RolloutLate,
    RolloutPaused,
    RolloutResumed,
    RolloutStarted,
    RolloutStopping,
    RolloutWaveStarted,
)
from forewarn.core.rollouts.model import (
    HostStep,
    Rollout,
    RolloutOperation,
    RolloutResult,
    RolloutState,
    RolloutTerms,
)
from forewarn.core.rollouts.sentences import describe, name_of
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
    """With what was changed, and by whom; entries of earlier releases do not say it."""
    terms = RolloutTerms(operation=RolloutOperation.REBOOT)
    assert describe(RolloutEdited("k", NOON, terms, (), 60.0)) == "rollout k is changed"
    edited = RolloutEdited("k", NOON, terms, (), 60.0, "parallel, settle changed by ann")
    assert describe(edited) == "rollout k is changed: parallel, settle changed by ann"


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (RolloutStopping("k", NOON, RolloutResult.STOPPED, "h1 failed"), "rollout k stops: h1 failed"),
        (RolloutPaused("k", NOON, "paused by ann"), "rollout k pauses: paused by ann"),
        (RolloutResumed("k", NOON, "resumed by ann"), "rollout k goes on: resumed by ann"),
        (RolloutBlocked("k", NOON, "alerts fire: Down"), "rollout k waits: alerts fire: Down"),
        (RolloutBlocked("k", NOON, ""), "rollout k waits for nothing any more"),
        (RolloutChecked("k", NOON, 2, True, "well"), "rollout k: wave 2 may begin: well"),
        (RolloutChecked("k", NOON, 2, False, "unwell"), "rollout k: wave 2 may not begin: unwell"),
        (
            RolloutWaveStarted("k", NOON, 2, ("h1", "h2"), HostStep.ANNOUNCED),
            "rollout k: wave 2 begins: h1, h2",
        ),
        (
            RolloutHostFailing("k", "h1", NOON, "too late"),
            "rollout k: host h1 waits for its Started events: too late",
        ),
        (RolloutHostChanged("k", "h1", NOON, HostStep.DONE), "rollout k: host h1 is done"),
        (
            RolloutEnded("k", NOON, RolloutResult.CANCELED, "canceled by ann", 1, 2, 3, 4),
            "rollout k is canceled: 1 host done, 2 failed, 3 skipped, 4 not begun; canceled by ann",
        ),
        (
            RolloutEnded("k", NOON, RolloutResult.COMPLETED),
            "rollout k is completed: 0 hosts done, 0 failed, 0 skipped, 0 not begun",
        ),
    ],
)
def test_a_fact_is_one_sentence_with_its_reason(fact: RolloutFact, said: str) -> None:
    """As history shows it."""
    assert describe(fact) == said
    assert name_of(fact) == "k"


def test_the_beginning_of_a_rollout_names_its_run_and_what_it_waits_for() -> None:
    """The first run is not numbered."""
    terms = RolloutTerms(operation=RolloutOperation.REBOOT)
    rollout = Rollout(name="k", id="1", by="ann", terms=terms, hosts=("h1", "h2"), started_at=NOON)
    assert describe(RolloutStarted(rollout)) == "rollout k starts: reboot of 2 hosts"
    assert describe(RolloutStarted(replace(rollout, run=2))) == "rollout k starts: reboot of 2 hosts, run 2"
    queued = RolloutStarted(replace(rollout, state=RolloutState.QUEUED, reason="rollout a has host h1"))
    assert describe(queued) == "rollout k is queued: reboot of 2 hosts; rollout a has host h1"
    assert name_of(queued) == "k"
