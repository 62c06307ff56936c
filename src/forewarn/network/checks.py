"""Compares the current network of this machine with the desired one, and reports problems for the operator."""

from collections.abc import Iterator, Sequence
from ipaddress import ip_network

from forewarn.config.settings import Settings
from forewarn.core.errors import BadInput
from forewarn.core.model import Vm
from forewarn.network import system
from forewarn.network.current import CurrentNetwork
from forewarn.network.desired import OWN_PREFIX, desired_network
from forewarn.network.foreign_filters import find_closed_tables, is_legacy_closed
from forewarn.network.plan import SetupStep, desired_rules, plan_setup, plan_teardown, ports_of
from forewarn.network.resources import BridgeLink, LinkAddress, Sysctl, parse_resource
from forewarn.network.return_routes import find_unanswered, return_routes_of

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
