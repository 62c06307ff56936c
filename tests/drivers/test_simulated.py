"""The simulated driver: time passes instead of machines being touched."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from forewarn.clocks import ManualClock
from forewarn.core.errors import BadInput
from forewarn.core.model import EventType, Host, Vm
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.node.driver import (
    CandidateHost,
    HostCommand,
    HostCommandEnded,
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactUnderway,
)
from forewarn.testing.driver_contract import DriverContract, DriverTrial
from tests.drivers.impacts import NOW, impact


class SimulatedTrial(DriverTrial):
    """Feels an impact once its simulated time is over."""

    def __init__(self) -> None:
        self._clock = ManualClock(NOW)
        self._impacts: dict[str, Impact] = {}
        self._commands: dict[str, HostCommand] = {}

    def make(self, **more: object) -> SimulatedDriver:
        return SimulatedDriver.from_settings(more, self._clock, 1.0)

    def times_done(self, event_id: str) -> int:
        return int(isinstance(self.make().outcome_of(self._impacts[event_id]), ImpactDone))

    def times_run(self, command_id: str) -> int:
        outcome = self.make().outcome_on_host(self._commands[command_id])
        return int(isinstance(outcome, HostCommandEnded))

    def now(self) -> datetime:
        return self._clock.now()

    def wait_until(self, at: datetime) -> None:
        self._clock.advance(at - self._clock.now())

    def impact(self) -> Impact:
        impact = super().impact()
        self._impacts[impact.event.id] = impact
        return impact

    def host_command(self) -> HostCommand:
        command = super().host_command()
        self._commands[command.id] = command
        return command


class TestSimulatedDriver(DriverContract):
    """It keeps the contract."""

    @pytest.fixture
    def trial(self) -> DriverTrial:
        return SimulatedTrial()


@pytest.mark.parametrize(
    ("type", "announced", "settings", "seconds"),
    [
        (EventType.FREEZE, 9, {}, 9),
        (EventType.FREEZE, 0, {}, 0),
        (EventType.FREEZE, -1, {}, 5),
        (EventType.FREEZE, 9, {"freeze": 2}, 2),
        (EventType.REBOOT, -1, {}, 30),
        (EventType.REBOOT, -1, {"reboot": 1.5}, 1.5),
        (EventType.REDEPLOY, -1, {}, 60),
        (EventType.PREEMPT, -1, {}, 5),
        (EventType.TERMINATE, -1, {}, 5),
        (EventType.TERMINATE, -1, {"terminate": 0}, 0),
    ],
)
def test_an_impact_lasts_as_announced_or_as_set(
    type: EventType, announced: int, settings: dict[str, object], seconds: float
) -> None:
    """Each type has its time, from the attempt on, then it is done."""
    clock = ManualClock(NOW)
    driver = SimulatedDriver.from_settings(settings, clock, 1.0)
    asked = impact(type, duration=announced)
    ends_at = NOW + timedelta(seconds=seconds)

    if seconds:
        assert driver.perform(asked) == ImpactUnderway(ends_at, f"ends at {ends_at:%H:%M:%S} UTC")
    clock.advance(timedelta(seconds=seconds))
    assert isinstance(driver.outcome_of(asked), ImpactDone)


def test_hurry_divides_durations() -> None:
    """Thirty seconds hurried sixty times are half a second."""
    driver = SimulatedDriver.from_settings({}, ManualClock(NOW), 60.0)

    assert driver.perform(impact(EventType.REBOOT)) == ImpactUnderway(
        NOW + timedelta(seconds=0.5), "ends at 12:00:00 UTC"
    )


def test_performing_again_does_not_begin_anew() -> None:
    """The end stands from the attempt on."""
    clock = ManualClock(NOW)
    driver = SimulatedDriver.from_settings({}, clock, 1.0)
    first = driver.perform(impact(EventType.REBOOT))
    clock.advance(timedelta(seconds=10))

    assert driver.perform(impact(EventType.REBOOT)) == first


def test_moves_live_is_a_setting() -> None:
    """A simulated cloud may claim live migration."""
    assert SimulatedDriver.from_settings({"moves_live": True}, ManualClock(NOW), 1.0).moves_live
    assert not SimulatedDriver.from_settings({}, ManualClock(NOW), 1.0).moves_live


@pytest.mark.parametrize(
    "settings", [{"reboot": -1}, {"reboot": float("inf")}, {"reboot": float("nan")}, {"freeze": "5"}]
)
def test_a_time_that_is_none_is_refused(settings: dict[str, object]) -> None:
    """Durations are seconds from nothing to a day."""
    with pytest.raises(BadInput, match=next(iter(settings))):
        SimulatedDriver.from_settings(settings, ManualClock(NOW), 1.0)


CANDIDATES = (CandidateHost(Host("h8"), (Vm("web-9", "web", host="h8"),)), CandidateHost(Host("h9")))


@pytest.mark.parametrize(
    ("type", "operation", "moved"),
    [
        (EventType.REDEPLOY, "vm redeploy", True),
        (EventType.REDEPLOY, "host fail", True),
        (EventType.REDEPLOY, "host degrade", True),
        (EventType.FREEZE, "host redeploy", True),
        (EventType.REDEPLOY, "vm fail", False),
        (EventType.FREEZE, "host freeze", False),
    ],
)
def test_vms_stand_elsewhere_after_a_redeploy(type: EventType, operation: str, *, moved: bool) -> None:
    """Each on the host that has fewest of its group; a machine that crashed starts again where it was."""
    driver = SimulatedDriver.from_settings({"redeploy": 0, "freeze": 0}, ManualClock(NOW), 1.0)
    asked = impact(type, vms=("web-0", "web-1", "web-2"), operation=operation, candidates=CANDIDATES)

    outcome = driver.perform(asked)

    elsewhere = {"web-0": "h9", "web-1": "h8", "web-2": "h9"}
    assert isinstance(outcome, ImpactDone)
    assert outcome.hosts == (elsewhere if moved else {})


def test_without_another_host_a_redeploy_stays_and_a_failed_host_keeps_its_vms() -> None:
    """Nobody can be brought away from a host that failed if there is no other."""
    driver = SimulatedDriver.from_settings({"redeploy": 0}, ManualClock(NOW), 1.0)

    assert driver.perform(impact(EventType.REDEPLOY, operation="vm redeploy")) == ImpactDone(detail="simulated")
    assert isinstance(driver.perform(impact(EventType.REDEPLOY, operation="host fail")), ImpactFailed)


@pytest.mark.parametrize(
    ("planned", "outcome"),
    [
        ("h8", ImpactDone({"web-0": "h8"}, "simulated")),
        (
            "h1",
            ImpactFailed("web-0 was planned to move to h1, which no longer accepts VMs; move it to another host"),
        ),
    ],
)
def test_a_vm_is_moved_where_it_was_planned_to(planned: str, outcome: ImpactDone | ImpactFailed) -> None:
    """Also where another host would be preferred; it fails where the planned one takes no VM."""
    clock = ManualClock(NOW)
    asked = impact(EventType.REDEPLOY, operation="host redeploy", candidates=CANDIDATES)
    asked = replace(asked, event=replace(asked.event, placements={"web-0": planned}))
    driver = SimulatedDriver.from_settings({"redeploy": 0}, clock, 1.0)

    assert driver.perform(asked) == outcome
