"""What is missing on this machine's network, what of it is ours, and what no command of ours can mend."""

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
    """What the settings and the fleet ask for, and what is there, at one moment."""

    def __init__(self, settings: Settings, vms: Sequence[Vm]) -> None:
        self._settings = settings
        self._vms = [vm for vm in vms if not settings.network.host or vm.standing_on == settings.network.host]
        self._desired = desired_network(settings, vms)
        first = system.read_current()
        resources = (*self._desired.resources(first), *filter(None, map(parse_resource, first.record)))
        self._current = system.read_current([resource.name for resource in resources if isinstance(resource, Sysctl)])
        self._check_bridge()

    def steps(self) -> tuple[SetupStep, ...]:
        """Return what leads from what is there to what is wanted."""
        rules = desired_rules(self._desired, self._current)
        has_rules = bool(self._current.tables) and system.rules_in_force(rules)
        return plan_setup(self._desired, self._current, has_rules=has_rules)

    def absent(self) -> str:
        """Say that the bridge of somebody else is not there, and what to do; empty when it is."""
        desired = self._desired
        if desired.identity == "tap" or desired.makes_bridge or desired.bridge in self._current.links:
            return ""
        return (
            f"the bridge {desired.bridge} is not there, and only a bridge of Forewarn's own, with a name that begins"
            f" with {OWN_PREFIX}, is created; start what makes {desired.bridge} (a network of libvirt: virsh"
            " net-start NAME), then run 'forewarn network setup' again, or leave bridge out of [network]"
        )

    def _check_bridge(self) -> None:
        """Refuse a device that is none, before anything of it is changed."""
        desired = self._desired
        link = self._current.links.get(desired.bridge)
        if desired.identity != "tap" and link is not None and link.kind != "bridge":
            raise BadInput(
                f"{desired.bridge} is a device of this machine, but no bridge of the kernel's; name the bridge that"
                f" guests are on with bridge in [network], or leave bridge out to have {OWN_PREFIX}0 created"
            )

    def notes(self) -> list[str]:
        """Say of the VMs what only their operator can mend."""
        return [
            *(f"{_list([vm.name for vm in vms])}: {what}" for what, vms in self._on_vms().items() if vms),
            *self._on_returning(),
            *self._on_ports(),
            *self._on_others(),
        ]

    def _on_vms(self) -> dict[str, list[Vm]]:
        identity, bridge = self._settings.identity, self._settings.network.bridge
        here = self._vms
        plugged = {tap: link.bridge for tap, link in self._current.links.items() if link.is_up}
        wired = [vm for vm in here if vm.interface.tap]
        bare = [vm for vm in wired if not (vm.address or vm.interface.ipv6_address)]
        allowed = (
            "are let through, and nobody is kept from claiming its own by ARP; declare it if there is one"
            if identity == "mark"
            else "that no other VM has are let through"
        )
        found = {
            "no tap, so that nobody is kept from using the address": [vm for vm in here if not vm.interface.tap],
            "the tap is not on this machine now, or switched off": [
                vm for vm in wired if vm.interface.tap not in plugged
            ],
            f"no address, so that packets from any {allowed}": bare,
            "no MAC address, so that it may use any that no VM has declared, and others its own": [
                vm for vm in wired if not vm.interface.mac_address and identity != "tap"
            ],
        }
        if identity == "mark":
            found["no mark, so that every request is refused"] = [vm for vm in here if not vm.interface.mark]
        if identity == "tap":
            found["the tap is a port of a bridge, where the service does not hear it; take it out"] = [
                vm for vm in wired if plugged.get(vm.interface.tap)
            ]
        else:
            found[f"the tap is no port of a bridge; make it one: ip link set TAP master {bridge}"] = [
                vm for vm in wired if plugged.get(vm.interface.tap) == ""
            ]
            found[f"the tap is a port of another bridge than {bridge}, where the service is not"] = [
                vm for vm in wired if plugged.get(vm.interface.tap, "") not in ("", bridge)
            ]
        return found

    def _on_returning(self) -> Iterator[str]:
        """Name the VMs to which no answer would find its way, once the address of the service is there."""
        device = "" if self._desired.identity == "tap" else self._desired.bridge
        if device and not LinkAddress(str(ip_network(self._desired.host)), device).exists(self._current):
            return
        ways = system.find_return_devices(self._desired.host, return_routes_of(self._desired))
        for remedy, names in find_unanswered(self._desired, self._current, ways).items():
            yield f"{_list(names)}: would get no answer: {remedy}"

    def _on_others(self) -> Iterator[str]:
        """Say which packet filters may keep guests away, whatever our rules say."""
        desired = self._desired
        taps = [guest.tap for guest in desired.guests] if desired.identity == "tap" else [desired.bridge]
        known = frozenset((*taps, desired.host, desired.port))
        version = "ip6" if ":" in desired.host else "ip"
        remedy = f"if it is to stay, let tcp port {desired.port} in from {_list(taps)}"
        for table in find_closed_tables(system.all_rules(), known, version):
            yield f"table {table}: lets in only what its rules name, and none names guests; {remedy}"
        tables, rules = system.legacy_filter(version)
        program = f"{version}tables-legacy"
        if tables and rules is None:
            yield (
                f"{program}: rules of the older packet filter are in force (tables {', '.join(tables)}), and cannot"
                f" be read here; see that '{program}-save' lets tcp port {desired.port} in from {_list(taps)}"
            )
        elif rules and is_legacy_closed(rules, known):
            yield f"{program}: its chain INPUT lets in only what its rules name, and none names guests; {remedy}"

    def _on_ports(self) -> Iterator[str]:
        """Say of the ports of the bridge which the operator should declare."""
        desired, current = self._desired, self._current
        address = str(ip_network(desired.host))
        kept = {resource.device for resource in desired.resources(current) if isinstance(resource, LinkAddress)}
        if elsewhere := sorted(
            name for name, link in current.links.items() if address in link.addresses and name not in kept
        ):
            yield (
                f"{_list(elsewhere)}: has {desired.host} too, so that guests may be answered there; take it away"
                " from it"
            )
        if undeclared_ports := desired.undeclared_ports(current):
            yield (
                f"{_list(undeclared_ports)}: on {desired.bridge}, but no VM of the fleet has it; declare the VM"
                " behind it, or set uplink in [network] if it leads out of this machine"
            )
        if desired.control_port and not desired.uplink and (outbound_ports := desired.outbound_ports(current)):
            yield (
                f"{_list(outbound_ports)}: leads out of this machine; set uplink in [network], or nobody who comes by"
                " it reaches the control port"
            )


def check_teardown() -> tuple[tuple[SetupStep, ...], list[str]]:
    """Return what undoes all that is ours, and what is to be said of that which stays."""
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
        f"the bridge {name} stays: {_list(ports)} would lose the network; when nobody is on it: ip link delete {name}"
        for name, ports in used.items()
    ]


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
