"""What a check of the network finds: foreign packet filters, and responses that cannot reach a VM."""

import json
import subprocess

import pytest

from forewarn.network.checks import find_closed_tables, find_unanswered, return_routes_of
from forewarn.network.current import ROUTE_PROTOCOL, CurrentNetwork, CurrentRoute
from forewarn.network.desired import GuestInterface
from tests.network.test_rules import desired

pytestmark = pytest.mark.end_to_end

KNOWN = frozenset(("br0", "169.254.169.254", 80))
INPUT = "type filter hook input priority 0; policy"


def found(*tables: str) -> list[str]:
    """Return what is told of tables, after nft itself has read and listed them."""
    program = "nft -f - && nft -j list ruleset"
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", program], input="\n".join(tables), text=True, check=True, capture_output=True
    )
    listing = [each for each in json.loads(done.stdout)["nftables"] if "metainfo" not in each]
    return find_closed_tables(listing, KNOWN, "ip")


def chain(*rules: str, policy: str = "drop", more: str = "") -> str:
    inside = "\n".join((f"{INPUT} {policy};", *rules))
    return f"table inet filter {{ {more}\nchain input {{ {inside}\n}}\n}}"


@pytest.mark.parametrize(
    "rules",
    [
        chain("ct state established accept", "iifname lo accept", "tcp dport 22 accept"),
        chain("tcp dport 22 accept", "counter reject", policy="accept"),
        chain("tcp dport 22 accept", "log drop", policy="accept"),
    ],
)
def test_a_table_that_lets_in_only_others_is_told(rules: str) -> None:
    """Whether by its policy or by its last rule."""
    assert found(rules) == ["inet filter"]


@pytest.mark.parametrize(
    "rules",
    [
        chain("tcp dport 22 drop", policy="accept"),
        chain('iifname "br0" accept'),
        chain('iifname { "lo", "br0" } accept'),
        chain("tcp dport 80 accept"),
        chain("tcp dport { 22, 80 } accept"),
        chain("ip daddr 169.254.169.254 accept"),
        chain("jump zones", more='chain zones { iifname "br0" accept\n }'),
        "table ip6 filter { chain input { type filter hook input priority 0; policy drop;\n}\n}",
        "table inet forewarn { chain input { type filter hook input priority 0; policy drop;\n}\n}",
        "table inet filter { chain forward { type filter hook forward priority 0; policy drop;\n}\n}",
    ],
)
def test_a_table_that_names_guests_or_is_open_is_not(rules: str) -> None:
    """Nor one that is not asked about them, or is our own."""
    assert found(rules) == []


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
