"""Every driver has an impact for every type of event, and refuses a type that it has none for."""

from importlib import import_module
from pathlib import Path

import pytest

from forewarn.clocks import SystemClock
from forewarn.core.model import EventType
from forewarn.node.driver import DriverType, ImpactFailed
from forewarn.plugin_loader import load
from tests.core.event_type_samples import unknown_type
from tests.drivers.impacts import impact

DRIVERS: dict[str, dict[str, object]] = {
    "simulated": {},
    "command": {"program": "/bin/false"},
    "webhook": {"url": "http://127.0.0.1:9/"},
    "qemu": {"qmp": "/nowhere/{host}/{vm}.qmp"},
    "libvirt": {"uri": "test+{host}:///default"},
}


def driver_type(name: str) -> DriverType:
    return load("forewarn.drivers", name)  # type: ignore[return-value]


@pytest.mark.parametrize("name", DRIVERS)
def test_an_unknown_type_is_refused(name: str, tmp_path: Path) -> None:
    """Nothing is done to a machine for a reason that the driver does not understand."""
    (tmp_path / "secret").write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", encoding="utf-8")
    settings = {**DRIVERS[name], **({"secret_file": str(tmp_path / "secret")} if name == "webhook" else {})}
    driver = driver_type(name).from_settings(settings, SystemClock(), 1.0, tmp_path / "driver")

    outcome = driver.perform(impact(unknown_type()))

    driver.close()
    assert outcome == ImpactFailed("the driver does not know events of type polish, so nothing was done")
    assert not list(tmp_path.glob("driver/*"))


@pytest.mark.parametrize("name", DRIVERS)
def test_every_type_has_an_impact(name: str) -> None:
    """A type that is added is not forgotten in a driver."""
    module = import_module(driver_type(name).__module__)

    assert set(EventType) == module._TYPES
