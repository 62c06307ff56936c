"""Room that a migration under way will take is not given to another."""

from forewarn.core.placement import HostCapacity
from forewarn.drivers.libvirt.reservations import FreeCapacity, Reservation, Reservations

GIB = 1 << 30
WEB_0 = Reservation("uuid-0", "web-0", "h2", GIB, 2)
WEB_1 = Reservation("uuid-1", "web-1", "h2", GIB, 2)


def test_a_machine_that_libvirt_does_not_show_yet_takes_its_room() -> None:
    """Memory and CPUs, of what is free and of what the ratio allows."""
    assert FreeCapacity(4 * GIB, 3 * GIB, 8).after([WEB_0]) == HostCapacity(2 * GIB, 6)
    assert FreeCapacity(3 * GIB, 4 * GIB, 8).after([WEB_0, WEB_1]) == HostCapacity(GIB, 4)


def test_a_machine_that_libvirt_shows_is_counted_once() -> None:
    """Only the part of its memory that is still to come is taken from what is free."""
    half = Reservation("uuid-0", "web-0", "h2", GIB, 2, lambda: 50)
    shown = frozenset({"uuid-0"})

    assert FreeCapacity(4 * GIB, 2 * GIB, 6, shown).after([half]) == HostCapacity(2 * GIB, 6)
    assert FreeCapacity(2 * GIB, 4 * GIB, 6, shown).after([half]) == HostCapacity(3 * GIB // 2, 6)


def test_room_is_not_reserved_by_what_was_read_before_another_reservation() -> None:
    """Nor before a release: what it held may not have been shown yet when the host was asked."""
    reservations = Reservations()
    before, _ = reservations.current()

    assert reservations.reserve(WEB_0, before)
    assert not reservations.reserve(WEB_1, before)

    then, standing = reservations.current()
    assert standing == (WEB_0,)
    reservations.release("uuid-0")
    assert not reservations.reserve(WEB_1, then)
    now, standing = reservations.current()
    assert standing == ()
    assert reservations.reserve(WEB_1, now)
