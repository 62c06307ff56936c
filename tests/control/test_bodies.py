"""Bodies of the control API: programs find each of them in one module, whatever file it is in."""

import importlib
import inspect
from pathlib import Path

import msgspec
import pytest

from forewarn.control import bodies

NAMES = Path(__file__).with_name("body_names.txt").read_text(encoding="utf-8").split()
"""What is promised. A name that leaves the list breaks programs of others; CHANGELOG.md must say so."""


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_promised_is_there(name: str) -> None:
    """A record says what it is."""
    found = getattr(bodies, name)

    assert not inspect.isclass(found) or not issubclass(found, msgspec.Struct) or found.__doc__


@pytest.mark.parametrize("file", sorted(path.stem for path in Path(bodies.__file__).parent.glob("[a-z]*.py")))
def test_every_record_is_promised(file: str) -> None:
    """One that is added to any file of the package can be imported from the package."""
    module = importlib.import_module(f"{bodies.__name__}.{file}")
    own = {name: found for name, found in vars(module).items() if getattr(found, "__module__", "") == module.__name__}
    public = {name: found for name, found in own.items() if not name.startswith("_")}

    assert public
    assert {*public} <= {*NAMES}
    assert {name: getattr(bodies, name) for name in public} == public
