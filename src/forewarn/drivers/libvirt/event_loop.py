"""libvirt's event loop in a thread: without it a connection receives no events and does not detect its end."""

import threading

import libvirt

_lock = threading.Lock()
_is_running = False


def run() -> None:
    """Run the loop for the rest of the process; it must run before the first connection is opened."""
    global _is_running  # noqa: PLW0603 - libvirt has one loop for each process
    with _lock:
        if not _is_running:
            _is_running = True
            libvirt.virEventRegisterDefaultImpl()
            # libvirt prints every error beside raising it; suppress that.
            libvirt.registerErrorHandler(_ignore_error, None)
            threading.Thread(target=_run_loop, name="libvirt", daemon=True).start()


def _run_loop() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def _ignore_error(context: object, error: object) -> None:
    pass
