"""Judges mutations in forks of one process that has imported the product and collected its tests.

A mutation of a function replaces the code of the function objects that exist. A mutation of what runs during import
needs a process in which the module was not imported yet, and goes through an import hook.
"""

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest

from mutants.forks import Send, run_forked, stream_forked
from mutants.mutations import Mutation
from mutants.tracing import Trace, Tracer

ROOT = Path(__file__).parents[1]
NOT_RUN = ("bench", "demo", "deploy", "docs", "examples", "guests", "mutants", "planted", "simulator")
"""Folders of tests that say nothing about the product's code, start real parts, or take minutes."""
OPTIONS = ("-q", "-x", "-s", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not end_to_end")
"""Plain asserts: else pytest imports the product, which has a plugin for it, past the import hook."""
LONGEST_SESSION = 86_400.0
SPARE_SECONDS = 20.0


class Verdict(StrEnum):
    """What became of a mutation."""

    KILLED = "killed"
    TOO_LONG = "took too long"
    SURVIVED = "survived"
    NOT_CALLED = "no test calls it"


@dataclass(frozen=True)
class Finding:
    """The verdict on one mutation, and the test that failed."""

    mutation: Mutation
    verdict: Verdict
    test: str = ""


def judge(mutations: Sequence[Mutation], tests: Sequence[str], budget: float) -> Iterator[Finding]:
    """Yield a finding for each mutation: functions first, then what runs during import.

    Tests of the mutation's own package all run; of the others, as many as take ``budget`` seconds.
    """
    in_functions = [each for each in mutations if each.function]
    users: dict[str, list[str]] = {}
    for line in stream_forked(lambda send: _run_session(in_functions, tests, budget, send), LONGEST_SESSION):
        match json.loads(line):
            case {"users": dict(found)}:
                users = found
            case {"index": int(index), "verdict": str(verdict), "test": str(test)}:
                yield Finding(in_functions[index], Verdict(verdict), test)
    for mutation in mutations:
        if not mutation.function:
            yield _judge_import(mutation, users.get(mutation.file, []))


def choose_tests(mutation: Mutation, traces: Mapping[str, Trace], budget: float) -> list[str]:
    """Return the tests that call what is changed, the most relevant and fastest first."""
    place = (str(ROOT / mutation.file), mutation.function)
    mirrored, package = mirrored_test(mutation.file), package_of_tests(mutation.file)
    calling = {name: trace for name, trace in traces.items() if place in trace.calls and not trace.has_failed}
    own = [name for name in calling if name.startswith(package)]
    own.sort(key=lambda name: (not name.startswith(mirrored), calling[name].seconds))
    for name in sorted(set(calling).difference(own), key=lambda name: calling[name].seconds):
        budget -= calling[name].seconds
        if budget < 0:
            break
        own.append(name)
    return own


def mirrored_test(file: str) -> str:
    """Return the path of the test file that mirrors a module."""
    path = Path(file).relative_to("src/forewarn")
    return str(Path("tests") / path.with_name(f"test_{path.name}"))


def package_of_tests(file: str) -> str:
    """Return the folder of tests of the top-level package that a module is in."""
    path = Path(file).relative_to("src/forewarn")
    return f"tests/{path.parts[0]}/" if len(path.parts) > 1 else mirrored_test(file)


class _Session:
    """A pytest plugin that judges mutations instead of running the collected tests."""

    def __init__(self, mutations: Sequence[Mutation], budget: float, send: Send) -> None:
        self._mutations = mutations
        self._budget = budget
        self._send = send
        self._failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = self._failed or report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        functions = _functions_by_name()
        gc.collect()
        gc.freeze()
        traces = _trace(session.items)
        self._send(json.dumps({"users": _users(traces)}))
        items = {item.nodeid: item for item in session.items}
        for index, mutation in enumerate(self._mutations):
            chosen = choose_tests(mutation, traces, self._budget)
            verdict, test = Verdict.NOT_CALLED, ""
            if chosen:
                places = functions[str(ROOT / mutation.file), mutation.function]
                tests = [items[name] for name in chosen]
                limit = SPARE_SECONDS + 4 * sum(traces[name].seconds for name in chosen)
                found = run_forked(lambda: self._run(mutation, places, tests), limit)  # noqa: B023 - it runs at once
                verdict, test = _verdict(found)
            self._send(json.dumps({"index": index, "verdict": verdict, "test": test}))
        return True

    def _run(self, mutation: Mutation, places: Sequence[FunctionType], tests: Sequence[pytest.Item]) -> str:
        """Run tests with the changed function; return the first that fails."""
        codes = {(each.co_qualname, each.co_firstlineno): each for each in _codes(mutation.compile(mutation.file))}
        for function in places:
            old = function.__code__
            function.__code__ = codes[old.co_qualname, old.co_firstlineno].replace(co_filename=old.co_filename)
        for item, following in zip(tests, [*tests[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return self._failed
        return "passed"


class _FailedTest:
    """A pytest plugin that remembers the first test that failed."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.name = self.name or report.nodeid


class _MutantImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module with its mutation, and leaves all others alone."""

    def __init__(self, mutation: Mutation) -> None:
        path = ROOT / mutation.file
        self._name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        self._path = str(path)
        self._code = mutation.compile(self._path)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        is_package = [str(Path(self._path).parent)] if self._path.endswith("__init__.py") else None
        return importlib.util.spec_from_file_location(
            name, self._path, loader=self, submodule_search_locations=is_package
        )

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)  # noqa: S102 - it is the product's own code, with one change


def _run_session(mutations: Sequence[Mutation], tests: Sequence[str], budget: float, send: Send) -> None:
    pytest.main([*OPTIONS, *tests], plugins=[_Session(mutations, budget, send)])


def _judge_import(mutation: Mutation, tests: Sequence[str]) -> Finding:
    chosen = [*tests] or [mirrored_test(mutation.file), package_of_tests(mutation.file)]
    existing = [each for each in chosen if (ROOT / each).exists()]

    def run() -> str:
        sys.meta_path.insert(0, _MutantImporter(mutation))
        failed = _FailedTest()
        status = pytest.main([*OPTIONS, *existing], plugins=[failed])
        return failed.name or ("passed" if status == pytest.ExitCode.OK else f"pytest: {status}")

    return Finding(mutation, *_verdict(run_forked(run, 120.0)))


def _verdict(found: str | None) -> tuple[Verdict, str]:
    match found:
        case None:
            return Verdict.TOO_LONG, ""
        case "passed":
            return Verdict.SURVIVED, ""
        case "":
            return Verdict.KILLED, "the process ended"
        case _:
            return Verdict.KILLED, found


def _trace(items: Sequence[pytest.Item]) -> dict[str, Trace]:
    """Run every test once, unchanged, in a fork."""

    def run(send: Send) -> None:
        tracer = Tracer(ROOT / "src")
        items[0].config.pluginmanager.register(tracer)
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            trace = tracer.traces.pop(item.nodeid)
            send(json.dumps([item.nodeid, trace.seconds, trace.has_failed, sorted(trace.calls)]))

    return {
        name: Trace(seconds, {(file, function) for file, function in calls}, has_failed)
        for name, seconds, has_failed, calls in map(json.loads, stream_forked(run, LONGEST_SESSION))
    }


def _users(traces: Mapping[str, Trace]) -> dict[str, list[str]]:
    """Return the test files that call anything of each module: its own first, then those of its package, then others.

    The others end where they would take more than a few seconds together.
    """
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, trace in traces.items():
        for file in {file for file, _ in trace.calls}:
            seconds[file][name.partition("::")[0]] += trace.seconds
    found = {}
    for path, tests in seconds.items():
        file = str(Path(path).relative_to(ROOT))
        mirrored, package = mirrored_test(file), package_of_tests(file)
        order = sorted(
            tests,
            key=lambda each: (each != mirrored, not each.startswith(package), tests[each]),
        )
        left, chosen = 5.0, []
        for each in order:
            left -= 0.0 if each.startswith(package) else tests[each]
            if left >= 0:
                chosen.append(each)
        found[file] = chosen
    return found


def _functions_by_name() -> Mapping[tuple[str, str], list[FunctionType]]:
    found = defaultdict[tuple[str, str], list[FunctionType]](list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(f"{ROOT}/src/"):
            found[each.__code__.co_filename, each.__code__.co_qualname].append(each)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)
