"""Notifications to the service manager (sd_notify); without a service manager they do nothing."""

import asyncio
import os
import socket
import time
from collections.abc import Callable, MutableMapping
from contextlib import suppress

SOCKET = "NOTIFY_SOCKET"
PERIOD = "WATCHDOG_USEC"
WATCHED = "WATCHDOG_PID"


class SystemdNotifier:
    """Sends to the socket of the service manager, if there is one.

    The event loop sends watchdog pings at twice the required rate: they stop when the loop hangs, and while
    ``is_alive`` returns False.
    """

    def __init__(self, address: str, period: float) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.period = period
        """Watchdog interval in seconds; 0 without a watchdog."""
        self._next: asyncio.TimerHandle | None = None
        self._is_alive: Callable[[], bool] = lambda: True

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str]) -> "SystemdNotifier":
        """Read the variables and remove them from ``environment``: child processes must not use them."""
        address = environment.pop(SOCKET, "")
        period = environment.pop(PERIOD, "")
        watched = environment.pop(WATCHED, "")
        is_watched = period.isdecimal() and watched in ("", str(os.getpid()))
        return cls(address, int(period) / 1_000_000 if is_watched else 0.0)

    def ready(self, status: str = "", is_alive: Callable[[], bool] | None = None) -> None:
        """Report that the process is ready; start watchdog pings."""
        self._is_alive = is_alive or self._is_alive
        self._send("READY=1", *_status(status))
        if self.period and self._next is None:
            self._ping()

    def reloading(self) -> None:
        """Report that the configuration is being reloaded; ``ready`` ends this."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def status(self, text: str) -> None:
        """Set the status line that ``systemctl status`` shows."""
        self._send(*_status(text))

    def stopping(self) -> None:
        """Report that the process is stopping; stop watchdog pings."""
        self._send("STOPPING=1")
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _ping(self) -> None:
        if self._is_alive():
            self._send("WATCHDOG=1")
        self._next = asyncio.get_running_loop().call_later(self.period / 2, self._ping)

    def _send(self, *lines: str) -> None:
        if not self._address or not lines or not hasattr(socket, "AF_UNIX"):
            return
        # A service manager that does not read must not disturb the process.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            channel.sendto("\n".join(lines).encode(errors="replace"), self._address)


def _status(text: str) -> tuple[str, ...]:
    return (f"STATUS={' '.join(text.split())}",) if text else ()
