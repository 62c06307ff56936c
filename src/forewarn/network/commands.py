"""A system command, as it is run and as it is shown."""

import shlex

import msgspec


class SystemCommand(msgspec.Struct, frozen=True):
    """A program, its arguments, and its stdin."""

    words: tuple[str, ...]
    given: str = ""

    def __str__(self) -> str:
        """Return the command as a shell would accept it."""
        line = shlex.join(self.words)
        return f"{line} <<'EOF'\n{self.given}EOF" if self.given else line
