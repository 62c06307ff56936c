"""What is missing on this machine's network, what of it is ours, and what no command of ours can mend."""

from collections.abc import Iterator, Sequence
from ipaddress import ip_network

from forewarn.config.settings import Settings
from forewarn.core.errors import BadInput
from forewarn.core.model import Vm
from forewarn.network import machine
from forewarn.network.others import closed_tables, is_legacy_closed
from forewarn.network.pieces import Address, Link, Sysctl, piece_of
from forewarn.network.returning import unanswered, ways_of
from forewarn.network.sight import Sight
from forewarn.network.steps import Step, ports_of, rules_wanted, to_set_up, to_tear_down
from forewarn.network.wanted import OWN_PREFIX, wanted_of

_NAMED = 5


class Survey:
    """What the settings and the fleet ask for, and what is there, at one moment."""

    def __init__(self, settings: Settings, vms: Sequence[Vm]) -> None:
        self._settings = settings
        self._vms = [vm for vm in vms if not settings.network.host or vm.standing_on == settings.network.host]
        self._wanted = wanted_of(settings, vms)
        first = machine.look()
        pieces = (*self._wanted.pieces(first), *filter(None, map(piece_of, first.record)))
        self._sight = machine.look([piece.name for piece in pieces if isinstance(piece, Sysctl)])
        self._check_bridge()

    def steps(self) -> tuple[Step, ...]:
        """Return what leads from what is there to what is wanted."""
        rules = rules_wanted(self._wanted, self._sight)
        is_ruled = bool(self._sight.tables) and machine.is_ruled(rules)
        return to_set_up(self._wanted, self._sight, is_ruled=is_ruled)

    def absent(self) -> str:
        """Say that the bridge of somebody else is not there, and what to do; empty when it is."""
        wanted = self._wanted
        if wanted.identity == "tap" or wanted.makes_bridge or wanted.bridge in self._sight.links:
            return ""
        return (
            f"the bridge {wanted.bridge} is not there, and only a bridge of Forewarn's own, with a name that begins"
            f" with {OWN_PREFIX}, is created; start what makes {wanted.bridge} (a network of libvirt: virsh net-start"
            " NAME), then run 'forewarn network setup' again, or leave bridge out of [network]"
        )

    def _check_bridge(self) -> None:
        """Refuse a device that is none, before anything of it is changed."""
        wanted = self._wanted
        link = self._sight.links.get(wanted.bridge)
        if wanted.identity != "tap" and link is not None and link.kind != "bridge":
            raise BadInput(
                f"{wanted.bridge} is a device of this machine, but no bridge of the kernel's; name the bridge that"
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
        plugged = {tap: link.bridge for tap, link in self._sight.links.items() if link.is_up}
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
        device = "" if self._wanted.identity == "tap" else self._wanted.bridge
        if device and not Address(str(ip_network(self._wanted.host)), device).is_there(self._sight):
            return
        ways = machine.ways_back(self._wanted.host, ways_of(self._wanted))
        for remedy, names in unanswered(self._wanted, self._sight, ways).items():
            yield f"{_list(names)}: would get no answer: {remedy}"

    def _on_others(self) -> Iterator[str]:
        """Say which packet filters may keep guests away, whatever our rules say."""
        wanted = self._wanted
        taps = [guest.tap for guest in wanted.guests] if wanted.identity == "tap" else [wanted.bridge]
        known = frozenset((*taps, wanted.host, wanted.port))
        version = "ip6" if ":" in wanted.host else "ip"
        remedy = f"if it is to stay, let tcp port {wanted.port} in from {_list(taps)}"
        for table in closed_tables(machine.all_rules(), known, version):
            yield f"table {table}: lets in only what its rules name, and none names guests; {remedy}"
        tables, rules = machine.legacy_filter(version)
        program = f"{version}tables-legacy"
        if tables and rules is None:
            yield (
                f"{program}: rules of the older packet filter are in force (tables {', '.join(tables)}), and cannot"
                f" be read here; see that '{program}-save' lets tcp port {wanted.port} in from {_list(taps)}"
            )
        elif rules and is_legacy_closed(rules, known):
            yield f"{program}: its chain INPUT lets in only what its rules name, and none names guests; {remedy}"

    def _on_ports(self) -> Iterator[str]:
        """Say of the ports of the bridge which the operator should declare."""
        wanted, sight = self._wanted, self._sight
        address = str(ip_network(wanted.host))
        kept = {piece.device for piece in wanted.pieces(sight) if isinstance(piece, Address)}
        if elsewhere := sorted(
            name for name, link in sight.links.items() if address in link.addresses and name not in kept
        ):
            yield (
                f"{_list(elsewhere)}: has {wanted.host} too, so that guests may be answered there; take it away"
                " from it"
            )
        if strangers := wanted.strangers(sight):
            yield (
                f"{_list(strangers)}: on {wanted.bridge}, but no VM of the fleet has it; declare the VM behind it,"
                " or set uplink in [network] if it leads out of this machine"
            )
        if wanted.control_port and not wanted.uplink and (ways_out := wanted.ways_out(sight)):
            yield (
                f"{_list(ways_out)}: leads out of this machine; set uplink in [network], or nobody who comes by it"
                " reaches the control port"
            )


def left() -> tuple[tuple[Step, ...], list[str]]:
    """Return what undoes all that is ours, and what is to be said of that which stays."""
    sight: Sight = machine.look()
    pieces = [piece for line in sight.record if (piece := piece_of(line))]
    sight = machine.look([piece.name for piece in pieces if isinstance(piece, Sysctl)])
    used = {
        piece.name: ports
        for piece in pieces
        if isinstance(piece, Link) and piece.is_ours(sight) and (ports := ports_of(piece.name, sight))
    }
    return to_tear_down(sight), [
        f"the bridge {name} stays: {_list(ports)} would lose the network; when nobody is on it: ip link delete {name}"
        for name, ports in used.items()
    ]


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
