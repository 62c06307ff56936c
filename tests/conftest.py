"""What every test goes by: how hard Hypothesis looks, and that no test sets up another's log."""

import gc
import logging
import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

from forewarn.logs import HumanFormatter
from tests.order import long_tests_first

# No deadline and no complaint about slow data: both measure how busy the machine is, not the code.
settings.register_profile(
    "check", max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("test", settings.get_profile("check"), max_examples=200)
# For a night's search: other examples each time, and a line with which to repeat what failed.
settings.register_profile(
    "search", settings.get_profile("check"), max_examples=5_000, derandomize=False, print_blob=True
)
# For mutants: the first example that fails is enough.
settings.register_profile(
    "mutants",
    settings.get_profile("check"),
    max_examples=10,
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "check"))

CERTIFICATES = {"authority", "certificate", "foreign_authority"}
"""Fixtures that run the program openssl."""

# A shell that starts tests in the background lets them ignore Ctrl-C, and so would every command that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What collection makes lives until the end: the garbage collector need not go through it again and again.
gc.disable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests that need openssl to `make test`, which installs it; begin with the long tests."""
    for item in items:
        if isinstance(item, pytest.Function) and not CERTIFICATES.isdisjoint(item.fixturenames):
            item.add_marker("end_to_end")
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = long_tests_first(items, workers, lambda item: bool(item.get_closest_marker("end_to_end")))


def pytest_collection_finish() -> None:
    """Collect garbage again, of what the tests make."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Let the captured text be what a process writes, fields included."""
    caplog.handler.setFormatter(HumanFormatter())
    return caplog


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Let what a command sets up for its own process end with the test that ran it."""
    root, facts = logging.getLogger(), logging.getLogger("forewarn.facts")
    handlers, levels = [*root.handlers], (root.level, facts.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    facts.setLevel(levels[1])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape captured text that is not Unicode: a worker of xdist cannot pass it on."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report
