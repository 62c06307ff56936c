"""A command as it is run, and as it is shown: the same words."""

import shlex

import msgspec


class SystemCommand(msgspec.Struct, frozen=True):
    """A program, its arguments, and what it is given to read."""

    words: tuple[str, ...]
    given: str = ""

    def __str__(self) -> str:
        """Return it as a shell would take it."""
        line = shlex.join(self.words)
        return f"{line} <<'EOF'\n{self.given}EOF" if self.given else line
