"""The rules of the packet filter, as nft reads them: what may come out of which tap. Pure.

Everything stands in tables of our own, ``forewarn``, which are replaced whole: nobody else's rules are touched. What
setup changed beside them is written down there too, as comments of a chain that no packet passes; so the record lives
exactly as long as what it tells of.
"""

from collections.abc import Iterable, Iterator, Sequence

from forewarn.network.guards import guards_of, names, only_own, sets_of
from forewarn.network.wanted import Wanted

TABLE = "forewarn"
FAMILIES = ("bridge", "inet")
RECORD = "record"
"""The chain that holds what setup changed."""
_EARLY = -450
"""Before fragments are put together, connections tracked, and addresses translated."""
_MOST_STARTERS = 65_535


def rules_of(
    wanted: Wanted, record: Sequence[str], strangers: Sequence[str] = (), ways_out: Sequence[str] = ()
) -> str:
    """Return what replaces our tables by what is wanted.

    ``strangers`` are ports of the bridge with somebody behind them of whom the fleet knows nothing; by ``ways_out``
    come those who are elsewhere.
    """
    lines = [line for family in FAMILIES for line in (f"table {family} {TABLE}", f"delete table {family} {TABLE}")]
    if wanted.identity != "tap":
        lines += _table("bridge", _on_bridge(wanted, strangers, ways_out))
    lines += _table("inet", [*_on_host(wanted), *_recorded(record)])
    return "".join(f"{line}\n" for line in lines)


def _table(family: str, inside: Iterable[str]) -> Iterator[str]:
    yield f"table {family} {TABLE} {{"
    yield "\tcomment \"made by 'forewarn network setup'; 'forewarn network teardown' removes it\""
    yield from (f"\t{line}" for line in inside)
    yield "}"


def _on_bridge(wanted: Wanted, strangers: Sequence[str], ways_out: Sequence[str]) -> Iterator[str]:
    """Yield what goes for frames on their way into the bridge, and from there to this machine."""
    taps = [each.tap for each in wanted.guests]
    yield from sets_of(wanted.guests)
    marked = [each for each in wanted.guests if each.mark] if wanted.identity == "mark" else []
    marks = ", ".join(f'"{each.tap}" : {each.mark}' for each in marked)
    if marks:
        yield f"map marks {{ typeof iifname : meta mark; elements = {{ {marks} }}; }}"
    yield from _starters(wanted)
    yield "chain prerouting {"
    yield f"\ttype filter hook prerouting priority {_EARLY}; policy accept;"
    if marks:
        yield f"\t{_protocol(wanted)} daddr {wanted.host} meta mark set iifname map @marks"
    yield from (f"\t{line}" for line in _towards_service(wanted, [*taps, *strangers]))
    yield from (f"\t{line}" for line in guards_of(wanted, strangers))
    if wanted.identity == "address":
        yield from (f"\t{line}" for line in only_own(wanted, ways_out))
    yield "}"
    if wanted.control_port and wanted.uplink and (ports := names((*taps, *strangers))):
        yield "chain input {"
        yield "\ttype filter hook input priority 0; policy accept;"
        yield f"\tiifname {ports} tcp dport {wanted.control_port} drop"
        yield "}"


def _on_host(wanted: Wanted) -> Iterator[str]:
    """Yield what goes for packets that this machine itself takes in."""
    taps = names([each.tap for each in wanted.guests])
    if wanted.identity == "tap":
        yield from sets_of(wanted.guests, is_bridge=False)
        yield from _starters(wanted)
        yield "chain prerouting {"
        yield f"\ttype filter hook prerouting priority {_EARLY}; policy accept;"
        yield from (f"\t{line}" for line in _towards_service(wanted, [each.tap for each in wanted.guests]))
        yield from (f"\t{line}" for line in guards_of(wanted, is_bridge=False))
        yield "}"
    # With an uplink operators come by the bridge too, and only the bridge knows by which of its ports.
    guests = taps if wanted.identity == "tap" else "" if wanted.uplink else f'"{wanted.bridge}"'
    if wanted.control_port and guests:
        yield "chain input {"
        yield "\ttype filter hook input priority -10; policy accept;"
        yield f"\tiifname {guests} tcp dport {wanted.control_port} drop"
        yield "}"


def _starters(wanted: Wanted) -> Iterator[str]:
    if wanted.starts:
        yield f"set starters {{ typeof iifname; size {_MOST_STARTERS}; flags dynamic; }}"


def _towards_service(wanted: Wanted, ports: Sequence[str]) -> Iterator[str]:
    """Yield what keeps one guest from taking the service away from the others."""
    if not ports:
        return
    to_service = f"iifname {names(ports)} {_protocol(wanted)} daddr {wanted.host}"
    # No request needs them, and what several wires send would be put together into one packet.
    yield f"{to_service} {'exthdr frag exists' if ':' in wanted.host else 'ip frag-off & 0x3fff != 0'} drop"
    if wanted.starts:
        limit = f"limit rate over {wanted.starts}/second burst {wanted.starts_burst} packets"
        start = f"tcp dport {wanted.port} tcp flags & (syn | ack) == syn"
        yield f"{to_service} {start} add @starters {{ iifname {limit} }} drop"


def _recorded(record: Sequence[str]) -> Iterator[str]:
    yield f"chain {RECORD} {{"
    yield from (f'\treturn comment "{line}"' for line in record)
    yield "}"


def _protocol(wanted: Wanted) -> str:
    return "ip6" if ":" in wanted.host else "ip"
