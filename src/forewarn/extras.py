"""Optional dependencies: whether the packages of an extra such as ``server`` are installed."""

import re
from importlib.metadata import PackageNotFoundError, distribution, requires

from forewarn.core.errors import BadInput

_PACKAGE = "forewarn"


def missing(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed; packages with other environment markers are ignored."""
    try:
        asked = requires(_PACKAGE) or []
    except PackageNotFoundError:
        return []  # runs from a source directory without package metadata
    mark = re.compile(rf"""([\w.-]+)[^;]*; *extra *== *['"]{extra}['"]""")
    found = (match[1] for each in asked if (match := mark.fullmatch(each)))
    return [name for name in found if not _is_installed(name)]


def advice(extra: str, missing: list[str]) -> str:
    """Return how to install the missing packages."""
    return f"not installed: {', '.join(missing)}; install what it needs with: pip install '{_PACKAGE}[{extra}]'"


def require(extra: str, what: str) -> None:
    """Raise BadInput with the install command unless all packages of an extra are installed."""
    if lacking := missing(extra):
        raise BadInput(f"{what} needs packages that are {advice(extra, lacking)}")


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
