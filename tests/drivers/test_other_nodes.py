"""What another node attempted: no driver takes it for not begun because there is no record here."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.clocks import SystemClock
from forewarn.drivers.command import CommandDriver
from forewarn.drivers.webhook import WebhookDriver
from forewarn.node.driver import Driver, ImpactNotBegun, ImpactUnknown
from forewarn.testing.driver_contract import in_term
from tests.drivers.impacts import impact
from tests.drivers.receiver import SECRET, Receiver


def command(place: Path, _: Receiver) -> Driver:
    return CommandDriver.from_settings({"program": "/bin/true"}, SystemClock(), 1.0, place / "records")


def webhook(place: Path, receiver: Receiver) -> Driver:
    (place / "secret").write_text(SECRET)
    receiver.tells = False
    settings: dict[str, object] = {"url": receiver.url, "secret_file": str(place / "secret"), "fences_terms": True}
    return WebhookDriver.from_settings(settings, SystemClock(), 1.0, place / "records")


@pytest.mark.parametrize("make", [command, webhook])
def test_without_a_record_of_another_node_the_outcome_is_unknown(
    make: Callable[[Path, Receiver], Driver], tmp_path: Path
) -> None:
    """Nothing was begun from this node; only of its own attempts does that say anything."""
    now = SystemClock().now()
    with Receiver() as receiver:
        driver = make(tmp_path, receiver)
        elsewhere = driver.outcome_of(in_term(impact(attempted_at=now), 2, is_elsewhere=True))
        own = driver.outcome_of(in_term(impact(attempted_at=now), 2))
        driver.close()

    assert isinstance(elsewhere, ImpactUnknown)
    assert own == ImpactNotBegun()
