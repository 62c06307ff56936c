"""No more migrations run at once than were allowed."""

import threading

import pytest

from forewarn.drivers.executor import WorkInterrupted
from forewarn.drivers.migration_slots import MigrationSlots


def test_who_finds_no_slot_waits_and_says_so() -> None:
    """The next one begins when another has ended."""
    slots, closing, begun = MigrationSlots(1), threading.Event(), threading.Event()
    said: list[str] = []

    def second() -> None:
        with slots.taken(closing, said.append):
            begun.set()

    thread = threading.Thread(target=second)
    with slots.taken(closing, said.append):
        thread.start()
        assert not begun.wait(0.2)
    thread.join(10)

    assert begun.is_set()
    assert said == ["waiting for other migrations to end"]


def test_closing_the_driver_ends_the_wait() -> None:
    """What waits is done after the next start, and gives back nothing that it did not take."""
    slots, closing = MigrationSlots(1), threading.Event()
    closing.set()
    with slots.taken(closing, print), pytest.raises(WorkInterrupted), slots.taken(closing, print):
        pass
    with slots.taken(closing, print):
        pass
