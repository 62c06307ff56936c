"""What a page of docs/handlers prints, for the tests that hold it to the code."""

import re
import tomllib
from pathlib import Path

import msgspec

from forewarn.agent.handler import HandlerType
from forewarn.agent.settings import TERM_KEYS

_DOCS = Path(__file__).parents[3] / "docs/handlers"


class HandlerPage:
    """One handler's page."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.text = (_DOCS / f"{kind}.md").read_text(encoding="utf-8")

    def assert_names_settings(self, record: type[msgspec.Struct]) -> None:
        """The table of settings is the record of settings, in its order."""
        rows = re.findall(r"^\| `([a-z_]+)` \|", self.text, re.MULTILINE)

        assert rows == [field.name for field in msgspec.structs.fields(record)]

    def assert_examples_are_understood(self, handler: HandlerType, directory: Path) -> None:
        """Every handler of this kind that agent.toml has there can be made."""
        tables = [
            table
            for block in re.findall(r"^```toml\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
            for table in tomllib.loads(block).get("handlers", {}).values()
            if table["kind"] == self._kind
        ]
        assert tables
        for table in tables:
            own = {key: value for key, value in table.items() if key not in TERM_KEYS}
            handler.from_settings(own, directory).close()
