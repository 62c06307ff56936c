"""Undo log of a handler: the objects it changes, stored durably before it changes them.

A changed object is the handler's own only if it is in this log. So after a crash the handler undoes all of its own
changes, and none of others.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import msgspec

from forewarn.agent.handler import Task
from forewarn.agent.handlers.polling import polls
from forewarn.core.errors import ForewarnError
from forewarn.files import sync_directory, write_atomically

_decoder = msgspec.json.Decoder(dict[str, str])


class UndoLog:
    """The names of the objects a handler changed, with their previous state."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / "claims.json"

    def read(self) -> dict[str, str]:
        try:
            return _decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # Do not treat a damaged log as empty.
            raise OSError(f"{self._file} is damaged ({error}); check the objects it names, then delete it") from None

    def write(self, claims: dict[str, str]) -> None:
        """Replace all entries, durably."""
        if claims == self.read():
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._file.with_suffix(".new")
        with write_atomically(new) as file:
            file.write(msgspec.json.encode(claims))
        new.replace(self._file)
        sync_directory(self._directory)

    def undo(
        self, task: Task, every: timedelta, undo: Callable[[str], bool], unreachable: type[ForewarnError]
    ) -> list[str]:
        """Undo all claims; return the objects for which ``undo`` returned that they were still changed.

        After a reboot the program that owns the objects may start later than the agent: ``unreachable`` is retried
        until the deadline.
        """
        claimed = task.kept | self.read()
        undone: list[str] = []
        problem = unreachable()
        for _ in polls(task, every):
            try:
                for name in sorted(claimed):
                    if undo(name):
                        undone.append(name)
                    del claimed[name]
            except unreachable as error:
                problem = error
                continue
            finally:
                self.write(claimed)
            return undone
        raise problem
