"""The programs that the guides for plugin authors print."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from tests.docs.session import read

_GUIDES = Path(__file__).parents[2] / "docs" / "how-to"


@contextmanager
def printed_module(guide: str, name: str, directory: Path) -> Iterator[ModuleType]:
    """Import a module as a guide prints it."""
    path = directory / f"{name}.py"
    path.write_text(read((_GUIDES / guide).read_text(encoding="utf-8")).files[path.name], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[name]
