"""Waiting for what machines say."""

from time import monotonic

from forewarn.drivers.qemu.monitors import Monitors


def test_a_word_that_was_said_meanwhile_is_not_waited_for() -> None:
    """Nothing is missed between a look at a machine and the wait that follows it."""
    monitors = Monitors(lambda *_: None)
    began = monotonic()
    monitors.await_message(monitors.events_received - 1, 60)

    assert monotonic() - began < 30
    monitors.close()
