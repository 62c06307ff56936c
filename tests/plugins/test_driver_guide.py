"""The driver of the guide, killed at each of its steps: no order is given twice, and the outcome is never wrong."""

import os
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from forewarn.plugins.drivers import Impact, ImpactDone, ImpactNotBegun, ImpactUnknown, SystemClock
from forewarn.testing.driver_contract import DriverTrial
from tests.plugins.guides import printed_module


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[ModuleType]:
    with printed_module("write-a-driver.md", "switch", tmp_path) as module:
        yield module


class Sample(DriverTrial):
    """A source of impacts."""

    def make(self, **more: object) -> Any:
        raise NotImplementedError

    def times_done(self, event_id: str) -> int:
        raise NotImplementedError


def kill_at(call: int, driver: Any, impact: Impact) -> None:
    """Perform an impact in another process, which dies at the given call of the driver's own steps."""
    steps = iter(range(1, 100))

    def dying(step: Any) -> Any:
        def take(*given: object) -> None:
            if next(steps) == call:
                os._exit(9)
            step(*given)

        return take

    def perform() -> None:
        driver._record, driver._switch = dying(driver._record), dying(driver._switch)
        driver.perform(impact)

    process = get_context("fork").Process(target=perform)
    process.start()
    process.join()
    assert process.exitcode == 9


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    ("call", "outcome", "orders"), [(1, ImpactNotBegun, 1), (2, ImpactUnknown, 0), (3, ImpactUnknown, 1)]
)
def test_what_a_crash_leaves_is_told_and_not_repeated(
    call: int, outcome: type[object], orders: int, switch: ModuleType, tmp_path: Path
) -> None:
    """Killed before the record, before the order, and before the second record."""
    impact, controller = Sample().impact(), tmp_path / "controller"

    def fresh() -> Any:
        settings = {"controller": str(controller)}
        return switch.SwitchDriver.from_settings(settings, SystemClock(), 1.0, tmp_path / "records")

    kill_at(call, fresh(), impact)
    driver = fresh()

    assert isinstance(driver.outcome_of(impact), outcome)
    performed = driver.perform(impact)
    assert isinstance(performed, ImpactDone if outcome is ImpactNotBegun else ImpactUnknown)
    assert (controller.read_text().count(impact.event.id) if controller.exists() else 0) == orders


def test_what_was_done_is_known_to_the_next_process(switch: ModuleType, tmp_path: Path) -> None:
    """The record tells it, and a second call gives no order."""
    impact, settings = Sample().impact(), {"controller": str(tmp_path / "controller")}
    for _ in range(2):
        driver = switch.SwitchDriver.from_settings(settings, SystemClock(), 1.0, tmp_path / "records")
        assert isinstance(driver.perform(impact), ImpactDone)
        assert isinstance(driver.outcome_of(impact), ImpactDone)

    assert (tmp_path / "controller").read_text().count(impact.event.id) == 1
