"""The checkout itself: versions agree, entry points exist, links lead somewhere, tests say what they hold."""

import ast
import importlib
import re
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import forewarn

ROOT = Path(__file__).parents[1]

# Written so that they do not find themselves.
UNFINISHED = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b")
REGISTRY = re.compile(r"pyp[i]\.|pythonhoste[d]|npmj[s]\.")
TRACKER = re.compile(r"\b(?:issu[e]|ticke[t]) #?\d", re.IGNORECASE)
HOME = re.compile(r"/(?:hom[e]|User[s])/\w|/roo[t]/")
RETIRED = re.compile(
    r"asking|bearer|behind|berth|board|choosing|conversation|courier|dawn|deed|deliverer|desk|"
    r"doorkeeper|doors|ear|edge|errands|guest|keeper|keys|ledger|left|letterhead|lobby|look|"
    r"microphone|observe|observed|office|outsiders|page|parts|patience|places|plane|rebuff|rig|"
    r"rooms|scout|seat|seen|shouting|sighting|sights|site|standing|story|tail|tails|tally|teller|"
    r"told|visit|waker|watcher|wheel|wires|wish|workshop|world"
)
"""Names that a reader cannot guess; conventional ones have replaced them."""
GONE = re.compile(
    r"berths?|courier|dawn|deeds?|deliverer|desks?|doorkeeper|doors?|errands?|is_wish|ledger|letterhead|lobby|"
    r"look_again|look_anyway|microphone|"
    r"offices?|outsiders|rebuff|(?:run_)?rig|scout|shouting|sightings?|sights|tails|teller|waker|wires|wish(?:es)?|"
    r"workshop|world"
)
"""Those of them that no function, method or attribute has either, nor anything outside of the package."""
WORD = re.compile(r"\w+")
DOCSTRING = re.compile(r'"""(?:[^\\]|\\.)*?"""', re.DOTALL)
CLASS = re.compile(r"^\s*class (\w+)[(:]", re.MULTILINE)
TEST = re.compile(r"^\s*(?:async )?def test_", re.MULTILINE)
TOLD_TEST = re.compile(r'^\s*(?:async )?def test_\w+\([^"]*?\)(?: -> [^:"\n]+)?:\n\s*"""', re.MULTILINE)
"""A test with its docstring, as nearly all are written: where all are, the file need not be parsed."""
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")


@cache
def texts() -> dict[str, str]:
    """Read every tracked file that is text."""
    names = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    found = {}
    for name in filter(None, names):
        path = ROOT / name
        if path.is_file() and b"\0" not in (content := path.read_bytes()):
            found[name] = content.decode(errors="replace")
    return found


def places_of(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts().items()
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def rules_of(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for each in ast.walk(ast.parse(text)):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_"):
            yield each


@cache
def classes_of_the_package() -> list[tuple[str, str]]:
    """Return names and files; to parse all of them would take seconds."""
    return [
        (found, name)
        for name, text in texts().items()
        if name.startswith("src/forewarn/") and name.endswith(".py")
        for found in CLASS.findall(DOCSTRING.sub("", text))
    ]


@cache
def is_gone(name: str) -> bool:
    return bool(GONE.fullmatch(name.strip("_").lower().removeprefix("test_")))


def sleeps_of(text: str) -> Iterator[int]:
    for each in ast.walk(ast.parse(text)):
        match each:
            case ast.Call(args=[ast.Constant(value=0)]):
                pass  # gives way to others, waits for nothing
            case ast.Call(func=ast.Name(id="sleep") | ast.Attribute(attr="sleep"), lineno=line):
                yield line


def test_the_version_is_the_newest_in_the_changelog() -> None:
    """What ``forewarn.__version__`` says is what the changelog's newest release tells about."""
    releases = re.findall(r"^## \[?(\d[^\]\s]*)", texts()["CHANGELOG.md"], re.MULTILINE)

    assert forewarn.__version__ == releases[0]


def entry_points() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield from project["scripts"].values()
    for group in project["entry-points"].values():
        yield from group.values()


@pytest.mark.parametrize("entry_point", list(entry_points()))
def test_every_entry_point_leads_to_something_there(entry_point: str) -> None:
    """The command, each driver and journal that is found by name, and the plugin, which is a module."""
    module, _, name = entry_point.partition(":")
    found = importlib.import_module(module)

    assert not name or callable(getattr(found, name))


def test_every_dependency_is_pinned() -> None:
    """Whatever pyproject.toml asks for has its exact version in constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(each for extra in project["project"]["optional-dependencies"].values() for each in extra),
    ]
    pinned = re.findall(r"^([\w.-]+)==\S+$", texts()["constraints.txt"], re.MULTILINE)

    assert {re.split(r"[^\w.-]", each)[0] for each in asked} <= set(pinned)


@pytest.mark.parametrize("pattern", [UNFINISHED, REGISTRY, TRACKER, HOME], ids=lambda each: each.pattern)
def test_no_file_speaks_of_what_only_its_author_knows(pattern: re.Pattern[str]) -> None:
    """No work left for later, no registry, no tracker's numbers, nobody's home directory."""
    assert places_of(pattern) == []


def test_every_link_in_the_documents_leads_somewhere() -> None:
    """A relative link in a Markdown file names a file or folder of this checkout."""
    astray = [
        f"{name}: {target}"
        for name, text in texts().items()
        if name.endswith(".md")
        for target in LINK.findall(text)
        if not (ROOT / name).parent.joinpath(target).exists()
    ]

    assert astray == []


def test_every_test_states_its_rule() -> None:
    """Each test has a docstring."""
    silent = [
        f"{name}:{each.lineno}: {each.name}"
        for name, text in texts().items()
        if name.startswith("tests/")
        and name.endswith(".py")
        and len(TEST.findall(text)) > len(TOLD_TEST.findall(text))
        for each in rules_of(text)
        if not ast.get_docstring(each)
    ]

    assert silent == []


def test_only_end_to_end_tests_sleep() -> None:
    """A test that waits for the wall clock is slow on a good day and wrong on a bad one."""
    sleeping = [
        f"{name}:{line}"
        for name, text in texts().items()
        if re.match(r"tests/.*test_\w+\.py$", name) and "mark.end_to_end" not in text and "sleep" in text
        for line in sleeps_of(text)
    ]

    assert sleeping == []


def test_no_class_name_occurs_twice() -> None:
    """Each class of the package, nested and private ones included, has a name of its own."""
    places = defaultdict[str, list[str]](list)
    for name, place in classes_of_the_package():
        places[name].append(place)

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_names_are_conventional() -> None:
    """No class, module or package has one of the retired names."""
    classes = [
        f"{place}: {name}" for name, place in classes_of_the_package() if RETIRED.fullmatch(name.strip("_").lower())
    ]
    modules = [
        path
        for path in texts()
        if path.startswith("src/forewarn/") and any(map(RETIRED.fullmatch, path.removesuffix(".py").split("/")))
    ]

    assert classes == []
    assert modules == []


def names_in(text: str) -> Iterator[str]:
    """Yield the names of classes, functions, methods, constants and public attributes of a module."""
    bodies = [ast.parse(text).body]
    while bodies:
        for each in bodies.pop():
            match each:
                case ast.ClassDef(name=name, body=body):
                    yield name
                    bodies.append(body)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield name
                    yield from (
                        inner.attr
                        for inner in ast.walk(each)
                        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
                    )
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                    yield name


def test_nothing_is_named_by_a_word_that_is_gone() -> None:
    """Neither in the package nor in tests, benchmarks and the demo: modules, classes, functions and attributes."""
    sources = {
        path: text
        for path, text in texts().items()
        if path.endswith(".py") and path.startswith(("src/", "tests/", "bench/", "demo/", "slow/", "tools/"))
    }
    modules = [path for path in sources if GONE.fullmatch(Path(path).stem.removeprefix("test_"))]
    names = [
        f"{path}: {name}"
        for path, text in sources.items()
        if any(map(is_gone, WORD.findall(text)))
        for name in names_in(text)
        if is_gone(name)
    ]

    assert modules == []
    assert names == []
