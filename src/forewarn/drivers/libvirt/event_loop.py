"""libvirt's own event loop, in a thread: without it a connection brings no events and notices no death."""

import threading

import libvirt

_lock = threading.Lock()
_is_running = False


def run() -> None:
    """Let the loop run for the rest of the process; it must run before the first connection is opened."""
    global _is_running  # noqa: PLW0603 - libvirt has one loop for each process
    with _lock:
        if not _is_running:
            _is_running = True
            libvirt.virEventRegisterDefaultImpl()
            # libvirt would print every error beside raising it.
            libvirt.registerErrorHandler(_say_nothing, None)
            threading.Thread(target=_turn, name="libvirt", daemon=True).start()


def _turn() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def _say_nothing(context: object, error: object) -> None:
    pass
