"""The monitor of a QEMU process (QMP), spoken to as plainly as can be: one socket, one line for each thing said."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_PATIENCE = 60.0


class Monitor:
    """One conversation with a machine."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_PATIENCE)
        self._socket.connect(str(path))
        self._lines: Iterator[bytes] = self._socket.makefile("rb")
        self._events: list[dict[str, Any]] = []
        next(self._lines)
        self.execute("qmp_capabilities")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def execute(self, command: str, **arguments: object) -> Any:  # noqa: ANN401 QMP answers anything
        """Have the machine do something, and return its answer."""
        self._socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        for line in self._lines:
            said = json.loads(line)
            if "event" in said:
                self._events.append(said)
            elif "error" in said:
                raise SystemExit(f"QEMU refuses {command}: {said['error']['desc']}")
            else:
                return said["return"]
        raise SystemExit(f"QEMU hung up on {command}.")

    def wait_for(self, event: str) -> float:
        """Wait until the machine says that; return when it happened, by QEMU's own stamp."""
        while True:
            while self._events:
                said = self._events.pop(0)
                if said["event"] == event:
                    return float(said["timestamp"]["seconds"] + said["timestamp"]["microseconds"] / 1e6)
            self._events.append(json.loads(next(self._lines)))
