"""Guests are pinged from the network of their site, to see for how long they cannot be reached."""

import subprocess
import threading
from collections.abc import Iterable
from itertools import pairwise
from time import monotonic
from types import TracebackType
from typing import Self

from demo.guest_observer import GuestObservations
from demo.site import Site

_EVERY = "0.2"


class Pings:
    """Pings some guests, until it is left."""

    def __init__(self, site: Site, guests: Iterable[GuestObservations]) -> None:
        self._site = site
        self._addresses = {guest.name: guest.address for guest in guests}
        self._answers: dict[str, list[float]] = {}
        """When each was first pinged, each of its answers, and when it was last pinged."""
        self._running: list[tuple[subprocess.Popen[bytes], threading.Thread]] = []

    def __enter__(self) -> Self:
        for name, address in self._addresses.items():
            self._answers[name] = [monotonic()]
            process = self._site.begin("busybox", "ping", "-i", _EVERY, address, stdout=subprocess.PIPE)
            thread = threading.Thread(target=self._read, args=(name, process), name=f"ping {name}", daemon=True)
            thread.start()
            self._running.append((process, thread))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process, thread in self._running:
            process.kill()
            thread.join()
            with process:
                pass
        for answers in self._answers.values():
            answers.append(monotonic())

    def _read(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        for line in process.stdout or ():
            if b"bytes from" in line:
                self._answers[name].append(monotonic())

    def silence(self, name: str) -> float:
        """Return the longest time without an answer, in seconds, once the pings have ended."""
        return max(later - earlier for earlier, later in pairwise(self._answers[name]))
