"""Judges mutations in forks of one process that has imported the product and collected its tests.

A mutation of a function replaces the code of the function objects that exist. A mutation of what runs during import
needs a process in which the module was not imported yet, and goes through an import hook.
"""

import contextlib
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from mutants.forks import Send, run_forked, stream_forked
from mutants.mutations import Mutation
from mutants.tracing import Trace, Tracer

ROOT = Path(__file__).parents[1]
NOT_RUN = ("bench", "demo", "deploy", "docs", "examples", "guests", "mutants", "planted", "simulator")
"""Folders of tests that say nothing about the product's code, start real parts, or take minutes."""
OPTIONS = ("-q", "-x", "-s", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist")
"""Plain asserts: else pytest imports the product, which has a plugin for it, past the import hook."""
FAST = ("-m", "not end_to_end")
LONGEST_SESSION = 86_400.0
LONGEST_TRACE = 600.0
LONGEST_IMPORT = 600.0
SPARE_SECONDS = 20.0
LONGEST_TEST, LONGEST_WAIT = 3.0, 10.0
"""Seconds that a test may always take: of the processor, and of the clock. Its process ends after them."""
TIMES_SLOWER = 4.0
MOST_KILLERS = 8
"""How many of the tests that killed mutations of a function are tried first on its next one."""


class Verdict(StrEnum):
    """What became of a mutation."""

    KILLED = "killed"
    TOO_LONG = "took too long"
    SURVIVED = "survived"
    NOT_RUN = "no test runs it"


@dataclass(frozen=True)
class Finding:
    """The verdict on one mutation, and the test that failed."""

    mutation: Mutation
    verdict: Verdict
    test: str = ""


def judge(mutations: Sequence[Mutation], tests: Sequence[str], budget: float, jobs: int = 1) -> Iterator[Finding]:
    """Yield a finding for each mutation: functions first, then what runs during import.

    As many tests run as take ``budget`` seconds.
    """
    at_import = [each for each in mutations if not each.function or each.is_called_during_import]
    in_functions = [each for each in mutations if each.function and not each.is_called_during_import]
    not_run = len(at_import)
    users: dict[str, list[str]] = {}
    failing: list[str] = []
    for line in stream_forked(lambda send: _run_session(in_functions, tests, budget, jobs, send), LONGEST_SESSION):
        match json.loads(line):
            case {"users": dict(found), "failing": list(failing), "modules": list(modules)}:
                users = found
                _import_all(modules)
            case {"index": int(index), "verdict": Verdict.NOT_RUN}:
                at_import.append(in_functions[index])  # what runs during import may call it
            case answer:
                yield _read(in_functions, answer)

    def judge_import(index: int) -> tuple[Verdict, str]:
        mutation = at_import[index]
        verdict, test = _judge_import(mutation, users.get(mutation.file, []), failing)
        return Verdict.NOT_RUN if verdict is Verdict.SURVIVED and index >= not_run else verdict, test

    for line in stream_forked(lambda send: _share(len(at_import), jobs, judge_import, send), LONGEST_SESSION):
        yield _read(at_import, json.loads(line))


def choose_tests(
    mutation: Mutation, traces: Mapping[str, Trace], budget: float, first: Sequence[str] = ()
) -> list[str]:
    """Return the tests that run what is changed: first those named, then the most relevant and fastest."""
    file = str(ROOT / mutation.file)
    mirrored, package = mirrored_test(mutation.file), package_of_tests(mutation.file)
    running = {
        name: trace for name, trace in traces.items() if trace.has_run(file, mutation.lines) and not trace.has_failed
    }

    def cost(name: str) -> float:
        seconds = running[name].seconds
        return seconds if name.startswith(mirrored) else 2 * seconds if name.startswith(package) else 4 * seconds

    chosen: list[str] = []
    for name in [*(each for each in first if each in running), *sorted(set(running).difference(first), key=cost)]:
        budget -= running[name].seconds
        if budget < 0 and chosen:
            break
        chosen.append(name)
    return chosen


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

    def __init__(self, mutations: Sequence[Mutation], budget: float, jobs: int, send: Send) -> None:
        self._mutations = mutations
        self._budget = budget
        self._jobs = jobs
        self._send = send
        self._failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = self._failed or report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.unfreeze()  # what is frozen is not among the objects that gc finds
        functions = _functions_by_name()
        gc.collect()
        gc.freeze()
        traces = _trace(session.items)
        failing = [name for name, trace in traces.items() if trace.has_failed]
        self._send(json.dumps({"users": _users(traces), "failing": failing, "modules": _foreign_modules()}))
        items = {item.nodeid: item for item in session.items}
        killers = defaultdict[tuple[str, str], list[str]](list)

        def judge_function(index: int) -> tuple[Verdict, str]:
            mutation = self._mutations[index]
            place = (str(ROOT / mutation.file), mutation.function)
            known = killers[place]
            chosen = choose_tests(mutation, traces, self._budget, known)
            if not (chosen and functions[place]):
                return Verdict.NOT_RUN, ""
            limits = [(items[name], traces[name].seconds) for name in chosen]
            limit = SPARE_SECONDS + TIMES_SLOWER * sum(seconds for _, seconds in limits)
            verdict, test = _verdict(run_forked(lambda: self._run(mutation, functions[place], limits), limit))
            if test in traces:
                known[:] = [test, *(each for each in known if each != test)][:MOST_KILLERS]
            return verdict, test

        _share(len(self._mutations), self._jobs, judge_function, self._send)
        return True

    def _run(
        self, mutation: Mutation, places: Sequence[FunctionType], tests: Sequence[tuple[pytest.Item, float]]
    ) -> str:
        """Run tests with the changed function; return the first that fails."""
        codes = {(each.co_qualname, each.co_firstlineno): each for each in _codes(mutation.compile(mutation.file))}
        for function in places:
            old = function.__code__
            function.__code__ = codes[old.co_qualname, old.co_firstlineno].replace(co_filename=old.co_filename)
        for (item, seconds), following in zip(tests, [*(item for item, _ in tests[1:]), None], strict=True):
            signal.setitimer(signal.ITIMER_PROF, LONGEST_TEST + TIMES_SLOWER * seconds)
            signal.setitimer(signal.ITIMER_REAL, LONGEST_WAIT + TIMES_SLOWER * seconds)
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


def _run_session(mutations: Sequence[Mutation], tests: Sequence[str], budget: float, jobs: int, send: Send) -> None:
    if mutations:
        pytest.main([*OPTIONS, *FAST, *tests], plugins=[_Session(mutations, budget, jobs, send)])


def _share(count: int, jobs: int, judge_one: Callable[[int], tuple[Verdict, str]], send: Send) -> None:
    """Judge by several processes at a time."""

    def work(start: int) -> None:
        for index in range(start, count, jobs):
            verdict, test = judge_one(index)
            send(json.dumps({"index": index, "verdict": verdict, "test": test}))

    children = []
    for start in range(jobs):
        child = os.fork()
        if not child:
            try:
                work(start)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def _read(mutations: Sequence[Mutation], answer: Mapping[str, Any]) -> Finding:
    return Finding(mutations[answer["index"]], Verdict(answer["verdict"]), answer["test"])


def _foreign_modules() -> list[str]:
    """Return what has been imported and is not part of the project."""
    folders = tuple(f"{ROOT / each}/" for each in ("src", "tests", "tools", "bench", "planted", "demo"))
    return [name for name, each in sys.modules.items() if not str(getattr(each, "__file__", "")).startswith(folders)]


def _import_all(modules: Sequence[str]) -> None:
    """Import what the product and its tests need, but not themselves, so that each fork has it already."""
    for name in modules:
        with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
            importlib.import_module(name)


def _judge_import(mutation: Mutation, tests: Sequence[str], failing: Sequence[str]) -> tuple[Verdict, str]:
    """Judge by fast tests, and a function that they do not run by the other ones of its own test file.

    Those of its package come last: some look at a record or a number of the module, and call nothing in it. Tests
    that fail without the change say nothing, and are left out.
    """
    mirrored = mirrored_test(mutation.file)
    existing = [each for each in [*tests] or [mirrored] if (ROOT / each).exists()]
    parts = [[*FAST, *existing[:1]], [*FAST, *existing[1:]]]
    if (ROOT / package_of_tests(mutation.file)).exists():
        parts.append([*FAST, package_of_tests(mutation.file)])
    if mutation.function and (ROOT / mirrored).exists():
        parts.append(["-m", "end_to_end", mirrored])

    def run() -> str:
        sys.meta_path.insert(0, _MutantImporter(mutation))
        for part in parts:
            if part == [*FAST]:
                continue
            failed = _FailedTest()
            status = pytest.main([*OPTIONS, *(f"--deselect={name}" for name in failing), *part], plugins=[failed])
            if failed.name or status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                return failed.name or f"pytest: {status!r}"
        return "passed"

    return _verdict(run_forked(run, LONGEST_IMPORT))


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
    """Run every test once, unchanged, in a fork of its own: a cache that one fills hides what the next one runs."""
    found = {}
    for item in items:
        answer = run_forked(lambda: _trace_one(item), LONGEST_TRACE)  # noqa: B023 - it runs at once
        found[item.nodeid] = Trace(*json.loads(answer)) if answer else Trace(has_failed=True)
    return found


def _trace_one(item: pytest.Item) -> str:
    tracer = Tracer(ROOT / "src")
    item.config.pluginmanager.register(tracer)
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    trace = tracer.traces[item.nodeid]
    return json.dumps([trace.seconds, trace.lines, trace.has_failed])


def _users(traces: Mapping[str, Trace]) -> dict[str, list[str]]:
    """Return the test files that call anything of each module: its own first, then those of its package, then others.

    The others end where they would take more than a few seconds together.
    """
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, trace in traces.items():
        for file in trace.lines:
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
