"""Waiting for what machines say, and what is said of a monitor that hangs up."""

import socket
import threading
from pathlib import Path
from time import monotonic

import pytest

from forewarn.drivers.qemu.monitors import MonitorDead, Monitors


def test_a_word_that_was_said_meanwhile_is_not_waited_for() -> None:
    """Nothing is missed between a look at a machine and the wait that follows it."""
    monitors = Monitors(lambda *_: None)
    began = monotonic()
    monitors.await_message(monitors.events_received - 1, 60)

    assert monotonic() - began < 30
    monitors.close()


def test_a_monitor_that_hangs_up_before_it_greets_is_that_of_a_dead_process(tmp_path: Path) -> None:
    """Its process ended while it was being asked."""
    monitors = Monitors(lambda *_: None)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/web-0.qmp")
        listener.listen()

        def hang_up() -> None:
            listener.accept()[0].close()

        hanging_up = threading.Thread(target=hang_up)
        hanging_up.start()
        with pytest.raises(MonitorDead, match=r"refuses connections: its process has ended$"):
            monitors.open(tmp_path / "web-0.qmp")
        hanging_up.join()
    monitors.close()
