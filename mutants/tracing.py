"""Which functions of the product each test calls, and how long it takes: measured once, by a profile function."""

import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import pytest


@dataclass
class Trace:
    """What is known of one test."""

    seconds: float = 0.0
    calls: set[tuple[str, str]] = field(default_factory=set)
    """File and qualified name of every outermost function that was called."""
    has_failed: bool = False


class Tracer:
    """A pytest plugin that measures every test that runs."""

    def __init__(self, source: Path) -> None:
        self.traces: dict[str, Trace] = {}
        self._source = f"{source}/"
        self._now = Trace()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        self._now = self.traces[item.nodeid] = Trace()
        began = time.perf_counter()
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            self._now.seconds = time.perf_counter() - began

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._now.has_failed = True

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self._source):
            self._now.calls.add((code.co_filename, code.co_qualname.split(".<locals>")[0]))
