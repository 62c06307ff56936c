"""Monitors of machines that exist only in a table, for tests of the order of commands."""

from pathlib import Path
from typing import Any

from forewarn.drivers.qemu.machines import GONE
from forewarn.drivers.qemu.monitors import MonitorAbsent, Monitors

_BECOMES = {"stop": "paused", "cont": "running", "quit": GONE}


class ScriptedMonitors(Monitors):
    """Machines by the path of their monitor; one that is not named is gone."""

    def __init__(self, **statuses: str) -> None:
        """``statuses``: QEMU's run state by the name of the socket, without its ending."""
        self.statuses = statuses
        self.replies: dict[str, Any] = {}
        """What a machine answers to each command; nothing, unless it is said here."""
        self.executed: list[tuple[str, str, dict[str, object]]] = []
        """Every command that changes something: of which machine, its name, its arguments."""

    @property
    def events_received(self) -> int:
        return 0

    def await_message(self, since: int, seconds: float) -> None:
        raise AssertionError("nothing is said by machines of a table")

    def execute(self, path: Path, command: str, **arguments: object) -> Any:
        name = path.stem
        status = self.statuses.get(name, GONE)
        if status == GONE:
            raise MonitorAbsent(f"there is no machine at {path}")
        if command == "query-status":
            return {"status": status}
        if not command.startswith("query-"):
            self.executed.append((name, command, arguments))
            self.statuses[name] = _BECOMES.get(command, status)
        return self.replies.get(command, {})

    def await_end(self, path: Path, seconds: float) -> bool:
        return self.statuses.get(path.stem, GONE) == GONE
