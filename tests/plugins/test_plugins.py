"""The interface for plugin authors: its names are those of the list, and pages and examples use nothing else."""

import ast
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES: dict[str, list[str]] = json.loads(Path(__file__).with_name("names.json").read_text(encoding="utf-8"))
"""What is promised. A name that leaves it breaks plugins of others; CHANGELOG.md must say so."""
GUIDES = sorted((ROOT / "docs" / "how-to").glob("write-a-*.md"))
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PUBLIC = ("forewarn.plugins.", "forewarn.testing.")
STABLE = {
    "forewarn",
    "forewarn.agent.subscriber",
    "forewarn.client.names",
    "forewarn.control.bodies",
    "forewarn.control.client",
    "forewarn.emulator",
}
"""Modules for other programs than plugins; docs/architecture.md names them."""


def imports_in(page: Path) -> Iterator[tuple[str, str]]:
    """Yield what the Python on a page imports from Forewarn: module and name."""
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        if re.search(r"^(?:from|import) ", block, re.MULTILINE):  # others are fragments
            for each in ast.walk(ast.parse(block)):
                match each:
                    case ast.ImportFrom(module=str(module), names=names) if module.startswith("forewarn"):
                        yield from ((module, alias.name) for alias in names)
                    case ast.Import(names=names):
                        yield from ((alias.name, "") for alias in names if alias.name.startswith("forewarn"))


def test_every_module_for_authors_is_on_the_list() -> None:
    """A module that is added is promised, too."""
    modules = (ROOT / "src" / "forewarn" / "plugins").glob("[a-z]*.py")

    assert {f"forewarn.plugins.{path.stem}" for path in modules} == set(NAMES)


@pytest.mark.parametrize("module", NAMES)
def test_a_module_has_the_names_of_the_list(module: str) -> None:
    """Exactly those, each of them there."""
    found = importlib.import_module(module)

    assert sorted(found.__all__) == NAMES[module]
    assert [name for name in NAMES[module] if not hasattr(found, name)] == []


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_imports_the_public_interface_only(page: Path) -> None:
    """Whoever copies an example depends on nothing that may change."""
    imported = list(imports_in(page))

    assert [each for each in imported if not f"{each[0]}.".startswith(PUBLIC)] == []
    assert [(module, name) for module, name in imported if name not in NAMES.get(module, [name])] == []
    assert imported or page.stem == "write-a-client"


def test_pages_and_files_to_deploy_import_stable_modules_only() -> None:
    """A program that is copied from any page depends on nothing that may change, and finds every name."""
    imported = {each for page in PAGES for each in imports_in(page)}
    for path in (ROOT / "deploy").rglob("*"):
        if path.is_file():
            found = re.findall(
                r"from (forewarn[\w.]*) import (\w+)", path.read_text(encoding="utf-8", errors="replace")
            )
            imported.update(found)

    assert sorted(each for each in imported if each[0] not in STABLE and not f"{each[0]}.".startswith(PUBLIC)) == []
    assert {module for module, _ in imported} >= STABLE
    for module, name in imported:
        assert not name or hasattr(importlib.import_module(module), name), (module, name)


def test_the_architecture_names_the_stable_modules() -> None:
    """So that a reader knows what may change."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

    assert [module for module in sorted(STABLE) if f"`{module}`" not in page] == []


@pytest.mark.parametrize("kind", ["driver", "handler"])
def test_a_guide_names_only_what_is_there(kind: str) -> None:
    """Each outcome that a guide speaks of can be imported."""
    page = (ROOT / "docs" / "how-to" / f"write-a-{kind}.md").read_text(encoding="utf-8")
    spoken = set(re.findall(r"`((?:Impact|Handler)[A-Z]\w+)", page))

    assert len(spoken) >= 2
    assert spoken <= set(NAMES[f"forewarn.plugins.{kind}s"])
