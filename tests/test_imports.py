"""Who may import what: the layers, and the purity of the rules and of the wire."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter import configuration
from importlinter.application import use_cases

import forewarn

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "forewarn"

PURE = {
    "core": {"msgspec", "forewarn.core"},
    "wire": {"msgspec", "forewarn.core", "forewarn.wire"},
}
WEB_IMPORT = r"(import|from) (httpx?|urllib|requests)\b(?!\.(parse|server|error))"
STARTERS = {
    "child_process.py",
    "conformance/client_process.py",
    "drivers/qemu/machines.py",
    "drivers/run_record.py",
    "journal/snapshot_runner.py",
    "workers/process.py",
}
"""The runner of programs, and modules whose processes go on after the call that starts them."""
IMPURE_CALLS = {"input", "now", "open", "print", "today", "utcnow", "uuid1", "uuid4"}


def modules_of(package: str, having: str = "") -> Iterator[tuple[str, ast.Module]]:
    """Parse each module of a package in which the pattern ``having`` occurs."""
    for path in sorted((SOURCE / package).rglob("*.py")):
        if re.search(having, text := path.read_text(encoding="utf-8")):
            yield str(path.relative_to(SOURCE)), ast.parse(text)


def imports_of(tree: ast.Module) -> Iterator[str]:
    for each in ast.walk(tree):
        match each:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=module, level=level, names=names):
                assert level == 0, "imports are absolute"
                assert module is not None
                yield from (f"{module}.{name.name}" for name in names)


def is_within(name: str, allowed: set[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in allowed)


def calls_of(tree: ast.Module) -> Iterator[str]:
    for each in ast.walk(tree):
        match each:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                yield name


@pytest.mark.end_to_end
def test_nothing_imports_what_stands_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every import contract in pyproject.toml is kept."""
    monkeypatch.chdir(ROOT)
    configuration.configure()

    assert use_cases.lint_imports(cache_dir=None, no_logo=True)


@pytest.mark.parametrize("package", PURE)
def test_the_pure_packages_import_only_the_standard_library_and_msgspec(package: str) -> None:
    """The rules and the wire need nothing that would have to be installed or imitated beside msgspec."""
    allowed = PURE[package] | sys.stdlib_module_names
    foreign = [
        f"{module} imports {name}"
        for module, tree in modules_of(package)
        for name in imports_of(tree)
        if not is_within(name, allowed)
    ]

    assert foreign == []


@pytest.mark.parametrize("package", PURE)
def test_the_pure_packages_read_no_clock_and_draw_no_id(package: str) -> None:
    """Time and ids are handed in; nothing is opened or printed."""
    impure = [
        f"{module} calls {name}"
        for module, tree in modules_of(package)
        for name in calls_of(tree)
        if name in IMPURE_CALLS
    ]

    assert impure == []


def test_every_http_request_goes_through_our_own_client() -> None:
    """It follows no redirect, asks no proxy, and is bounded in time and size; Python's own is none of that."""
    foreign = [
        f"{module} imports {name}"
        for module, tree in modules_of("", having=WEB_IMPORT)
        for name in imports_of(tree)
        if is_within(name, {"http.client", "urllib.request", "httpx", "requests"})
    ]

    assert foreign == []


def test_every_program_is_run_by_our_own_runner() -> None:
    """It bounds the time and what is kept of the output, and leaves no processes behind."""
    starters = {
        module
        for module, tree in modules_of("", having=r"\bsubprocess\b")
        for name in imports_of(tree)
        if is_within(name, {"subprocess"})
    }

    assert starters == STARTERS


def test_the_package_itself_imports_nothing() -> None:
    """``import forewarn`` costs nothing, whatever is installed: it loads no other module."""
    program = "import sys; before = set(sys.modules); import forewarn; print(*set(sys.modules) - before)"
    ended = subprocess.run([sys.executable, "-S", "-c", program], cwd=SOURCE.parent, capture_output=True, check=True)

    assert ended.stdout.decode().split() == ["forewarn"]


@pytest.mark.parametrize("name", forewarn.__all__)
def test_what_the_package_offers_is_there(name: str) -> None:
    """Each name can be imported from the package, and bears that name."""
    assert getattr(forewarn, name).__name__ == name
