"""Which lines of the product each test runs, and its time on the processor: measured once, by a trace function."""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

_Follow = Callable[[FrameType, str, Any], Any]


@dataclass
class Trace:
    """What is known of one test."""

    seconds: float = 0.0
    lines: dict[str, int] = field(default_factory=dict)
    """By file, with bit n for line n: the lines that were run."""
    has_failed: bool = False

    def has_run(self, file: str, lines: range) -> bool:
        """Say whether the test ran any of these lines."""
        return bool(self.lines.get(file, 0) >> lines.start & (1 << len(lines)) - 1)


class Tracer:
    """A pytest plugin that measures every test that runs."""

    def __init__(self, source: Path) -> None:
        self.traces: dict[str, Trace] = {}
        self._source = f"{source}/"
        self._seen: dict[CodeType, tuple[set[int], _Follow]] = {}
        self._lengths: dict[CodeType, int] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        trace = self.traces[item.nodeid] = Trace()
        self._seen = {}
        began = time.process_time()
        threading.settrace(self._see)
        sys.settrace(self._see)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            trace.seconds = time.process_time() - began
            for code, (lines, _) in list(self._seen.items()):
                mask = trace.lines.get(code.co_filename, 0)
                for line in list(lines):
                    mask |= 1 << line
                trace.lines[code.co_filename] = mask

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.traces[report.nodeid].has_failed = True

    def _see(self, frame: FrameType, _event: str, _: object) -> _Follow | None:
        code = frame.f_code
        if code not in self._seen:
            if not code.co_filename.startswith(self._source):
                return None
            self._seen[code] = self._begin(code)
        seen, follow = self._seen[code]
        return follow if len(seen) < self._lengths[code] else None

    def _begin(self, code: CodeType) -> tuple[set[int], _Follow]:
        seen = {code.co_firstlineno}
        if code not in self._lengths:
            self._lengths[code] = len({line for *_, line in code.co_lines() if line} | seen)

        def follow(frame: FrameType, _event: str, _: object) -> _Follow:
            seen.add(frame.f_lineno)
            return follow

        return seen, follow
