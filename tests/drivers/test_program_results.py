"""What exit codes and words of an operator's program mean."""

import pytest

from forewarn.core.terms import LONGEST_LINE
from forewarn.drivers.program_results import read_outcome_result, read_perform_result
from forewarn.drivers.program_runner import CompletedRun
from forewarn.node.driver import (
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
)
from tests.drivers.impacts import NOW


def test_exit_0_is_done() -> None:
    """A program that exits with 0 has done it."""
    assert read_perform_result(CompletedRun(), ["web-0"]) == ImpactDone()


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (CompletedRun(exit=1), "exit code 1"),
        (CompletedRun(exit=3, stderr="warning\nno such domain\n\n"), "exit code 3: no such domain"),
        (CompletedRun(exit=-9), "killed by signal 9 (SIGKILL)"),
        (CompletedRun(exit=-15, timed_out=True), "took too long and was stopped"),
        (CompletedRun(exit=0, timed_out=True, stderr="still here"), "took too long and was stopped: still here"),
        (CompletedRun(problem="the program could not be started: gone"), "the program could not be started: gone"),
    ],
)
def test_every_other_end_has_failed(ended: CompletedRun, reason: str) -> None:
    """Any other end has failed, and the last line of stderr says why."""
    assert read_perform_result(ended, ["web-0"]) == ImpactFailed(reason)


def test_moved_vms_are_named_in_json() -> None:
    """A JSON object on stdout names the hosts that VMs were moved to."""
    said = '{"hosts": {"web-0": "h2"}, "detail": "moved", "more": [1]}\n'

    assert read_perform_result(CompletedRun(stdout=said), ["web-0"]) == ImpactDone({"web-0": "h2"}, "moved")


def test_hosts_of_other_vms_are_left_out_and_told() -> None:
    """A program speaks for the VMs of its event only."""
    done = read_perform_result(CompletedRun(stdout='{"hosts": {"db-9": "h2"}}'), ["web-0"])

    assert done == ImpactDone(detail="(hosts named for VMs that are not in the event: db-9)")


@pytest.mark.parametrize("said", ['{"hosts": 1}', "{", '{"hosts": {}} {}'])
def test_an_answer_that_cannot_be_read_does_not_undo_what_was_done(said: str) -> None:
    """Broken JSON loses the words, not the outcome."""
    done = read_perform_result(CompletedRun(stdout=said), ["web-0"])

    assert isinstance(done, ImpactDone)
    assert done.detail.startswith("its output could not be parsed: ")


def test_plain_words_are_the_detail() -> None:
    """What is not JSON is taken for talk, of which the last line is kept."""
    assert read_perform_result(CompletedRun(stdout="Domain web-0\nis being rebooted\n"), []) == ImpactDone(
        detail="is being rebooted"
    )


def test_words_are_short_and_harmless() -> None:
    """Control characters and long lines do not reach a terminal or the journal."""
    assert read_perform_result(CompletedRun(exit=1, stderr="\x1b[31mred\x00\n"), []) == ImpactFailed(
        "exit code 1: [31mred"
    )
    assert len(read_perform_result(CompletedRun(stdout="x" * 9999), []).detail) == LONGEST_LINE  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [
        (CompletedRun(exit=0, stdout='{"hosts": {"web-0": "h2"}}'), ImpactDone({"web-0": "h2"})),
        (CompletedRun(exit=1, stderr="broken"), ImpactFailed("broken")),
        (CompletedRun(exit=1), ImpactFailed("the program reported a failure")),
        (CompletedRun(exit=3), ImpactNotBegun()),
        (CompletedRun(exit=4), ImpactUnderway(NOW)),
        (CompletedRun(exit=4, stdout="begun\n40 % copied\n"), ImpactUnderway(NOW, "40 % copied")),
        (CompletedRun(exit=2, stderr="usage"), ImpactUnknown("exit code 2: usage")),
        (CompletedRun(exit=-9), ImpactUnknown("killed by signal 9 (SIGKILL)")),
        (CompletedRun(exit=-15, timed_out=True), ImpactUnknown("took too long and was stopped")),
        (CompletedRun(problem="gone"), ImpactUnknown("gone")),
    ],
)
def test_a_question_has_five_answers(ended: CompletedRun, outcome: ImpactOutcome) -> None:
    """Asked for the outcome, a program answers by exit code; what is no answer is unknowable."""
    assert read_outcome_result(ended, ["web-0"], NOW) == outcome
