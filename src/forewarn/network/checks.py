"""Compares the current network of this machine with the desired one, and reports problems for the operator."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

from forewarn.config.settings import Settings
from forewarn.core.errors import BadInput
from forewarn.core.model import Vm
from forewarn.network import system
from forewarn.network.current import ROUTE_PROTOCOL, CurrentNetwork
from forewarn.network.desired import OWN_PREFIX, DesiredNetwork, GuestInterface, desired_network
from forewarn.network.plan import SetupStep, desired_rules, plan_setup, plan_teardown, ports_of
from forewarn.network.resources import BridgeLink, LinkAddress, Sysctl, parse_resource
from forewarn.network.rules import TABLE

ReturnRoute = tuple[str, int]
"""An address, and the mark of responses to it."""


def find_unanswered(
    desired: DesiredNetwork, current: CurrentNetwork, return_devices: Mapping[ReturnRoute, str]
) -> dict[str, list[str]]:
    """Return the names of VMs that responses cannot reach, by remedy.

    ``return_devices`` holds the device by which the kernel routes each response.
    """
    found: dict[str, list[str]] = {}
    for guest in desired.guests:
        for problem in _problems_of(guest, desired, current, return_devices):
            found.setdefault(problem, []).append(guest.name)
    return found


def return_routes_of(desired: DesiredNetwork) -> list[ReturnRoute]:
    """Return the responses with routes to check; responses on a tap leave by that tap."""
    if desired.identity == "tap":
        return []
    return [(address, desired.mark_of(guest)) for guest in desired.guests for address in desired.answered(guest)]


def _problems_of(
    guest: GuestInterface, desired: DesiredNetwork, current: CurrentNetwork, return_devices: Mapping[ReturnRoute, str]
) -> Iterator[str]:
    for address in desired.answered(guest) if desired.identity != "tap" else ():
        device = return_devices.get((address, desired.mark_of(guest)), "")
        if device != desired.bridge:
            led = f"the route to {address} uses {device}" if device else f"there is no route to {address}"
            yield f"{led}; check 'ip rule' and 'ip route get {address} from {desired.host}'"
    is_known = desired.identity == "tap" or desired.mark_of(guest)
    if is_known and not desired.answered(guest):
        # The listener on a tap answers by it; but the kernel drops packets from sources without any route.
        device = guest.tap if desired.identity == "tap" else desired.bridge
        routes = _routes("" if desired.identity == "tap" else device, current, ip_address(desired.host).version)
        subnet = ip_network(guest.subnet, strict=False) if guest.subnet else None
        if not any(subnet is None or _overlap(subnet, to) for to in routes):
            yield (
                f"no address is declared, and no route to {subnet or 'its subnet'} uses {device}; declare the"
                f" address, or add the route: ip route add {subnet or 'SUBNET'} dev {device}"
            )


def _routes(device: str, current: CurrentNetwork, version: int) -> Iterable[str]:
    """Return the destinations that are reached by a device, or by any."""
    return [
        route.destination
        for route in current.routes
        if (not device or route.device == device)
        and route.protocol != ROUTE_PROTOCOL
        and (to := ip_network(route.destination)).version == version
        and to.prefixlen < to.max_prefixlen
    ]


def _overlap(subnet: object, to: str) -> bool:
    return ip_network(to).overlaps(ip_network(str(subnet)))


_REFUSALS = ("drop", "reject")


def find_closed_tables(listing: Sequence[dict[str, Any]], known: frozenset[object], version: str) -> list[str]:
    """Return the tables that accept only what they name, and name nothing related to guests' requests.

    What they accept may depend on things that cannot be read from the rules, so the result is only a hint.
    """
    rules = [each["rule"] for each in listing if "rule" in each]
    found = []
    for chain in (each["chain"] for each in listing if "chain" in each):
        is_of_guests = chain.get("hook") == "input" and chain["family"] in ("inet", version, "bridge")
        if not is_of_guests or chain["table"] == TABLE:
            continue
        table = f"{chain['family']} {chain['table']}"
        inside = [rule for rule in rules if (rule["family"], rule["table"]) == (chain["family"], chain["table"])]
        own = [rule for rule in inside if rule["chain"] == chain["name"]]
        if _is_closed(chain, own) and table not in found and not known & set(_named(inside)):
            found.append(table)
    return found


def is_legacy_closed(rules: str, known: frozenset[object]) -> bool:
    """Return the same for the chain INPUT of iptables-legacy, as iptables-legacy-save prints it."""
    lines = [line.split() for line in rules.splitlines()]
    policy = next((line[1] for line in lines if line[:1] == [":INPUT"]), "ACCEPT")
    own = [line for line in lines if line[:2] == ["-A", "INPUT"]]
    is_last_refusal = bool(own) and own[-1][2:4] in (["-j", "DROP"], ["-j", "REJECT"])
    words = {
        part.partition("/")[0] for line in lines if line[:1] == ["-A"] for word in line for part in word.split(",")
    }
    return (policy == "DROP" or is_last_refusal) and not words & set(map(str, known))


def _is_closed(chain: dict[str, Any], rules: list[dict[str, Any]]) -> bool:
    """Return whether packets that no rule accepts are refused."""
    last = rules[-1]["expr"] if rules else []
    said = [key for part in last for key in part if key not in ("counter", "log")]
    return chain.get("policy") == "drop" or (len(said) == 1 and said[0] in _REFUSALS)


def _named(node: Any) -> Iterator[str | int]:  # noqa: ANN401 - JSON
    """Yield every string and number that rules compare with."""
    match node:
        case dict():
            for key, value in node.items():
                if key in ("right", "set") and isinstance(value, str | int):
                    yield value
                yield from _named(value)
        case list():
            for each in node:
                if isinstance(each, str | int):
                    yield each
                yield from _named(each)


_NAMED = 5


class NetworkCheck:
    """The desired and the current network at one moment."""

    def __init__(self, settings: Settings, vms: Sequence[Vm]) -> None:
        self._settings = settings
        self._vms = [vm for vm in vms if not settings.network.host or vm.standing_on == settings.network.host]
        self._desired = desired_network(settings, vms)
        first = system.read_current()
        resources = (*self._desired.resources(first), *filter(None, map(parse_resource, first.record)))
        self._current = system.read_current([resource.name for resource in resources if isinstance(resource, Sysctl)])
        self._check_bridge()

    def steps(self) -> tuple[SetupStep, ...]:
        """Return the steps from the current to the desired network."""
        rules = desired_rules(self._desired, self._current)
        has_rules = bool(self._current.tables) and system.rules_in_force(rules)
        return plan_setup(self._desired, self._current, has_rules=has_rules)

    def missing_bridge(self) -> str:
        """Return an error message if a bridge of another program is missing; empty if it exists."""
        desired = self._desired
        if desired.identity == "tap" or desired.makes_bridge or desired.bridge in self._current.links:
            return ""
        return (
            f"the bridge {desired.bridge} does not exist, and setup creates only a bridge with a name that begins"
            f" with {OWN_PREFIX}; start the program that creates {desired.bridge} (a libvirt network: virsh"
            " net-start NAME), then run 'forewarn network setup' again, or leave bridge out of [network]"
        )

    def _check_bridge(self) -> None:
        """Refuse a device that is not a bridge, before anything is changed."""
        desired = self._desired
        link = self._current.links.get(desired.bridge)
        if desired.identity != "tap" and link is not None and link.kind != "bridge":
            raise BadInput(
                f"{desired.bridge} is a device of this machine, but not a Linux bridge; name the bridge that"
                f" guests are on with bridge in [network], or leave bridge out to have {OWN_PREFIX}0 created"
            )

    def notes(self) -> list[str]:
        """Return problems that only the operator can fix."""
        return [
            *(f"{_list([vm.name for vm in vms])}: {what}" for what, vms in self._vm_problems().items() if vms),
            *self._return_route_problems(),
            *self._port_problems(),
            *self._filter_problems(),
        ]

    def _vm_problems(self) -> dict[str, list[Vm]]:
        identity, bridge = self._settings.identity, self._settings.network.bridge
        here = self._vms
        plugged = {tap: link.bridge for tap, link in self._current.links.items() if link.is_up}
        wired = [vm for vm in here if vm.interface.tap]
        bare = [vm for vm in wired if not (vm.address or vm.interface.ipv6_address)]
        allowed = (
            "are accepted, and other guests can claim its address by ARP; declare its address if it has one"
            if identity == "mark"
            else "that no other VM has are accepted"
        )
        found = {
            "no tap, so other guests can use its address": [vm for vm in here if not vm.interface.tap],
            "the tap does not exist on this machine, or is down": [
                vm for vm in wired if vm.interface.tap not in plugged
            ],
            f"no address, so packets from any address {allowed}": bare,
            "no MAC address, so it can use any that no VM has declared, and other guests can use its own": [
                vm for vm in wired if not vm.interface.mac_address and identity != "tap"
            ],
        }
        if identity == "mark":
            found["no mark, so every request is refused"] = [vm for vm in here if not vm.interface.mark]
        if identity == "tap":
            found["the tap is a port of a bridge, so the service gets no packets from it; remove it from there"] = [
                vm for vm in wired if plugged.get(vm.interface.tap)
            ]
        else:
            found[f"the tap is not a port of a bridge; add it: ip link set TAP master {bridge}"] = [
                vm for vm in wired if plugged.get(vm.interface.tap) == ""
            ]
            found[f"the tap is a port of another bridge than {bridge}, on which the service is not available"] = [
                vm for vm in wired if plugged.get(vm.interface.tap, "") not in ("", bridge)
            ]
        return found

    def _return_route_problems(self) -> Iterator[str]:
        """Yield VMs that responses cannot reach, once the service's address is configured."""
        device = "" if self._desired.identity == "tap" else self._desired.bridge
        if device and not LinkAddress(str(ip_network(self._desired.host)), device).exists(self._current):
            return
        ways = system.find_return_devices(self._desired.host, return_routes_of(self._desired))
        for remedy, names in find_unanswered(self._desired, self._current, ways).items():
            yield f"{_list(names)}: responses cannot reach it: {remedy}"

    def _filter_problems(self) -> Iterator[str]:
        """Yield packet filters of other programs that may block guests, whatever our rules say."""
        desired = self._desired
        taps = [guest.tap for guest in desired.guests] if desired.identity == "tap" else [desired.bridge]
        known = frozenset((*taps, desired.host, desired.port))
        version = "ip6" if ":" in desired.host else "ip"
        remedy = f"if it must stay, accept tcp port {desired.port} from {_list(taps)} in it"
        for table in find_closed_tables(system.all_rules(), known, version):
            yield f"table {table}: accepts only what its rules name, and none names guests; {remedy}"
        tables, rules = system.legacy_filter(version)
        program = f"{version}tables-legacy"
        if tables and rules is None:
            yield (
                f"{program}: rules of iptables-legacy are active (tables {', '.join(tables)}) and cannot"
                f" be read here; check that '{program}-save' accepts tcp port {desired.port} from {_list(taps)}"
            )
        elif rules and is_legacy_closed(rules, known):
            yield f"{program}: its chain INPUT accepts only what its rules name, and none names guests; {remedy}"

    def _port_problems(self) -> Iterator[str]:
        """Yield ports of the bridge that the operator should declare."""
        desired, current = self._desired, self._current
        address = str(ip_network(desired.host))
        kept = {resource.device for resource in desired.resources(current) if isinstance(resource, LinkAddress)}
        if elsewhere := sorted(
            name for name, link in current.links.items() if address in link.addresses and name not in kept
        ):
            yield (f"{_list(elsewhere)}: has {desired.host} too, so it may answer guests; remove the address from it")
        if undeclared_ports := desired.undeclared_ports(current):
            yield (
                f"{_list(undeclared_ports)}: on {desired.bridge}, but no VM of the fleet has it; declare the VM"
                " behind it, or set uplink in [network] if it leads out of this machine"
            )
        if desired.control_port and not desired.uplink and (outbound_ports := desired.outbound_ports(current)):
            yield (
                f"{_list(outbound_ports)}: leads out of this machine; set uplink in [network], or no client behind"
                " it reaches the control port"
            )


def check_teardown() -> tuple[tuple[SetupStep, ...], list[str]]:
    """Return the steps that remove everything setup made, and messages about what stays."""
    current: CurrentNetwork = system.read_current()
    resources = [resource for line in current.record if (resource := parse_resource(line))]
    current = system.read_current([resource.name for resource in resources if isinstance(resource, Sysctl)])
    used = {
        resource.name: ports
        for resource in resources
        if isinstance(resource, BridgeLink)
        and resource.is_ours(current)
        and (ports := ports_of(resource.name, current))
    }
    return plan_teardown(current), [
        f"the bridge {name} stays: {_list(ports)} would lose the network; once it has no ports: ip link delete {name}"
        for name, ports in used.items()
    ]


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
