"""How the agent tells systemd that it is ready, alive, and stopping; elsewhere it tells nobody."""

import asyncio
import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress

SOCKET = "NOTIFY_SOCKET"
PERIOD = "WATCHDOG_USEC"
WATCHED = "WATCHDOG_PID"


class Notifier:
    """Speaks to the socket that the service manager named, if it named one.

    Signs of life are given by the event loop itself, at twice the pace that is asked for, so that they stop when it
    hangs.
    """

    def __init__(self, address: str, period: float) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._period = period
        self._next: asyncio.TimerHandle | None = None

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str]) -> "Notifier":
        """Read where to speak, and take it out of ``environment``: what handlers start does not speak for us."""
        address = environment.pop(SOCKET, "")
        period = environment.pop(PERIOD, "")
        watched = environment.pop(WATCHED, "")
        is_watched = period.isdigit() and watched in ("", str(os.getpid()))
        return cls(address, int(period) / 1_000_000 if is_watched else 0.0)

    def ready(self, status: str = "") -> None:
        """Say that the agent does its work, and from now on that it lives."""
        self._send("READY=1", *_status(status))
        if self._period and self._next is None:
            self._beat()

    def status(self, text: str) -> None:
        """Say in a line what the agent does; ``systemctl status`` shows it."""
        self._send(*_status(text))

    def stopping(self) -> None:
        """Say that the agent ends of its own accord; it may take as long as the unit gives it."""
        self._send("STOPPING=1")
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _beat(self) -> None:
        self._send("WATCHDOG=1")
        self._next = asyncio.get_running_loop().call_later(self._period / 2, self._beat)

    def _send(self, *lines: str) -> None:
        if not self._address or not lines or not hasattr(socket, "AF_UNIX"):
            return
        # A service manager that does not listen is no reason to do the agent's work worse.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
            speaker.setblocking(False)
            speaker.sendto("\n".join(lines).encode(), self._address)


def _status(text: str) -> tuple[str, ...]:
    return (f"STATUS={' '.join(text.split())}",) if text else ()
