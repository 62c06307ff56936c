"""Which tests judge a mutation."""

from mutants.mutations import Mutation, mutations_of
from mutants.session import ROOT, choose_tests, mirrored_test, package_of_tests
from mutants.tracing import Trace

FILE = "src/forewarn/core/turns.py"
RUN = {str(ROOT / FILE): 1 << 2}


def mutation() -> Mutation:
    return mutations_of(FILE, "def settle():\n    g(a)")[0]


def test_tests_mirror_modules() -> None:
    """As the folders of both do."""
    assert mirrored_test("src/forewarn/core/turns.py") == "tests/core/test_turns.py"
    assert package_of_tests("src/forewarn/journal/sqlite/index.py") == "tests/journal/"
    assert package_of_tests("src/forewarn/clocks.py") == "tests/test_clocks.py"


def test_the_nearest_and_fastest_tests_run_first() -> None:
    """Those of its own test file may take a little longer than others of its package, and these than the rest."""
    traces = {
        "tests/node/test_writer.py::a": Trace(0.4, RUN),
        "tests/core/test_invariants.py::a": Trace(5.0, RUN),
        "tests/core/test_decide.py::a": Trace(0.5, RUN),
        "tests/core/test_turns.py::a": Trace(0.9, RUN),
    }

    assert choose_tests(mutation(), traces, budget=10.0) == [
        "tests/core/test_turns.py::a",
        "tests/core/test_decide.py::a",
        "tests/node/test_writer.py::a",
        "tests/core/test_invariants.py::a",
    ]


def test_tests_that_killed_mutations_of_the_function_run_first() -> None:
    """They probably kill this one too, if they run its line."""
    traces = {
        "tests/core/test_turns.py::a": Trace(0.1, RUN),
        "tests/core/test_turns.py::b": Trace(0.3, RUN),
        "tests/core/test_turns.py::c": Trace(0.3),
    }
    killers = ["tests/core/test_turns.py::c", "tests/core/test_turns.py::b"]

    assert choose_tests(mutation(), traces, 1.0, killers) == [
        "tests/core/test_turns.py::b",
        "tests/core/test_turns.py::a",
    ]


def test_only_tests_that_run_the_line_and_pass_without_the_change_are_chosen() -> None:
    """The others say nothing about it."""
    traces = {
        "tests/core/test_turns.py::a": Trace(0.1, {str(ROOT / FILE): 1 << 1 | 1 << 3}),
        "tests/core/test_turns.py::b": Trace(0.1, RUN, has_failed=True),
        "tests/core/test_turns.py::c": Trace(0.1, RUN),
    }

    assert choose_tests(mutation(), traces, budget=1.0) == ["tests/core/test_turns.py::c"]


def test_tests_run_as_long_as_the_budget_lasts() -> None:
    """A mutation that survives does not cost the whole suite, but one test at least."""
    traces = {f"tests/core/test_turns.py::{number}": Trace(0.4, RUN) for number in range(5)}

    assert len(choose_tests(mutation(), traces, budget=1.0)) == 2
    assert len(choose_tests(mutation(), traces, budget=0.1)) == 1
