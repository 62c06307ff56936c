"""What the demo makes of what it sees: gaps of clocks, pauses by QEMU's account, where a guest stands."""

from demo.guest_observer import GuestObservations


def guest() -> GuestObservations:
    return GuestObservations("web-0", "10.0.0.10", 0)


def clock(seen: GuestObservations, at: float, uptime: float, *, boot: str = "a", host: str = "h1") -> None:
    seen.hear_console(host, f"@ clock {uptime} {boot}", at)


def qemu(seen: GuestObservations, event: str, at: float = 0, host: str = "h1") -> None:
    seconds, rest = divmod(at, 1)
    seen.hear_qemu(host, {"event": event, "timestamp": {"seconds": int(seconds), "microseconds": round(rest * 1e6)}})


def test_a_gap_is_what_the_clock_fell_behind() -> None:
    """Words that came late count for nothing: the fastest before is held against the fastest after."""
    seen = guest()
    for at, uptime in ((100.3, 1), (101.0, 2), (102.2, 3), (108.4, 4), (109.1, 5), (110.0, 6)):
        clock(seen, at, uptime)

    assert abs(seen.behind(105) - 5.0) < 1e-6


def test_a_gap_is_of_one_boot() -> None:
    """A reboot sets the clock back; that is no gap."""
    seen = guest()
    for at, uptime, boot in ((100, 50, "a"), (110, 1, "b"), (111, 2, "b"), (115, 3, "b")):
        clock(seen, at, uptime, boot=boot)

    assert seen.behind(112) == 0
    assert seen.boots == ["a", "b"]


def test_a_pause_lasts_from_stop_to_resume() -> None:
    """QEMU's own times count; in between the guest is frozen, whatever is still read of it."""
    seen = guest()
    clock(seen, 100, 1)
    qemu(seen, "STOP", 100.5)
    clock(seen, 100.6, 1.5)
    assert seen.state == "frozen"

    qemu(seen, "RESUME", 103.5)

    assert (seen.state, seen.pauses) == ("running", [(100.5, 103.5)])


def test_a_reboot_is_no_freeze() -> None:
    """A guest that was reset boots until it tells of another boot id."""
    seen = guest()
    clock(seen, 100, 1)
    states = []
    for event in ("POWERDOWN", "STOP", "RESET", "RESUME"):
        qemu(seen, event, 101)
        states.append(seen.state)
    clock(seen, 102, 1.5)
    states.append(seen.state)
    clock(seen, 105, 1, boot="b")

    assert states == ["shutting down", "shutting down", "booting", "booting", "booting"]
    assert seen.state == "running"


def test_a_guest_that_moved_outlives_the_machine_it_left() -> None:
    """The source stops and ends, the target goes on: one guest, one short pause."""
    seen = guest()
    clock(seen, 100, 1)
    seen.state = "moving"
    qemu(seen, "STOP", 100.5)
    qemu(seen, "RESUME", 100.75, host="h2")
    qemu(seen, "SHUTDOWN", 101)
    seen.hear_qemu("h1", None)

    assert (seen.host, seen.state, seen.pauses) == ("h2", "running", [(100.5, 100.75)])

    seen.hear_qemu("h2", None)

    assert seen.state == "ended"


def test_a_guest_tells_what_it_reads_once() -> None:
    """An event is told when it is first read, and that it is over to whom it was meant for."""
    seen = guest()
    event = '{"EventId":"%s","EventType":"Freeze","Resources":["%s"]}'
    documents = ("", event % ("E1", "web-0"), event % ("E1", "web-0") + "," + event % ("E2", "web-1"), "")
    result = [
        seen.hear_console("h1", f'@ events {{"Events":[{each}]}}', 100 + at) for at, each in enumerate(documents)
    ]

    assert result == [
        "I am answered: nothing is coming",
        "I read: Freeze for me",
        "I read: Freeze for web-1",
        "it is over",
    ]
    assert seen.read == {"E1": 101, "E2": 102}
