"""Which tests judge a mutation."""

from mutants.mutations import Mutation, mutations_of
from mutants.session import ROOT, choose_tests, mirrored_test, package_of_tests
from mutants.tracing import Trace

FILE = "src/forewarn/core/turns.py"
CALLS = {(str(ROOT / FILE), "settle")}


def mutation() -> Mutation:
    return mutations_of(FILE, "def settle(): g(a)")[0]


def test_tests_mirror_modules() -> None:
    """As the folders of both do."""
    assert mirrored_test("src/forewarn/core/turns.py") == "tests/core/test_turns.py"
    assert package_of_tests("src/forewarn/journal/sqlite/index.py") == "tests/journal/"
    assert package_of_tests("src/forewarn/clocks.py") == "tests/test_clocks.py"


def test_the_nearest_and_fastest_tests_run_first() -> None:
    """Its own test file, then its package, then others."""
    traces = {
        "tests/node/test_writer.py::a": Trace(0.1, CALLS),
        "tests/core/test_invariants.py::a": Trace(5.0, CALLS),
        "tests/core/test_decide.py::a": Trace(1.0, CALLS),
        "tests/core/test_turns.py::a": Trace(2.0, CALLS),
    }

    assert choose_tests(mutation(), traces, budget=1.0) == [
        "tests/core/test_turns.py::a",
        "tests/core/test_decide.py::a",
        "tests/core/test_invariants.py::a",
        "tests/node/test_writer.py::a",
    ]


def test_only_tests_that_call_the_function_and_pass_without_the_change_are_chosen() -> None:
    """The others say nothing about it."""
    traces = {
        "tests/core/test_turns.py::a": Trace(0.1, set()),
        "tests/core/test_turns.py::b": Trace(0.1, CALLS, has_failed=True),
        "tests/core/test_turns.py::c": Trace(0.1, CALLS),
    }

    assert choose_tests(mutation(), traces, budget=1.0) == ["tests/core/test_turns.py::c"]


def test_tests_of_other_packages_run_as_long_as_the_budget_lasts() -> None:
    """A mutation that survives does not cost the whole suite."""
    traces = {f"tests/node/test_writer.py::{number}": Trace(0.4, CALLS) for number in range(5)}

    assert len(choose_tests(mutation(), traces, budget=1.0)) == 2
