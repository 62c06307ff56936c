"""To which VMs no answer finds its way."""

import pytest

from forewarn.network.current import ROUTE_PROTOCOL, CurrentNetwork, CurrentRoute
from forewarn.network.desired import GuestInterface
from forewarn.network.return_routes import find_unanswered, return_routes_of
from tests.network.test_rules import desired

DECLARED = GuestInterface("declared", "tap0", 7, "", ("10.0.0.4",))
BARE = GuestInterface("bare", "tap1", 8)
NETWORK = GuestInterface("network", "tap2", 9, subnet="10.1.0.0/24")


def named(
    identity: str, *guests: GuestInterface, routes: tuple[CurrentRoute, ...] = (), ways: dict[tuple[str, int], str]
) -> list[str]:
    found = find_unanswered(desired(identity, *guests), CurrentNetwork(routes=routes), ways)
    return [name for names in found.values() for name in names]


@pytest.mark.parametrize("device", ["br0", "eth0", ""])
def test_the_kernel_decides_by_which_device_a_declared_address_is_answered(device: str) -> None:
    """Rules of routing may lead elsewhere than the routes that setup sees."""
    ways = {("10.0.0.4", 7): device} if device else {}

    assert named("mark", DECLARED, ways=ways) == ([] if device == "br0" else ["declared"])
    assert return_routes_of(desired("mark", DECLARED)) == [("10.0.0.4", 7)]
    assert return_routes_of(desired("address", DECLARED)) == [("10.0.0.4", 0)]
    assert return_routes_of(desired("tap", DECLARED)) == []


@pytest.mark.parametrize(
    ("route", "missing"),
    [
        (CurrentRoute("10.0.0.0/24", "br0"), ["network"]),
        (CurrentRoute("10.1.0.0/16", "br0"), []),
        (CurrentRoute("0.0.0.0/0", "eth0"), ["bare", "network"]),
        (CurrentRoute("10.1.0.7/32", "br0", 1024, ROUTE_PROTOCOL), ["bare", "network"]),
        (CurrentRoute("fd00::/64", "br0"), ["bare", "network"]),
    ],
)
def test_a_vm_without_a_declared_address_needs_a_route_by_the_bridge(route: CurrentRoute, missing: list[str]) -> None:
    """To its subnet, where one is declared; routes to single guests do not lead to it."""
    assert named("mark", BARE, NETWORK, routes=(route,), ways={}) == missing


def test_a_listener_on_a_tap_needs_any_route_at_all() -> None:
    """Answers leave by the tap; but from where no route leads, the kernel lets nothing in."""
    assert named("tap", BARE, ways={}) == ["bare"]
    assert named("tap", BARE, routes=(CurrentRoute("0.0.0.0/0", "eth0"),), ways={}) == []


def test_a_vm_that_is_not_known_without_an_address_is_no_matter_of_routes() -> None:
    """It is refused, whatever the routes."""
    assert named("address", BARE, ways={}) == []
    assert named("mark", GuestInterface("unmarked", "tap9"), ways={}) == []
