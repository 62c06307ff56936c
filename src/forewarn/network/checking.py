"""What is missing on this machine's network, what of it is ours, and what no command of ours can mend."""

from collections.abc import Iterator, Sequence
from ipaddress import ip_network

from forewarn.config.settings import Settings
from forewarn.core.errors import BadInput
from forewarn.core.model import Vm
from forewarn.network import machine
from forewarn.network.others import closed_tables
from forewarn.network.pieces import Address, Link, Sysctl, piece_of
from forewarn.network.sight import Sight
from forewarn.network.steps import Step, ports_of, rules_wanted, to_set_up, to_tear_down
from forewarn.network.wanted import Wanted, wanted_of

_NAMED = 5


def missing(settings: Settings, vms: Sequence[Vm]) -> tuple[Step, ...]:
    """Return what leads from what is there to what the settings and the fleet ask for."""
    wanted = wanted_of(settings, vms)
    sight = _sight(wanted)
    _check_bridge(wanted, sight)
    return to_set_up(wanted, sight, is_ruled=bool(sight.tables) and machine.is_ruled(rules_wanted(wanted, sight)))


def left() -> tuple[tuple[Step, ...], list[str]]:
    """Return what undoes all that is ours, and what is to be said of that which stays."""
    sight = machine.look()
    pieces = [piece for line in sight.record if (piece := piece_of(line))]
    sight = machine.look([piece.name for piece in pieces if isinstance(piece, Sysctl)])
    used = {
        piece.name: ports for piece in pieces if isinstance(piece, Link) and (ports := ports_of(piece.name, sight))
    }
    return to_tear_down(sight), [
        f"the bridge {name} stays: {_list(ports)} would lose the network; when nobody is on it: ip link delete {name}"
        for name, ports in used.items()
    ]


def _check_bridge(wanted: Wanted, sight: Sight) -> None:
    """Refuse a device that is none, before anything of it is changed."""
    link = sight.links.get(wanted.bridge)
    if wanted.identity != "tap" and link is not None and link.kind != "bridge":
        raise BadInput(
            f"{wanted.bridge} is a device of this machine, but no bridge of the kernel's; name the bridge that guests"
            " are on with bridge in [network], or another name for one to be made"
        )


def _sight(wanted: Wanted) -> Sight:
    first = machine.look()
    pieces = (*wanted.pieces(first), *filter(None, map(piece_of, first.record)))
    return machine.look([piece.name for piece in pieces if isinstance(piece, Sysctl)])


def notes(settings: Settings, vms: Sequence[Vm]) -> list[str]:
    """Say of the VMs what only their operator can mend."""
    sight = machine.look()
    links = sight.links
    here = [vm for vm in vms if not settings.network.host or vm.standing_on == settings.network.host]
    plugged = {tap: link.bridge for tap, link in links.items() if link.is_up}
    wired = [vm for vm in here if vm.interface.tap]
    of_nobody = "" if settings.identity == "mark" else " that no other VM has"
    found = {
        "no tap, so that nobody is kept from using the address": [vm for vm in here if not vm.interface.tap],
        "the tap is not on this machine now, or switched off": [
            vm for vm in wired if vm.interface.tap not in plugged
        ],
        f"no address, so that packets from any{of_nobody} are let through": [
            vm for vm in wired if not (vm.address or vm.interface.ipv6_address)
        ],
        "no MAC address, so that it may use any that no VM has declared, and others its own": [
            vm for vm in wired if not vm.interface.mac_address and settings.identity != "tap"
        ],
    }
    if settings.identity == "mark":
        found["no mark, so that every request is refused"] = [vm for vm in here if not vm.interface.mark]
    if settings.identity == "tap":
        found["the tap is a port of a bridge, where the service does not hear it; take it out"] = [
            vm for vm in wired if plugged.get(vm.interface.tap)
        ]
    else:
        found[f"the tap is no port of a bridge; make it one: ip link set TAP master {settings.network.bridge}"] = [
            vm for vm in wired if plugged.get(vm.interface.tap) == ""
        ]
        found[f"the tap is a port of another bridge than {settings.network.bridge}, where the service is not"] = [
            vm for vm in wired if plugged.get(vm.interface.tap, "") not in ("", settings.network.bridge)
        ]
    told = [f"{_list([vm.name for vm in concerned])}: {what}" for what, concerned in found.items() if concerned]
    wanted = wanted_of(settings, vms)
    return [*told, *_notes_on_ports(wanted, sight), *_notes_on_others(wanted)]


def _notes_on_others(wanted: Wanted) -> Iterator[str]:
    """Say which packet filters may keep guests away, whatever our rules say."""
    taps = [guest.tap for guest in wanted.guests] if wanted.identity == "tap" else [wanted.bridge]
    known = frozenset((*taps, wanted.host, wanted.port))
    for table in closed_tables(machine.all_rules(), known, "ip6" if ":" in wanted.host else "ip"):
        yield (
            f"table {table}: lets in only what its rules name, and none names guests; if it is to stay, let tcp port"
            f" {wanted.port} in from {_list(taps)}"
        )


def _notes_on_ports(wanted: Wanted, sight: Sight) -> Iterator[str]:
    """Say of the ports of the bridge which the operator should declare."""
    address = str(ip_network(wanted.host))
    kept = {piece.device for piece in wanted.pieces(sight) if isinstance(piece, Address)}
    if elsewhere := sorted(
        name for name, link in sight.links.items() if address in link.addresses and name not in kept
    ):
        yield f"{_list(elsewhere)}: has {wanted.host} too, so that guests may be answered there; take it away from it"
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


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
