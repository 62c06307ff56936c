"""Runs a client under test as a process, with an emulator as its endpoint and a proxy that it must not use."""

import os
import shlex
import signal
import socketserver
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from forewarn.conformance.checks import NotObserved
from forewarn.core.errors import BadInput
from forewarn.emulator import Emulator
from forewarn.emulator.faults import Fault
from forewarn.emulator.handles import EventHandle
from forewarn.emulator.requests import SentRequest
from forewarn.testing.scheduled_events import URL_VARIABLE

OWN, NEIGHBOUR = "web-0", "web-1"
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_NO_PROXIES = ("no_proxy", "NO_PROXY")
_GRACE = 2.0
_SLICE = 0.1
"""Seconds between checks whether the client still runs."""


class ProxyTrap(socketserver.TCPServer):
    """A proxy that counts connections and answers none."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.callers = 0
        self._thread = threading.Thread(target=self.serve_forever, args=(_SLICE,), daemon=True)
        self._thread.start()

    def verify_request(self, request: object, client_address: object) -> bool:
        self.callers += 1
        return False

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class ClientProcess:
    """A running client, and its observed behaviour.

    It acts as the VM ``web-0``. In its command, ``{url}``, ``{vm}`` and ``{prepared}`` are replaced by the URL of the
    document, the name of its VM, and the file that it creates when it has prepared for an event.
    """

    def __init__(
        self,
        command: str,
        *,
        patience: float,
        faults: tuple[Fault, ...] = (),
        has_proxy: bool = False,
        does_approve: bool = False,
    ) -> None:
        self.patience = patience
        self.does_approve = does_approve
        """Whether it is known to approve events, so that an event without approval was not noticed."""
        self._command = command
        self._has_proxy = has_proxy
        self.emulator = Emulator(OWN, NEIGHBOUR, clock="system", faults=faults)
        self.trap = ProxyTrap()
        self._folder = tempfile.TemporaryDirectory(prefix="forewarn-client-")
        self.prepared = Path(self._folder.name) / "prepared"
        self._output = (Path(self._folder.name) / "output").open("w+b")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.emulator.start()
        try:
            self._process = self._start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._close()

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll() if self._process else None

    @property
    def last_words(self) -> str:
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"

    @property
    def requests(self) -> list[SentRequest]:
        return [each for each in self.emulator.requests if each.vm == OWN]

    @property
    def polls(self) -> list[SentRequest]:
        """Its requests for the document."""
        return [each for each in self.requests if each.method == "GET" and "scheduledevents" in each.path.lower()]

    def approvals(self, event: EventHandle) -> list[SentRequest]:
        return [each for each in self.requests if event.id in each.approves]

    def approves(self, event: EventHandle, times: int = 1) -> bool:
        """Return whether it approves the event within ``patience`` and before it ends."""
        self._wait(lambda: len(self.approvals(event)) >= times)
        return len(self.approvals(event)) >= times

    def asks(self, times: int = 1) -> bool:
        """Return whether it requests the document so many times more.

        A long poll counts once a second, like polling.
        """
        known, since = len(self.polls), time.monotonic()

        def is_enough() -> bool:
            polls = self.polls
            is_held = bool(polls) and not polls[-1].status and not polls[-1].faults
            held = int(time.monotonic() - since) if is_held else 0
            return len(polls) - known + held >= times

        self._wait(is_enough)
        return is_enough()

    def require(self, times: int = 1) -> None:
        """Raise NotObserved unless it requests the document."""
        if not self.asks(times):
            raise NotObserved(f"the client did not request the document within {self.patience:g} s; {self.state}")

    def pass_time(self, step: str) -> None:
        """Advance the clock; the client is stopped meanwhile, because advancing by days takes a moment."""
        self._have("SIGSTOP")
        try:
            self.emulator.advance(step)
        finally:
            self._have("SIGCONT")

    def _have(self, how: str) -> None:
        if self._process is not None and hasattr(signal, how):  # Windows cannot stop a process
            _signal(self._process, how)

    @property
    def state(self) -> str:
        if self.exit_code is None:
            return "it runs"
        return f"it ended with {self.exit_code}: {self.last_words}"

    def _wait(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + self.patience
        while not self.emulator.wait_for(holds, _SLICE):
            if self.exit_code is not None or time.monotonic() > end:
                return

    def _start(self) -> "subprocess.Popen[bytes]":
        url = f"{self.emulator.url_of(OWN)}/metadata/scheduledevents"
        words = {"{url}": url, "{vm}": OWN, "{prepared}": str(self.prepared)}
        environment = {name: value for name, value in os.environ.items() if name not in _PROXIES + _NO_PROXIES}
        environment |= {URL_VARIABLE: url}
        if self._has_proxy:
            environment |= dict.fromkeys(_PROXIES, self.trap.url)
        try:
            return subprocess.Popen(  # noqa: S603 - the user's own
                [_filled(part, words) for part in shlex.split(self._command)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                # Its child processes end with it.
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise BadInput(f"the client {self._command!r} cannot be run: {error}") from None

    def _end(self) -> None:
        if self._process is None:
            return
        for how in ("SIGTERM", "SIGKILL"):
            _signal(self._process, how)
            try:
                self._process.wait(_GRACE)
                break
            except subprocess.TimeoutExpired:
                continue

    def _close(self) -> None:
        self.emulator.stop()
        self.trap.close()
        self._output.close()
        self._folder.cleanup()


def _filled(part: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        part = part.replace(word, value)
    return part


def _signal(process: "subprocess.Popen[bytes]", how: str) -> None:
    """Send a signal to the process group; without process groups, to the process."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, getattr(signal, how))
        except ProcessLookupError:
            return
    else:
        process.kill()
