"""The report of a run can be read again."""

from mutants.__main__ import describe, survivors
from mutants.mutations import mutations_of
from mutants.session import Finding, Verdict


def test_the_survivors_of_a_report_are_found_again() -> None:
    """Whatever else it says."""
    mutation = mutations_of("src/forewarn/core/turns.py", "def settle(): g(a)")[0]
    report = f"1 of 9 mutations; 0 are accepted\n{describe(Finding(mutation, Verdict.SURVIVED))}\nkilled: 0\n"

    assert survivors(report) == {mutation.key}
