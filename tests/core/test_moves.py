"""Drains: a plan that no longer fits is refused."""

import pytest

from forewarn.core.errors import PlanOutdated
from tests.core.harness import FleetHarness

FLEET = "ann declares: host h1; host h2; host h3; group web availability-set; vm web-0 in web on h1"


@pytest.mark.parametrize(
    ("happened", "host"),
    [
        ("ann declares: no host h3", "h3"),
        ("ann cordons host h2", "h2"),
        ("ann fails host h2", "h2"),
        ("ann cordons host h3", "h1"),
    ],
    ids=["it is gone", "it is cordoned", "it has failed", "it is drained itself"],
)
def test_no_vm_is_sent_to_a_host_that_cannot_take_it(happened: str, host: str) -> None:
    """Whatever happened to the host since the plan was made."""
    harness = FleetHarness(FLEET, happened)

    with pytest.raises(PlanOutdated, match=f"web-0 to {host}"):
        harness.say(f"ann drains host h1 to web-0 on {host}")
