"""What happens to one machine again and again."""

from datetime import UTC, datetime, timedelta

from forewarn.core.model import Observation, ObservationKind
from forewarn.node.observation_throttle import LIMIT, WINDOW, ObservationThrottle

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def seen(
    vm: str = "web-0", what: ObservationKind = ObservationKind.REBOOTED, at: datetime = NOW, detail: str = ""
) -> Observation:
    return Observation(vm, what, at, detail)


def test_a_guest_that_reboots_in_a_loop_is_recorded_some_times() -> None:
    """The last record says that it goes on; of another VM, and after a while, all is recorded again."""
    repetition = ObservationThrottle()
    admitted = [repetition.admit(seen(detail="by the guest itself")) for _ in range(1000)]

    told = [each.detail for each in admitted if each]
    assert told[:-1] == ["by the guest itself"] * (LIMIT - 1)
    assert told[-1] == "by the guest itself; it goes on like this, and is recorded again after a minute"
    assert repetition.admit(seen("web-1")) == seen("web-1")
    assert repetition.admit(seen(at=NOW + WINDOW)) == seen(at=NOW + WINDOW)


def test_what_it_is_called_makes_no_difference() -> None:
    """A guest may reboot and stop in turns."""
    repetition = ObservationThrottle()
    both = (ObservationKind.REBOOTED, ObservationKind.STOPPED)

    assert sum(repetition.admit(seen(what=both[number % 2])) is not None for number in range(100)) == LIMIT


def test_a_crash_is_always_recorded() -> None:
    """Somebody must bring the machine back."""
    repetition = ObservationThrottle()

    assert all(repetition.admit(seen(what=ObservationKind.CRASHED)) for _ in range(10 * LIMIT))


def test_a_clock_that_is_set_back_shuts_nobody_out() -> None:
    """The while begins anew."""
    repetition = ObservationThrottle()
    for _ in range(2 * LIMIT):
        repetition.admit(seen())

    assert repetition.admit(seen(at=NOW - timedelta(hours=1))) is not None


def test_machines_that_are_gone_are_forgotten() -> None:
    """However many there were."""
    repetition = ObservationThrottle()
    for number in range(10_000):
        repetition.admit(seen(f"vm-{number}"))
    repetition.admit(seen("another", at=NOW + WINDOW))

    assert len(repetition._recent) == 1
