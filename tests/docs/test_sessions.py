"""Every command that a page prints works as printed, against a real service."""

from pathlib import Path

import pytest

from tests.docs.session import Shell, read

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if "```console" in (text := path.read_text(encoding="utf-8")) and "<!-- session: cluster -->" not in text
)
"""Pages about clusters are typed by tests/deploy/test_cluster.py."""


@pytest.mark.end_to_end
@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_page_prints_works(path: Path, tmp_path: Path) -> None:
    """Typed in order into one shell, each command prints what the page says."""
    page = read(path.read_text(encoding="utf-8"))
    with Shell(tmp_path) as shell:
        for name, text in page.files.items():
            shell.write(name, text)
        if page.service == "demo":
            shell.start_demo()
        for typed in page.typed:
            shell.expect(typed)
