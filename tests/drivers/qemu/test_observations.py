"""What QEMU says unasked becomes observations, each thing once."""

from pathlib import Path
from typing import Any

from forewarn.clocks import ManualClock
from forewarn.core.model import Observation, ObservationKind
from forewarn.drivers.qemu import settings
from forewarn.drivers.qemu.observations import MonitorObserver

WEB_0 = Path("/run/forewarn/web-0.qmp")
WEB_1 = Path("/run/forewarn/web-1.qmp")


class ObservationHarness:
    """What was seen so far."""

    def __init__(self) -> None:
        self.seen: list[Observation] = []
        self.observer = MonitorObserver(settings.read({"qmp": "/run/forewarn/{vm}.qmp"}), ManualClock())
        self.observer.report = self.seen.append

    def handle_message(self, *said: dict[str, Any] | None, path: Path = WEB_0) -> list[tuple[str, ObservationKind]]:
        for each in said:
            self.observer.handle_message(path, each)
        return [(each.vm, each.what) for each in self.seen]


def event(name: str, reason: str = "") -> dict[str, Any]:
    return {"event": name, "data": {"guest": reason.startswith("guest"), "reason": reason}}


def test_a_process_that_dies_without_a_word_has_crashed() -> None:
    """It hung up and did not say that it goes down."""
    watch = ObservationHarness()

    assert watch.handle_message(None) == [("web-0", ObservationKind.CRASHED)]
    assert watch.seen[0].detail == "its process on the host died"


def test_a_machine_that_goes_down_in_order_has_stopped_once() -> None:
    """What it said explains that its process ends then."""
    watch = ObservationHarness()

    assert watch.handle_message(event("SHUTDOWN", "guest-shutdown"), None) == [("web-0", ObservationKind.STOPPED)]
    assert watch.seen[0].detail == "by the guest itself"


def test_a_reset_is_a_reboot_and_ends_what_was_before() -> None:
    """A machine that went down and was reset runs again, so its death is a crash."""
    said = event("SHUTDOWN", "guest-shutdown"), event("RESET", "host-qmp-system-reset"), None

    assert [what for _, what in ObservationHarness().handle_message(*said)] == [
        ObservationKind.STOPPED,
        ObservationKind.REBOOTED,
        ObservationKind.CRASHED,
    ]


def test_what_says_nothing_of_the_machine_is_not_told() -> None:
    """Pauses, the guest's balloon and the like are no observations."""
    assert (
        ObservationHarness().handle_message(
            {"event": "STOP"}, {"event": "RESUME"}, {"event": "RTC_CHANGE", "data": {"offset": 1}}
        )
        == []
    )


def test_a_landing_machine_is_not_the_vm_yet() -> None:
    """What fails at the other end of a move says nothing of the guest, which runs here."""
    watch = ObservationHarness()
    watch.observer.expect_landing(WEB_1)

    assert watch.handle_message(event("RESET", "guest-reset"), None, path=WEB_1) == []
    watch.observer.landed(WEB_1)
    assert watch.handle_message(None, path=WEB_1) == [("web-1", ObservationKind.CRASHED)]


def test_a_socket_that_is_nobodys_is_not_told_of() -> None:
    """Other machines may live beside those of the fleet."""
    assert ObservationHarness().handle_message(None, path=Path("/run/forewarn/web-0.pid")) == []


def found(watch: ObservationHarness, *looks: tuple[set[Path], set[Path]]) -> list[tuple[str, str]]:
    """Return what is told after looks at sockets: the living and the dead of each."""
    for alive, dead in looks:
        watch.observer.update_sockets(alive, dead)
    return [(each.vm, each.detail) for each in watch.seen]


def test_a_machine_that_was_dead_before_anybody_listened_has_crashed_once() -> None:
    """It is told at the second look, and never again."""
    dead = (set[Path](), {WEB_0})

    assert found(ObservationHarness(), dead) == []
    watch = ObservationHarness()
    assert found(watch, *[dead] * 5) == [("web-0", "its process on the host had died before observation began")]
    assert watch.seen[0].is_found


def test_a_machine_that_is_still_dead_is_told_of_again_when_asked_for() -> None:
    """Nobody may have listened the first time; one that lives again is not told of."""
    watch = ObservationHarness()
    dead = (set[Path](), {WEB_0, WEB_1})
    assert [vm for vm, _ in found(watch, dead, dead, dead)] == ["web-0", "web-1"]
    watch.seen.clear()
    watch.observer.begin_again()

    assert [vm for vm, _ in found(watch, *[({WEB_1}, {WEB_0})] * 5)] == ["web-0"]
    assert watch.seen[0].is_found


def test_a_machine_that_only_starts_is_not_dead() -> None:
    """Its socket may be there a moment before somebody listens behind it."""
    assert found(ObservationHarness(), (set(), {WEB_0}), ({WEB_0}, set()), (set(), {WEB_0})) == []


def test_a_socket_that_is_left_while_we_listen_is_no_news() -> None:
    """That its process died was told when it hung up."""
    assert found(ObservationHarness(), ({WEB_0}, set()), (set(), {WEB_0}), (set(), {WEB_0})) == []


def test_a_vm_that_lives_on_another_host_is_not_dead_for_what_it_left_here() -> None:
    """Nor is one that is about to land."""
    watch = ObservationHarness()
    watch.observer = MonitorObserver(settings.read({"qmp": "/run/{host}/{vm}.qmp"}), ManualClock())
    watch.observer.report = watch.seen.append
    left, landing = Path("/run/h1/web-0.qmp"), Path("/run/h2/web-1.qmp")
    watch.observer.expect_landing(landing)

    assert found(watch, *[({Path("/run/h2/web-0.qmp")}, {left, landing})] * 2) == []
