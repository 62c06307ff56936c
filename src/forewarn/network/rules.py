"""Rules of the packet filter in nft syntax. Pure functions.

All rules are in our own tables ``forewarn``, which are replaced as a whole: rules of other programs are not changed.
What setup changed beside them is recorded there too, as comments of a chain that no packet passes, so the record
lives exactly as long as the rules.
"""

from collections.abc import Iterable, Iterator, Sequence

from forewarn.network.antispoofing import address_sets, antispoofing_rules, own_source_rules, quote_devices
from forewarn.network.desired import DesiredNetwork

TABLE = "forewarn"
FAMILIES = ("bridge", "inet")
RECORD = "record"
"""The chain that records what setup changed."""
_EARLY = -450
"""Before defragmentation, connection tracking and address translation."""
_MOST_STARTERS = 65_535
_FROM_UPLINK = "0x666f7265"
"""The mark of packets from the uplink to the control port, between two hooks of this machine."""
_VIRTUAL = '{ "tun", "veth" }'
"""Kinds of devices with a guest or a container at their other end."""


def rules_of(
    desired: DesiredNetwork,
    record: Sequence[str],
    undeclared_ports: Sequence[str] = (),
    outbound_ports: Sequence[str] = (),
) -> str:
    """Return nft input that replaces our tables.

    ``undeclared_ports`` are ports of the bridge with guests that the fleet does not declare; packets of other hosts
    arrive by ``outbound_ports``.
    """
    lines = [line for family in FAMILIES for line in (f"table {family} {TABLE}", f"delete table {family} {TABLE}")]
    inside = [] if desired.identity == "tap" else [*_on_bridge(desired, undeclared_ports, outbound_ports)]
    lines += _table("bridge", [*inside, *_control_on_bridges(desired)])
    lines += _table("inet", [*_on_host(desired), *_recorded(record)])
    return "".join(f"{line}\n" for line in lines)


def _table(family: str, inside: Iterable[str]) -> Iterator[str]:
    yield f"table {family} {TABLE} {{"
    yield "\tcomment \"made by 'forewarn network setup'; 'forewarn network teardown' removes it\""
    yield from (f"\t{line}" for line in inside)
    yield "}"


def _on_bridge(
    desired: DesiredNetwork, undeclared_ports: Sequence[str], outbound_ports: Sequence[str]
) -> Iterator[str]:
    """Yield rules for frames that enter the bridge, and from there this machine."""
    taps = [each.tap for each in desired.guests]
    yield from address_sets(desired.guests)
    marked = [each for each in desired.guests if each.mark] if desired.identity == "mark" else []
    marks = ", ".join(f'"{each.tap}" : {each.mark}' for each in marked)
    if marks:
        yield f"map marks {{ typeof iifname : meta mark; elements = {{ {marks} }}; }}"
    yield from _starters(desired)
    yield "chain prerouting {"
    yield f"\ttype filter hook prerouting priority {_EARLY}; policy accept;"
    if marks:
        yield f"\t{_protocol(desired)} daddr {desired.host} meta mark set iifname map @marks"
    yield from (f"\t{line}" for line in _towards_service(desired, [*taps, *undeclared_ports]))
    yield from (f"\t{line}" for line in antispoofing_rules(desired, undeclared_ports))
    if desired.identity == "address":
        yield from (f"\t{line}" for line in own_source_rules(desired, outbound_ports))
    yield "}"


def _control_on_bridges(desired: DesiredNetwork) -> Iterator[str]:
    """Yield rules that close the control port to bridge ports, including ports added later.

    Any tap is a guest, whatever bridge it is on. With an uplink, only its packets pass the rule for our bridge in the
    inet table, which does not see the port: a mark identifies them.
    """
    if not desired.control_port:
        return
    port = f"tcp dport {desired.control_port}"
    yield "chain input {"
    yield "\ttype filter hook input priority 0; policy accept;"
    if desired.uplink:
        yield f'\tiifname "{desired.uplink}" {port} meta mark set {_FROM_UPLINK} accept'
    yield f'\tmeta iifkind "tun" {port} drop'
    yield "}"


def _on_host(desired: DesiredNetwork) -> Iterator[str]:
    """Yield rules for packets that this machine itself receives."""
    if desired.identity == "tap":
        yield from address_sets(desired.guests, is_bridge=False)
        yield from _starters(desired)
        yield "chain prerouting {"
        yield f"\ttype filter hook prerouting priority {_EARLY}; policy accept;"
        yield from (f"\t{line}" for line in _towards_service(desired, [each.tap for each in desired.guests]))
        yield from (f"\t{line}" for line in antispoofing_rules(desired, is_bridge=False))
        yield "}"
    if not desired.control_port:
        return
    port = f"tcp dport {desired.control_port}"
    yield "chain input {"
    yield "\ttype filter hook input priority -10; policy accept;"
    except_uplink = f" meta mark != {_FROM_UPLINK}" if desired.uplink else ""
    yield f'\tiifname "{desired.bridge}" {port}{except_uplink} drop'
    if taps := quote_devices([each.tap for each in desired.guests]):
        yield f"\tiifname {taps} {port} drop"
    # A tap that is not a bridge port; tunnel devices are of the same kind, but not Ethernet.
    other = f'iifname != "{desired.uplink}" ' if desired.uplink else ""
    yield f"\t{other}meta iifkind {_VIRTUAL} meta iiftype ether {port} drop"
    yield "}"


def _starters(desired: DesiredNetwork) -> Iterator[str]:
    if desired.starts:
        yield f"set starters {{ typeof iifname; size {_MOST_STARTERS}; flags dynamic; }}"


def _towards_service(desired: DesiredNetwork, ports: Sequence[str]) -> Iterator[str]:
    """Yield rules that keep one guest from overloading the service for the others."""
    if not ports:
        return
    to_service = f"iifname {quote_devices(ports)} {_protocol(desired)} daddr {desired.host}"
    # No request needs fragments, and fragments of several guests could be reassembled into one packet.
    yield f"{to_service} {'exthdr frag exists' if ':' in desired.host else 'ip frag-off & 0x3fff != 0'} drop"
    if desired.starts:
        limit = f"limit rate over {desired.starts}/second burst {desired.starts_burst} packets"
        start = f"tcp dport {desired.port} tcp flags & (syn | ack) == syn"
        yield f"{to_service} {start} add @starters {{ iifname {limit} }} drop"


def _recorded(record: Sequence[str]) -> Iterator[str]:
    yield f"chain {RECORD} {{"
    yield from (f'\treturn comment "{line}"' for line in record)
    yield "}"


def _protocol(desired: DesiredNetwork) -> str:
    return "ip6" if ":" in desired.host else "ip"
