"""Optional parts of the package: what is missing is named, with the line that installs it."""

from importlib.metadata import PackageNotFoundError

import pytest

from forewarn import extras
from forewarn.core.errors import BadInput

ASKED = [
    "click>=8.2",
    "there>=1; extra == 'server'",
    'missing.part>=2.25; extra == "server"',
    "only-here>=1; platform_system != 'Windows' and extra == 'server'",
    "other>=1; extra == 'qemu'",
]


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def distribution(name: str) -> str:
        if name != "there":
            raise PackageNotFoundError(name)
        return name

    monkeypatch.setattr(extras, "requires", lambda _: ASKED)
    monkeypatch.setattr(extras, "distribution", distribution)


@pytest.mark.usefixtures("_installed")
def test_what_is_missing_is_named_with_its_remedy() -> None:
    """Only what the extra always asks for: the rest has a substitute."""
    assert extras.missing("server") == ["missing.part"]
    with pytest.raises(BadInput, match=r"not installed: missing\.part; .*pip install 'forewarn\[server\]'"):
        extras.require("server", "the service")


def test_where_all_is_there_nothing_is_said() -> None:
    """As in the environment of these tests."""
    extras.require("server", "the service")


def test_without_an_installed_package_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory on the path has no list of what it needs."""

    def requires(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "requires", requires)

    assert extras.missing("server") == []
