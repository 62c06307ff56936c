"""The rules of the packet filter, as nft reads them: what may come out of which tap. Pure.

Everything stands in tables of our own, ``forewarn``, which are replaced whole: nobody else's rules are touched. What
setup changed beside them is written down there too, as comments of a chain that no packet passes; so the record lives
exactly as long as what it tells of.
"""

from collections.abc import Iterable, Iterator, Sequence

from forewarn.network.wanted import Guest, Wanted

TABLE = "forewarn"
FAMILIES = ("bridge", "inet")
RECORD = "record"
"""The chain that holds what setup changed."""
_EARLY = -300
"""Before connections are tracked, and addresses translated."""


def rules_of(wanted: Wanted, record: Sequence[str]) -> str:
    """Return what replaces our tables by what is wanted."""
    lines = [line for family in FAMILIES for line in (f"table {family} {TABLE}", f"delete table {family} {TABLE}")]
    if wanted.identity != "tap":
        lines += _table("bridge", _on_bridge(wanted))
    lines += _table("inet", [*_on_host(wanted), *_recorded(record)])
    return "".join(f"{line}\n" for line in lines)


def _table(family: str, inside: Iterable[str]) -> Iterator[str]:
    yield f"table {family} {TABLE} {{"
    yield "\tcomment \"made by 'forewarn network setup'; 'forewarn network teardown' removes it\""
    yield from (f"\t{line}" for line in inside)
    yield "}"


def _on_bridge(wanted: Wanted) -> Iterator[str]:
    """Yield what goes for frames on their way into the bridge, and from there to this machine."""
    guests = wanted.guests
    yield from _sources(guests)
    yield from _set(
        "macs", "iifname . ether saddr", (f'"{each.tap}" . {each.mac_address}' for each in _with_mac(guests))
    )
    marked = [each for each in guests if each.mark] if wanted.identity == "mark" else []
    marks = ", ".join(f'"{each.tap}" : {each.mark}' for each in marked)
    if marks:
        yield f"map marks {{ typeof iifname : meta mark; elements = {{ {marks} }}; }}"
    yield "chain prerouting {"
    yield f"\ttype filter hook prerouting priority {_EARLY}; policy accept;"
    if marks:
        protocol = "ip6" if ":" in wanted.host else "ip"
        yield f"\t{protocol} daddr {wanted.host} meta mark set iifname map @marks"
    if guests:
        # The kernel would take a frame tagged for VLAN 0 as one without a tag, past every rule about addresses.
        yield f"\tiifname {_names(guests)} ether type {{ 8021q, 8021ad }} drop"
        yield from (f"\tiifname {_names(guests)} {line} drop" for line in _impostures(wanted.host))
    if taps := _names(_with_mac(guests)):
        yield f"\tiifname {taps} iifname . ether saddr != @macs drop"
        yield f"\tiifname {taps} iifname . arp saddr ether != @macs drop"
    yield from (f"\t{line}" for line in _guards(guests, is_bridge=True))
    yield "}"
    if wanted.control_port and wanted.uplink and guests:
        yield "chain input {"
        yield "\ttype filter hook input priority 0; policy accept;"
        yield f"\tiifname {_names(guests)} tcp dport {wanted.control_port} drop"
        yield "}"


def _impostures(host: str) -> tuple[str, ...]:
    """Return what a guest would send that pretends to be the service."""
    return (f"ip6 saddr {host}",) if ":" in host else (f"ip saddr {host}", f"arp saddr ip {host}")


def _on_host(wanted: Wanted) -> Iterator[str]:
    """Yield what goes for packets that this machine itself takes in."""
    if wanted.identity == "tap":
        yield from _sources(wanted.guests)
        yield "chain prerouting {"
        yield f"\ttype filter hook prerouting priority {_EARLY}; policy accept;"
        yield from (f"\t{line}" for line in _guards(wanted.guests, is_bridge=False))
        yield "}"
    # With an uplink operators come by the bridge too, and only the bridge knows by which of its ports.
    guests = _names(wanted.guests) if wanted.identity == "tap" else "" if wanted.uplink else f'"{wanted.bridge}"'
    if wanted.control_port and guests:
        yield "chain input {"
        yield "\ttype filter hook input priority -10; policy accept;"
        yield f"\tiifname {guests} tcp dport {wanted.control_port} drop"
        yield "}"


def _sources(guests: Sequence[Guest]) -> Iterator[str]:
    pairs = ((each.tap, address) for each in guests for address in each.addresses)
    yield from _set("addresses", "iifname . ip saddr", (f'"{tap}" . {address}' for tap, address in pairs))
    pairs = ((each.tap, address) for each in guests for address in each.addresses6)
    yield from _set("addresses6", "iifname . ip6 saddr", (f'"{tap}" . {address}' for tap, address in pairs))


def _guards(guests: Sequence[Guest], *, is_bridge: bool) -> Iterator[str]:
    """Yield what drops packets from addresses that are not the guest's own."""
    if taps := _names([each for each in guests if each.addresses]):
        # Whoever has no address yet asks for one.
        yield f"iifname {taps} ip saddr 0.0.0.0 udp dport 67 accept"
        yield f"iifname {taps} iifname . ip saddr != @addresses drop"
        if is_bridge:
            yield f"iifname {taps} arp saddr ip 0.0.0.0 accept"
            yield f"iifname {taps} iifname . arp saddr ip != @addresses drop"
    if taps := _names([each for each in guests if each.addresses6]):
        yield f"iifname {taps} ip6 saddr {{ ::, fe80::/10 }} accept"
        yield f"iifname {taps} iifname . ip6 saddr != @addresses6 drop"


def _recorded(record: Sequence[str]) -> Iterator[str]:
    yield f"chain {RECORD} {{"
    yield from (f'\treturn comment "{line}"' for line in record)
    yield "}"


def _with_mac(guests: Sequence[Guest]) -> list[Guest]:
    return [each for each in guests if each.mac_address]


def _set(name: str, kind: str, elements: Iterable[str]) -> Iterator[str]:
    """Yield a set, unless it would be empty: nothing refers to it then."""
    if shown := ", ".join(elements):
        yield f"set {name} {{ typeof {kind}; elements = {{ {shown} }}; }}"


def _names(guests: Sequence[Guest]) -> str:
    quoted = ", ".join(f'"{each.tap}"' for each in guests)
    return f"{{ {quoted} }}" if quoted else ""
