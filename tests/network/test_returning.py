"""To which VMs no answer finds its way."""

import pytest

from forewarn.network.returning import unanswered, ways_of
from forewarn.network.sight import OURS, RouteSeen, Sight
from forewarn.network.wanted import Guest
from tests.network.test_rules import wanted

DECLARED = Guest("declared", "tap0", 7, "", ("10.0.0.4",))
BARE = Guest("bare", "tap1", 8)
NETWORK = Guest("network", "tap2", 9, subnet="10.1.0.0/24")


def named(
    identity: str, *guests: Guest, routes: tuple[RouteSeen, ...] = (), ways: dict[tuple[str, int], str]
) -> list[str]:
    found = unanswered(wanted(identity, *guests), Sight(routes=routes), ways)
    return [name for names in found.values() for name in names]


@pytest.mark.parametrize("device", ["br0", "eth0", ""])
def test_the_kernel_decides_by_which_device_a_declared_address_is_answered(device: str) -> None:
    """Rules of routing may lead elsewhere than the routes that setup sees."""
    ways = {("10.0.0.4", 7): device} if device else {}

    assert named("mark", DECLARED, ways=ways) == ([] if device == "br0" else ["declared"])
    assert ways_of(wanted("mark", DECLARED)) == [("10.0.0.4", 7)]
    assert ways_of(wanted("address", DECLARED)) == [("10.0.0.4", 0)]
    assert ways_of(wanted("tap", DECLARED)) == []


@pytest.mark.parametrize(
    ("route", "missing"),
    [
        (RouteSeen("10.0.0.0/24", "br0"), ["network"]),
        (RouteSeen("10.1.0.0/16", "br0"), []),
        (RouteSeen("0.0.0.0/0", "eth0"), ["bare", "network"]),
        (RouteSeen("10.1.0.7/32", "br0", 1024, OURS), ["bare", "network"]),
        (RouteSeen("fd00::/64", "br0"), ["bare", "network"]),
    ],
)
def test_a_vm_without_a_declared_address_needs_a_route_by_the_bridge(route: RouteSeen, missing: list[str]) -> None:
    """To its subnet, where one is declared; routes to single guests do not lead to it."""
    assert named("mark", BARE, NETWORK, routes=(route,), ways={}) == missing


def test_a_listener_on_a_tap_needs_any_route_at_all() -> None:
    """Answers leave by the tap; but from where no route leads, the kernel lets nothing in."""
    assert named("tap", BARE, ways={}) == ["bare"]
    assert named("tap", BARE, routes=(RouteSeen("0.0.0.0/0", "eth0"),), ways={}) == []


def test_a_vm_that_is_not_known_without_an_address_is_no_matter_of_routes() -> None:
    """It is refused, whatever the routes."""
    assert named("address", BARE, ways={}) == []
    assert named("mark", Guest("unmarked", "tap9"), ways={}) == []
