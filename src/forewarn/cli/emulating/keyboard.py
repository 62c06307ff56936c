"""Reads single key presses from the terminal."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_POLL_INTERVAL = 0.1


@contextmanager
def listening(pressed: Callable[[str], None]) -> Iterator[None]:
    """Call ``pressed`` with every key, from a thread, until the block ends."""
    stopping = threading.Event()
    reader = threading.Thread(target=_read, args=(pressed, stopping), name="keyboard", daemon=True)
    with _unbuffered():
        reader.start()
        try:
            yield
        finally:
            stopping.set()
            reader.join()


def _read(pressed: Callable[[str], None], stopping: threading.Event) -> None:
    while not stopping.is_set():
        keys = _next_keys()
        # Special keys send escape sequences, which are ignored.
        for key in keys if not keys.startswith(("\x1b", "\xe0", "\0")) else "":
            pressed(key)


if sys.platform == "win32":

    @contextmanager
    def _unbuffered() -> Iterator[None]:
        yield  # the Windows console returns single keys anyway

    def _next_keys() -> str:
        import msvcrt
        import time

        if msvcrt.kbhit():
            first = msvcrt.getwch()
            return first + msvcrt.getwch() if first in "\xe0\0" else first
        time.sleep(_POLL_INTERVAL)
        return ""

else:

    @contextmanager
    def _unbuffered() -> Iterator[None]:
        import termios
        import tty

        before = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

    def _next_keys() -> str:
        import os
        import select

        ready, _, _ = select.select([sys.stdin], [], [], _POLL_INTERVAL)
        if not ready:
            return ""
        return os.read(sys.stdin.fileno(), 16).decode(errors="replace")
