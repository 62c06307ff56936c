"""Every driver has an impact for every type of event, and refuses a type that it has none for."""

from importlib import import_module
from pathlib import Path

import pytest

from forewarn.clocks import SystemClock
from forewarn.core.event_types import EVENT_TYPES
from forewarn.core.model import EventType
from forewarn.node.driver import Driver, DriverType, ImpactFailed
from forewarn.plugin_loader import load
from forewarn.testing.driver_contract import unknown_type
from tests.drivers.impacts import impact

DRIVERS: dict[str, dict[str, object]] = {
    "simulated": {},
    "command": {"program": "/bin/false"},
    "webhook": {"url": "http://127.0.0.1:9/"},
    "qemu": {"qmp": "/nowhere/{host}/{vm}.qmp"},
    "libvirt": {"uri": "test+{host}:///default"},
}


def make(name: str, directory: Path) -> Driver:
    (directory / "secret").write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", encoding="utf-8")
    settings = {**DRIVERS[name], **({"secret_file": str(directory / "secret")} if name == "webhook" else {})}
    type_: DriverType = load("forewarn.drivers", name)  # type: ignore[assignment]
    return type_.from_settings(settings, SystemClock(), 1.0, directory / "driver")


@pytest.mark.parametrize("name", DRIVERS)
def test_an_unknown_type_is_refused(name: str, tmp_path: Path) -> None:
    """Nothing is done to a machine for a reason that the driver does not understand."""
    driver = make(name, tmp_path)

    outcome = driver.perform(impact(unknown_type()))

    driver.close()
    assert outcome == ImpactFailed("the driver does not know events of type polish, so nothing was done")
    assert not list(tmp_path.glob("driver/*"))


@pytest.mark.parametrize("name", DRIVERS)
def test_every_type_has_an_impact(name: str, tmp_path: Path) -> None:
    """A type that is added is not forgotten in a driver; a program and a receiver are handed every type."""
    driver = make(name, tmp_path)
    module = import_module(type(driver).__module__)

    driver.close()
    assert set(getattr(driver, "_impacts", getattr(module, "_IMPACTS", EVENT_TYPES))) == set(EventType)
