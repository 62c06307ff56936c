"""Rules of the packet filter in nft syntax. Pure functions.

All rules are in our own tables ``forewarn``, which are replaced as a whole: rules of other programs are not changed.
What setup changed beside them is recorded there too, as comments of a chain that no packet passes, so the record
lives exactly as long as the rules.

Source addresses that a guest may use:

    declared for a VM         its tap may send these only
    declared for another VM   neither its tap nor an undeclared port of the bridge may send it
    the service's address     no guest may send it
"""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address

from forewarn.network.desired import DesiredNetwork, GuestInterface

_NOT_PLAIN = "{ 0x0000-0x05ff, 8021q, 8021ad }"
"""Frame types with addresses in fields that the rules do not check.

VLAN-tagged frames (the kernel treats VLAN 0 as untagged), and 802.3 frames, which some guests accept.
"""

_DISCOVERY = "{ nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert, nd-redirect }"
"""Messages that make their receiver record the sender's MAC address for its IPv6 address."""


def address_sets(guests: Sequence[GuestInterface], *, is_bridge: bool = True) -> Iterator[str]:
    """Yield sets of declared addresses, by tap and in total."""
    for name, key, pairs in (
        ("addresses", "ip saddr", [(each.tap, address) for each in guests for address in each.addresses]),
        ("addresses6", "ip6 saddr", [(each.tap, address) for each in guests for address in each.addresses6]),
        ("macs", "ether saddr", [(each.tap, each.mac_address) for each in guests if each.mac_address]),
    ):
        if pairs and (is_bridge or name != "macs"):
            yield _set(name, f"iifname . {key}", [f'"{tap}" . {value}' for tap, value in pairs])
        if pairs and is_bridge:
            yield _set(f"all_{name}", key, dict.fromkeys(value for _, value in pairs))


def antispoofing_rules(
    desired: DesiredNetwork, undeclared_ports: Sequence[str] = (), *, is_bridge: bool = True
) -> Iterator[str]:
    """Yield the rules that drop everything else; rules for all ports come before those that accept."""
    guests = desired.guests
    if is_bridge and (ports := quote_devices([*(each.tap for each in guests), *undeclared_ports])):
        yield f"iifname {ports} ether type {_NOT_PLAIN} drop"
        yield from (f"iifname {ports} {line} drop" for line in _service_impersonation(desired.host))
    if is_bridge:
        yield from _mac_rules(guests, undeclared_ports)
        yield from _foreign_address_rules(desired, undeclared_ports)
    yield from _address_rules(guests, is_bridge=is_bridge)
    yield from _address6_rules(guests, is_bridge=is_bridge)


def own_source_rules(desired: DesiredNetwork, outbound_ports: Sequence[str]) -> Iterator[str]:
    """Yield rules that drop packets to the service with a VM's address from any other port than the VM's tap."""
    for version, addressed in (
        ("", [each.tap for each in desired.guests if each.addresses]),
        ("6", [each.tap for each in desired.guests if each.addresses6]),
    ):
        if addressed and (":" in desired.host) == bool(version):
            other = f"iifname != {quote_devices([*addressed, *outbound_ports])}"
            yield f"{other} ip{version} daddr {desired.host} ip{version} saddr @all_addresses{version} drop"


def quote_devices(ports: Iterable[str]) -> str:
    """Return devices as an nft set; empty if there are none, because nft accepts no empty set."""
    quoted = ", ".join(f'"{each}"' for each in dict.fromkeys(ports))
    return f"{{ {quoted} }}" if quoted else ""


def _service_impersonation(host: str) -> tuple[str, ...]:
    """Return matches for packets that claim the service's address."""
    if ":" in host:
        return (f"ip6 saddr {host}", f"icmpv6 type nd-neighbor-advert @th,64,128 {_number(host)}")
    return (f"ip saddr {host}", f"arp saddr ip {host}")


def _mac_rules(guests: Sequence[GuestInterface], undeclared_ports: Sequence[str]) -> Iterator[str]:
    declared = quote_devices(each.tap for each in guests if each.mac_address)
    if not declared:
        return
    yield f"iifname {declared} iifname . ether saddr != @macs drop"
    yield f"iifname {declared} iifname . arp saddr ether != @macs drop"
    if others := quote_devices([*(each.tap for each in guests if not each.mac_address), *undeclared_ports]):
        yield f"iifname {others} ether saddr @all_macs drop"


def _foreign_address_rules(desired: DesiredNetwork, undeclared_ports: Sequence[str]) -> Iterator[str]:
    """Yield rules that keep a port without declared addresses from using those of VMs.

    A VM identified by its mark may use any source address. It must not claim another VM's address by ARP or neighbour
    discovery: responses to that VM would go to it.
    """
    guests = desired.guests
    by_mark = desired.identity == "mark"
    without = [each.tap for each in guests if not each.addresses]
    others = quote_devices([*without, *undeclared_ports])
    if others and any(each.addresses for each in guests):
        if senders := quote_devices(undeclared_ports) if by_mark else others:
            yield f"iifname {senders} ip saddr @all_addresses drop"
        yield f"iifname {others} arp saddr ip @all_addresses drop"
    without = [each.tap for each in guests if not each.addresses6]
    others = quote_devices([*without, *undeclared_ports])
    if others and any(each.addresses6 for each in guests):
        if senders := quote_devices(undeclared_ports) if by_mark else others:
            yield f"iifname {senders} ip6 saddr @all_addresses6 drop"
        if by_mark and without:
            yield f"iifname {quote_devices(without)} icmpv6 type {_DISCOVERY} ip6 saddr @all_addresses6 drop"
        claimed = ", ".join(dict.fromkeys(_number(address) for each in guests for address in each.addresses6))
        yield f"iifname {others} icmpv6 type nd-neighbor-advert @th,64,128 {{ {claimed} }} drop"


def _address_rules(guests: Sequence[GuestInterface], *, is_bridge: bool) -> Iterator[str]:
    if taps := quote_devices(each.tap for each in guests if each.addresses):
        # A guest without an address may send DHCP requests; no guarded guest may act as a DHCP server.
        yield f"iifname {taps} udp sport 67 udp dport 68 drop"
        yield f"iifname {taps} ip saddr 0.0.0.0 udp dport 67 accept"
        yield f"iifname {taps} iifname . ip saddr != @addresses drop"
        if is_bridge:
            yield f"iifname {taps} arp saddr ip 0.0.0.0 accept"
            yield f"iifname {taps} iifname . arp saddr ip != @addresses drop"


def _address6_rules(guests: Sequence[GuestInterface], *, is_bridge: bool) -> Iterator[str]:
    guarded = [each for each in guests if each.addresses6]
    if taps := quote_devices(each.tap for each in guarded):
        yield f"iifname {taps} icmpv6 type nd-router-advert drop"
        yield f"iifname {taps} udp sport 547 udp dport 546 drop"
        for each in guarded:
            own = ", ".join(map(_number, each.addresses6))
            advertised = f"@th,64,128 != {{ {own} }} @th,64,10 != 0x3fa"
            yield f'iifname "{each.tap}" icmpv6 type nd-neighbor-advert {advertised} drop'
        if is_bridge and any(address.startswith("fe80:") for each in guarded for address in each.addresses6):
            yield f"iifname {taps} ip6 saddr @all_addresses6 iifname . ip6 saddr != @addresses6 drop"
        yield f"iifname {taps} ip6 saddr {{ ::, fe80::/10 }} accept"
        yield f"iifname {taps} iifname . ip6 saddr != @addresses6 drop"


def _number(address: str) -> str:
    """Return an address as a number, for rules on raw bytes."""
    return hex(int(ip_address(address)))


def _set(name: str, kind: str, elements: Iterable[str]) -> str:
    return f"set {name} {{ typeof {kind}; elements = {{ {', '.join(elements)} }}; }}"


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
