"""The documents say what the code says: generated pages, links, tables, words, and all that must be described."""

import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from forewarn.agent import settings as agent_settings
from forewarn.agent.runtime import assembly
from forewarn.config import settings
from forewarn.core import event_types, facts, notice
from forewarn.core.fact import Fact
from forewarn.fleetfile import tables
from forewarn.metadata import request
from forewarn.wire import error_responses, versions
from forewarn.wire.azure_names import SOURCES, TYPES
from tools import reference

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
GENERATED = reference.generators()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

LINK = re.compile(r"\[[^\]]*\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FLAG = re.compile(r"`(--[a-z][a-z-]*)")
NOT_OURS = {"--interface"}


_Family = TypeVar("_Family")


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def table_below(page: Path, heading: str) -> list[list[str]]:
    """Return the rows of the first table below a heading."""
    _, _, rest = text(page).partition(f"\n## {heading}\n")
    rows = re.search(r"^\|.*?\|\n\|[-| ]+\|\n((?:\|.*\|\n)+)", rest, re.MULTILINE)
    assert rows, f"{named(page)} has no table below {heading!r}"
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1].splitlines()]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as they are made by those who show Markdown."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(FENCE.sub("", text(page))))
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", GENERATED, ids=named)
def test_generated_pages_are_up_to_date(page: Path) -> None:
    """What is committed is what ``make docs`` would write."""
    assert text(page) == GENERATED[page](), "run: make docs"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_to_headings(page: Path) -> None:
    """A link to a part of a page names a heading that is there."""
    astray = []
    for path, anchor in LINK.findall(FENCE.sub("", text(page))):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            astray.append(f"{path}#{anchor}")

    assert astray == []


def test_every_page_is_on_the_map() -> None:
    """From the index and the list of decisions, every page is one step away."""
    linked = {
        (page.parent / path).resolve()
        for page in (DOCS / "index.md", DOCS / "decisions" / "README.md")
        for path, _ in LINK.findall(text(page))
    }

    assert {named(page) for page in DOCS.rglob("*.md") if page.resolve() not in linked} <= {"docs/index.md"}


def test_every_flag_that_is_named_exists() -> None:
    """A page names no flag that no command has."""
    known = {flag for context in reference.contexts() for each in context.command.params for flag in each.opts}
    known |= {"--help", *NOT_OURS}
    unknown = {f"{named(page)}: {flag}" for page in PAGES for flag in FLAG.findall(text(page)) if flag not in known}

    assert unknown == set()


def test_every_refusal_is_described() -> None:
    """Each body that a VM can be given stands on the page of the protocol, with its status."""
    page = text(DOCS / "reference" / "azure.md")
    known = [each for each in vars(error_responses).values() if isinstance(each, error_responses.ErrorResponse)]
    known.append(error_responses.version_invalid(versions.SCHEDULED_EVENTS.newest))

    assert [each.body for each in known if each.body.decode() not in page or str(each.status) not in page] == []


def test_every_route_and_version_is_described() -> None:
    """Each route, and each api-version of the document, stands on the page of the protocol."""
    page = text(DOCS / "reference" / "azure.md")
    routes = [each for each in vars(request).values() if isinstance(each, request.MetadataRoute) and each.methods]

    assert len(routes) >= 3
    assert [each.path for each in routes if f"GET  {each.path}" not in page] == []
    assert [each.name for each in versions.API_VERSIONS if f"| `version-{each.name}` |" not in page] == []


def test_the_table_of_operations_is_that_of_the_rules() -> None:
    """Type, source, notice, duration and description of each operation are those that the rules announce."""
    rules = notice.Rules()
    spelled = {900: "15 min", 600: "10 min", 30: "30 s", 0: "the group's `terminate_notice`"}
    expected = []
    for operation, terms in event_types.ANNOUNCEMENTS.items():
        least = "none" if operation.is_failure else spelled[int(rules.minimum(terms.type).total_seconds())]
        row = [TYPES[terms.type], SOURCES[terms.source], least, str(terms.duration), terms.description]
        expected.append([f"`{operation}`", *row])

    assert table_below(DOCS / "how-to" / "restart-and-maintain.md", "What each operation announces") == expected


def test_a_list_of_event_types_is_complete() -> None:
    """A sentence that names all types but one has been forgotten; an agent's rule may be for some of them."""
    short = []
    for page in PAGES:
        for line in text(page).splitlines():
            named_types = [type_ for type_ in TYPES if re.search(rf"\b{type_}\b", line, re.IGNORECASE)]
            if len(named_types) == len(TYPES) - 1 and not line.startswith("types = "):
                short.append(f"{named(page)}: {line}")

    assert short == []


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("Keys of [[host]]", tables.HOST_KEYS),
        ("Keys of [[group]]", tables.GROUP_KEYS),
        ("Keys of [[vm]]", tables.VM_KEYS),
    ],
)
def test_every_key_of_the_fleet_file_is_described(heading: str, keys: dict[str, object]) -> None:
    """The tables name the keys that are read, and no others."""
    rows = table_below(DOCS / "how-to" / "describe-your-fleet.md", heading)

    assert sorted(row[0].strip("`") for row in rows) == sorted(keys)


def test_the_example_of_a_fleet_file_shows_every_key() -> None:
    """Whoever copies the example has seen all there is."""
    example = next(
        body for language, body in FENCE.findall(text(DOCS / "how-to" / "describe-your-fleet.md")) if language
    )
    shown = {key: {name for table in tables_ for name in table} for key, tables_ in tomllib.loads(example).items()}

    assert shown["vm"] == set(tables.VM_KEYS)
    assert shown["host"] == set(tables.HOST_KEYS)


TOML = [(page, body) for page in PAGES for language, body in FENCE.findall(text(page)) if language == "toml"]
IMPORT = re.compile(r"^\s*from (forewarn[\w.]*) import (.+)$", re.MULTILINE)
AGENT = re.compile(r"^\[\[rules\]\]|^\[handlers\.|^# agent\.toml", re.MULTILINE)
"""How an example of the agent's settings is known: by its tables, or because it says so."""

SETTINGS = [
    pytest.param(body, id=named(page))
    for page, body in TOML
    if not AGENT.search(body) and "[[" not in body and "[project" not in body
]


@pytest.mark.parametrize("body", SETTINGS)
def test_examples_of_settings_can_be_loaded(body: str, tmp_path: Path) -> None:
    """A forewarn.toml on a page is one that the service would take."""
    file = tmp_path / "forewarn.toml"
    file.write_text(body, encoding="utf-8")

    settings.load({}, {}, file)


@pytest.mark.parametrize(
    ("page", "body"), [pytest.param(*each, id=named(each[0])) for each in TOML if AGENT.search(each[1])]
)
def test_examples_for_the_agent_can_be_loaded(page: Path, body: str, tmp_path: Path) -> None:
    """An agent.toml on a page is one that the agent would take, with the settings of its handlers."""
    file = tmp_path / "agent.toml"
    file.write_text(body, encoding="utf-8")

    found = agent_settings.load({"state": str(tmp_path)}, {}, file)
    if page.name != "write-a-handler.md":  # its handler is the reader's own
        for handler in assembly.make_handlers(found).values():
            handler.close()


def test_examples_import_what_exists() -> None:
    """Every name that a page's Python imports from Forewarn is there."""
    imports = [
        (named(page), module, name.strip())
        for page in PAGES
        for language, body in FENCE.findall(text(page))
        if language == "python"
        for module, names in IMPORT.findall(body)
        for name in re.sub(r"[()]|#.*", "", names).split(",")
        if name.strip()
    ]

    assert len(imports) > 5
    assert [each for each in imports if not hasattr(import_module(each[1]), each[2])] == []


def test_the_complete_example_for_the_agent_shows_every_key() -> None:
    """Whoever reads it has seen all there is."""
    (example,) = (tomllib.loads(body) for _, body in TOML if body.startswith("# agent.toml, complete"))
    of_rules = {key for rule in example.pop("rules") for key in rule}
    of_handlers = {key for handler in example.pop("handlers").values() for key in handler}

    assert set(example) == set(agent_settings.KEYS)
    assert of_rules == set(agent_settings.RULE_KEYS)
    assert of_handlers >= set(agent_settings.TERM_KEYS)


def test_every_dependency_has_its_reason() -> None:
    """What pyproject.toml asks for is spoken of in the decisions."""
    pages = "".join(text(page) for page in (DOCS / "decisions").glob("*.md")).lower()
    project = PROJECT["project"]
    asked = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]

    assert [name for name in (re.split(r"[^\w.-]", each)[0] for each in asked) if name not in pages] == []


def test_what_holds_a_promise_is_there() -> None:
    """The tests that the page on the architecture names exist."""
    held = re.findall(r"\| `(tests/[^`]+)` \|", text(DOCS / "architecture.md"))

    assert len(held) > 10
    assert [path for path in held if not (ROOT / path).is_file()] == []


def test_what_is_to_be_changed_is_there() -> None:
    """Every file and directory that the page on changes names exists."""
    paths = re.findall(r"`([\w./-]*[/.][\w./-]*)`", text(DOCS / "where-to-change-what.md"))
    named_paths = [path for path in paths if not path.startswith("forewarn.")]

    assert len(named_paths) > 50
    assert [path for path in named_paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "addition", ["event type", "api-version", "driver", "handler", "command", "journal", "setting", "metric"]
)
def test_every_usual_addition_has_its_files(addition: str) -> None:
    """The page on changes has a section for it that names files of the package and of the tests."""
    article = "An" if addition[0] in "ae" else "A"
    _, _, rest = text(DOCS / "where-to-change-what.md").partition(f"\n## {article} {addition}\n")
    section, _, _ = rest.partition("\n## ")

    assert "`src/forewarn/" in section
    assert "`tests/" in section


def test_the_tree_is_the_one_that_is_there() -> None:
    """The page on the architecture shows every directory, and names no module that is not there."""
    (drawn,) = (body for _, body in FENCE.findall(text(DOCS / "architecture.md")) if body.startswith("src/forewarn/"))
    source = ROOT / "src" / "forewarn"
    shown, path = set[Path](), [source]
    for line in drawn.splitlines()[1:]:
        place, *_, modules = re.split(r"  +", line.strip())
        folder = source
        if place.endswith("/"):
            depth = (len(line) - len(line.lstrip())) // 2
            folder = path[depth - 1] / place
            path = [*path[:depth], folder]
            shown.add(folder)
        else:
            modules = place
        names = [] if modules.startswith("...") else modules.split(",")[0].split()
        assert [name for name in names if not (folder / f"{name}.py").is_file()] == []

    assert shown == {each for each in source.rglob("*") if each.is_dir() and each.name != "__pycache__"}


def test_the_layers_are_those_of_the_contract() -> None:
    """The page on the architecture draws the layers that the import contract holds."""
    (drawn,) = (body for _, body in FENCE.findall(text(DOCS / "architecture.md")) if body.startswith("__main__"))
    contract = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    existing = [
        " | ".join(name for name in re.findall(r"\w+", layer) if list((ROOT / "src/forewarn").glob(f"{name}*")))
        for layer in contract
    ]

    assert [re.split(r"  +", line)[0] for line in drawn.splitlines()] == [layer for layer in existing if layer]


def _members(family: type[_Family]) -> Iterator[type[_Family]]:
    yield family
    for each in family.__subclasses__():
        yield from _members(each)


def test_every_fact_and_field_is_described() -> None:
    """Nothing stands in the journal that the page of facts does not tell."""
    page = text(DOCS / "reference" / "facts.md")
    known = [each for each in _members(Fact) if each not in (Fact, facts.EventStep)]

    assert [each.__name__ for each in known if f"\n## {each.__struct_config__.tag}\n" not in page] == []
    names = {field.encode_name for each in known for field in msgspec.structs.fields(each)}
    assert [name for name in names if f"- `{name}`: " not in page] == []


def test_the_readme_stays_short() -> None:
    """Whoever comes first reads two screens."""
    assert len(text(ROOT / "README.md").splitlines()) <= 120
