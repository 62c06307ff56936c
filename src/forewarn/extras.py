"""Optional parts of the package: whether what an extra such as ``server`` brings is installed."""

import re
from importlib.metadata import PackageNotFoundError, distribution, requires

from forewarn.core.errors import BadInput

_PACKAGE = "forewarn"


def missing(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed; those that only some systems have are left out."""
    try:
        asked = requires(_PACKAGE) or []
    except PackageNotFoundError:
        return []  # it runs from a directory, and whoever put it there knows what it needs
    mark = re.compile(rf"""([\w.-]+)[^;]*; *extra *== *['"]{extra}['"]""")
    found = (match[1] for each in asked if (match := mark.fullmatch(each)))
    return [name for name in found if not _is_installed(name)]


def advice(extra: str, missing: list[str]) -> str:
    """Say how what is missing is installed."""
    return f"not installed: {', '.join(missing)}; install what it needs with: pip install '{_PACKAGE}[{extra}]'"


def require(extra: str, what: str) -> None:
    """Raise BadInput, with the line that installs it, unless all of an extra is there."""
    if lacking := missing(extra):
        raise BadInput(f"{what} needs packages that are {advice(extra, lacking)}")


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
