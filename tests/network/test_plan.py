"""Which commands lead from what is seen to what is wanted, and back."""

import pytest
from msgspec.structs import replace

from forewarn.config.settings import NetworkSettings, Settings
from forewarn.config.values import ListenAddress
from forewarn.core.errors import BadInput
from forewarn.core.model import Interface, Vm
from forewarn.network.current import ROUTE_PROTOCOL, CurrentLink, CurrentNetwork, CurrentRoute
from forewarn.network.desired import DesiredNetwork, desired_network
from forewarn.network.plan import SetupStep, desired_rules, plan_setup, plan_teardown
from forewarn.network.resources import AnyResource, Sysctl, mac_of, parse_resource

WEB = Vm("web-0", "web", "rack1", address="10.0.0.4", interface=Interface(tap="tap0", mark=7))
OTHER = Vm("web-1", "web", "rack2", address="10.0.0.4", interface=Interface(tap="tap1", mark=8))
SETTINGS = Settings(metadata=ListenAddress("169.254.169.254", 80), network=NetworkSettings(bridge="forewarn0"))
NOTHING = CurrentNetwork(sysctls={"net/ipv4/tcp_fwmark_accept": "0"})


def desired(identity: str = "address", **changes: object) -> DesiredNetwork:
    return desired_network(replace(SETTINGS, identity=identity, **changes), (WEB, OTHER))


def commands(steps: tuple[SetupStep, ...]) -> list[str]:
    return [" ".join(step.command.words) for step in steps]


def record_of(rules: str) -> tuple[str, ...]:
    """Return what the rules write down."""
    return tuple(line.split('"')[1] for line in rules.splitlines() if line.startswith("\t\treturn comment"))


def test_what_is_missing_is_made_after_the_rules() -> None:
    """Nothing is open before it is guarded, and everything is in an order in which it can be made."""
    assert commands(plan_setup(desired("mark"), NOTHING, has_rules=False)) == [
        "nft -f -",
        "sysctl -q -w net/ipv4/tcp_fwmark_accept=1",
        f"ip link add forewarn0 address {mac_of('forewarn0')} type bridge",
        "ip link set forewarn0 up",
        "ip address add 169.254.169.254/32 dev forewarn0",
        f"ip route add 10.0.0.4 dev forewarn0 metric 1024 proto {ROUTE_PROTOCOL}",
    ]


def test_what_is_there_is_left_as_it_is() -> None:
    """A bridge of the operator's, with a way to the guests, gets the address and nothing else."""
    current = CurrentNetwork(
        links={"forewarn0": CurrentLink(is_up=True)}, routes=(CurrentRoute("10.0.0.0/24", "forewarn0"),)
    )

    assert commands(plan_setup(desired(), current, has_rules=True)) == [
        "ip address add 169.254.169.254/32 dev forewarn0"
    ]
    assert record_of(desired_rules(desired(), current)) == ("address 169.254.169.254/32 forewarn0",)


@pytest.mark.parametrize(
    ("routes", "needed"),
    [
        ((CurrentRoute("0.0.0.0/0", "eth0"),), True),
        ((CurrentRoute("0.0.0.0/0", "eth0"), CurrentRoute("10.0.0.0/8", "forewarn0")), False),
        ((CurrentRoute("10.0.0.0/24", "eth0"), CurrentRoute("10.0.0.0/8", "forewarn0")), True),
        ((CurrentRoute("10.0.0.0/24", "eth0", 200), CurrentRoute("10.0.0.0/24", "forewarn0", 100)), False),
        ((CurrentRoute("10.0.0.4/32", "forewarn0", 1024, ROUTE_PROTOCOL),), True),
    ],
)
def test_guests_are_answered_by_their_bridge(routes: tuple[CurrentRoute, ...], *, needed: bool) -> None:
    """Where the machine would send answers elsewhere there is to be a route of ours, and stays."""
    resources = desired().resources(CurrentNetwork(routes=routes))

    assert any(str(resource) == "the route to 10.0.0.4 via forewarn0" for resource in resources) == needed


def test_equal_addresses_have_routes_that_differ() -> None:
    """One for each tap that is there; a tap that is not there has none."""
    links = {"tap0": CurrentLink(is_up=True), "tap1": CurrentLink(is_up=True)}
    both = commands(plan_setup(desired("tap"), CurrentNetwork(links=links), has_rules=True))

    assert [line for line in both if "route" in line] == [
        f"ip route add 10.0.0.4 dev tap0 metric 1024 proto {ROUTE_PROTOCOL}",
        f"ip route add 10.0.0.4 dev tap1 metric 1025 proto {ROUTE_PROTOCOL}",
    ]
    assert commands(plan_setup(desired("tap"), CurrentNetwork(), has_rules=True)) == []


def test_what_is_wanted_no_longer_is_undone() -> None:
    """Whoever goes from marks to taps is left with nothing of marks; what was there before is there again."""
    record = record_of(desired_rules(desired("mark"), NOTHING))
    made = CurrentNetwork(
        links={"forewarn0": CurrentLink(True, frozenset({"169.254.169.254/32"}), mac=mac_of("forewarn0"))},
        routes=(CurrentRoute("10.0.0.4/32", "forewarn0", 1024, ROUTE_PROTOCOL),),
        sysctls={"net/ipv4/tcp_fwmark_accept": "1"},
        record=record,
        tables=("bridge", "inet"),
    )
    undone = [
        f"ip route delete 10.0.0.4 dev forewarn0 metric 1024 proto {ROUTE_PROTOCOL}",
        "ip address delete 169.254.169.254/32 dev forewarn0",
        "ip link set forewarn0 down",
        "ip link delete forewarn0",
        "sysctl -q -w net/ipv4/tcp_fwmark_accept=0",
    ]

    assert commands(plan_setup(desired("tap"), made, has_rules=True)) == undone
    assert commands(plan_teardown(made)) == [
        *undone,
        "nft delete table bridge forewarn",
        "nft delete table inet forewarn",
    ]
    assert record_of(desired_rules(desired("mark"), made)) == record


def test_what_others_changed_since_is_left_alone() -> None:
    """Teardown takes away what is still as setup made it."""
    current = CurrentNetwork(
        links={"forewarn0": CurrentLink(is_up=True)},
        sysctls={"net/ipv4/tcp_fwmark_accept": "0"},
        record=(
            "address 169.254.169.254/32 forewarn0",
            "sysctl net/ipv4/tcp_fwmark_accept 1 0",
            "of another release",
        ),
    )

    assert plan_teardown(current) == ()


def test_a_bridge_of_another_program_is_never_created() -> None:
    """While it is away, nothing that needs it is made; once it is there, it gets the address."""
    foreign = desired("mark", network=NetworkSettings(bridge="virbr0"))
    there = CurrentNetwork(links={"virbr0": CurrentLink(is_up=True, kind="bridge", mac="52:54:00:00:00:01")})

    assert commands(plan_setup(foreign, NOTHING, has_rules=True)) == ["sysctl -q -w net/ipv4/tcp_fwmark_accept=1"]
    assert "link virbr0" not in record_of(desired_rules(foreign, there))
    assert "ip address add 169.254.169.254/32 dev virbr0" in commands(plan_setup(foreign, there, has_rules=True))


def test_a_bridge_that_another_program_made_since_is_not_taken_away() -> None:
    """An earlier release recorded that it made virbr0; the one that is there now has another MAC address."""
    record = ("link virbr0", "up virbr0")
    ours, others = (
        CurrentNetwork(links={"virbr0": CurrentLink(is_up=True, kind="bridge", mac=mac)}, record=record)
        for mac in (mac_of("virbr0"), "52:54:00:00:00:01")
    )
    foreign = desired(network=NetworkSettings(bridge="virbr0"))

    assert "ip link delete virbr0" in commands(plan_teardown(ours))
    assert "ip link delete virbr0" not in commands(plan_teardown(others))
    assert commands(plan_setup(foreign, ours, has_rules=True))[0] == "ip address add 169.254.169.254/32 dev virbr0"


def test_every_piece_is_known_again_by_its_line() -> None:
    """What is written down is enough to undo it."""
    links = {"tap0": CurrentLink(is_up=True)}
    resources: list[AnyResource] = [
        *desired("mark").resources(NOTHING),
        *desired("tap").resources(CurrentNetwork(links=links)),
    ]
    for resource in resources:
        known = parse_resource(resource.line(NOTHING))
        assert known is not None
        assert known == (replace(resource, before="0") if isinstance(resource, Sysctl) else resource)


@pytest.mark.parametrize(
    "endpoint", [ListenAddress("127.0.0.1", 8254), ListenAddress("0.0.0.0", 80), ListenAddress("localhost", 80)]
)
def test_an_address_that_no_guest_can_reach_is_refused(endpoint: ListenAddress) -> None:
    """The remedy is named."""
    with pytest.raises(BadInput, match="set metadata = "):
        desired(metadata=endpoint)


def test_only_vms_of_this_host_are_guests() -> None:
    """Where the settings name one; a VM without a tap is no guest anywhere."""
    network = NetworkSettings(host="rack1")
    vms = (WEB, OTHER, Vm("lone", "lone", "rack1"))

    assert [guest.name for guest in desired_network(SETTINGS, vms).guests] == ["web-0", "web-1"]
    assert [guest.name for guest in desired_network(replace(SETTINGS, network=network), vms).guests] == ["web-0"]


def test_packets_of_other_hosts_arrive_by_the_uplink_and_by_hardware() -> None:
    """A tap or a veth on the bridge belongs to a guest or a container."""
    current = CurrentNetwork(
        links={
            "eth0": CurrentLink(True, bridge="forewarn0"),
            "tap0": CurrentLink(True, bridge="forewarn0", kind="tun"),
            "eth1": CurrentLink(True, bridge="br1"),
        }
    )

    assert desired().outbound_ports(current) == ("eth0",)
    assert desired(network=NetworkSettings(uplink="bond0")).outbound_ports(current) == ("bond0", "eth0")


def test_a_bridge_has_a_mac_of_its_own() -> None:
    """It is the same each time, another one for another bridge, and nobody's by birth."""
    mac = mac_of("forewarn0")

    assert mac == mac_of("forewarn0") != mac_of("br1")
    assert mac.startswith("02:")
    assert len(mac) == 17


@pytest.mark.parametrize("name", ["", "much-too-long-for-it", "br 0", "br/0", "..", 'br"0'])
def test_names_that_no_device_can_have_are_refused(name: str) -> None:
    """Before half of the network is made."""
    with pytest.raises(BadInput, match="device names have 1 to 15 characters"):
        desired(network=NetworkSettings(bridge=name))
    if name:
        with pytest.raises(BadInput, match="uplink in \\[network\\]"):
            desired(network=NetworkSettings(uplink=name))


def test_what_is_known_to_be_ours_is_written_down_again() -> None:
    """Somebody may have flushed all rules, and the record with them; what may be another's is left out."""
    address = frozenset({"169.254.169.254/32"})
    routes = (CurrentRoute("10.0.0.4/32", "forewarn0", 1024, ROUTE_PROTOCOL),)
    ours = CurrentNetwork(
        links={"forewarn0": CurrentLink(True, address, kind="bridge", mac=mac_of("forewarn0"))}, routes=routes
    )
    others = CurrentNetwork(
        links={"forewarn0": CurrentLink(True, address, kind="bridge", mac="02:00:00:00:00:01")}, routes=routes
    )

    assert record_of(desired_rules(desired(), ours)) == (
        "link forewarn0",
        "up forewarn0",
        "address 169.254.169.254/32 forewarn0",
        "route 10.0.0.4 forewarn0 1024",
    )
    assert record_of(desired_rules(desired(), others)) == ("route 10.0.0.4 forewarn0 1024",)


@pytest.mark.parametrize(
    ("rate", "burst", "starts"),
    [(5.0, 20, (50, 200)), (0.0, 20, (0, 200)), (30.0, 1, (300, 50)), (1e9, 10**9, (10**6, 10**6))],
)
def test_connections_are_limited_far_above_requests(rate: float, burst: int, starts: tuple[int, int]) -> None:
    """Within what nft can count."""
    found = desired(rate_limit=rate, rate_burst=burst)

    assert (found.starts, found.starts_burst) == starts
