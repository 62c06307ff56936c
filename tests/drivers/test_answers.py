"""What exit codes and words of an operator's program mean."""

import pytest

from forewarn.drivers.answers import LONGEST, of_perform, of_question
from forewarn.drivers.runner import Ended
from forewarn.node.driver import Done, Failed, NotBegun, Outcome, Underway, Unknowable
from tests.drivers.impacts import NOW


def test_exit_0_is_done() -> None:
    """A program that exits with 0 has done it."""
    assert of_perform(Ended(), ["web-0"]) == Done()


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (Ended(exit=1), "exit code 1"),
        (Ended(exit=3, stderr="warning\nno such domain\n\n"), "exit code 3: no such domain"),
        (Ended(exit=-9), "killed by signal 9 (SIGKILL)"),
        (Ended(exit=-15, timed_out=True), "took too long and was stopped"),
        (Ended(exit=0, timed_out=True, stderr="still here"), "took too long and was stopped: still here"),
        (Ended(problem="the program could not be started: gone"), "the program could not be started: gone"),
    ],
)
def test_every_other_end_has_failed(ended: Ended, reason: str) -> None:
    """Any other end has failed, and the last line of stderr says why."""
    assert of_perform(ended, ["web-0"]) == Failed(reason)


def test_moved_vms_are_named_in_json() -> None:
    """A JSON object on stdout names the hosts that VMs were moved to."""
    said = '{"hosts": {"web-0": "h2"}, "detail": "moved", "more": [1]}\n'

    assert of_perform(Ended(stdout=said), ["web-0"]) == Done({"web-0": "h2"}, "moved")


def test_hosts_of_other_vms_are_left_out_and_told() -> None:
    """A program speaks for the VMs of its event only."""
    done = of_perform(Ended(stdout='{"hosts": {"db-9": "h2"}}'), ["web-0"])

    assert done == Done(detail="(hosts named for VMs that are not in the event: db-9)")


@pytest.mark.parametrize("said", ['{"hosts": 1}', "{", '{"hosts": {}} {}'])
def test_an_answer_that_cannot_be_read_does_not_undo_what_was_done(said: str) -> None:
    """Broken JSON loses the words, not the outcome."""
    done = of_perform(Ended(stdout=said), ["web-0"])

    assert isinstance(done, Done)
    assert done.detail.startswith("its answer could not be read: ")


def test_plain_words_are_the_detail() -> None:
    """What is not JSON is taken for talk, of which the last line is kept."""
    assert of_perform(Ended(stdout="Domain web-0\nis being rebooted\n"), []) == Done(detail="is being rebooted")


def test_words_are_short_and_harmless() -> None:
    """Control characters and long lines do not reach a terminal or the journal."""
    assert of_perform(Ended(exit=1, stderr="\x1b[31mred\x00\n"), []) == Failed("exit code 1: [31mred")
    assert len(of_perform(Ended(stdout="x" * 9999), []).detail) == LONGEST  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [
        (Ended(exit=0, stdout='{"hosts": {"web-0": "h2"}}'), Done({"web-0": "h2"})),
        (Ended(exit=1, stderr="broken"), Failed("broken")),
        (Ended(exit=1), Failed("the program says that it failed")),
        (Ended(exit=3), NotBegun()),
        (Ended(exit=4), Underway(NOW)),
        (Ended(exit=4, stdout="begun\n40 % copied\n"), Underway(NOW, "40 % copied")),
        (Ended(exit=2, stderr="usage"), Unknowable("exit code 2: usage")),
        (Ended(exit=-9), Unknowable("killed by signal 9 (SIGKILL)")),
        (Ended(exit=-15, timed_out=True), Unknowable("took too long and was stopped")),
        (Ended(problem="gone"), Unknowable("gone")),
    ],
)
def test_a_question_has_five_answers(ended: Ended, outcome: Outcome) -> None:
    """Asked for the outcome, a program answers by exit code; what is no answer is unknowable."""
    assert of_question(ended, ["web-0"], NOW) == outcome
