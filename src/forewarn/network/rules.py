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
_FROM_UPLINK = "0x666f7265"
"""The mark of what comes by the uplink to the control port, from one hook of this machine to the next."""
_VIRTUAL = '{ "tun", "veth" }'
"""Kinds of devices that have a guest or a container at their other end."""


def rules_of(
    wanted: Wanted, record: Sequence[str], strangers: Sequence[str] = (), ways_out: Sequence[str] = ()
) -> str:
    """Return what replaces our tables by what is wanted.

    ``strangers`` are ports of the bridge with somebody behind them of whom the fleet knows nothing; by ``ways_out``
    come those who are elsewhere.
    """
    lines = [line for family in FAMILIES for line in (f"table {family} {TABLE}", f"delete table {family} {TABLE}")]
    inside = [] if wanted.identity == "tap" else [*_on_bridge(wanted, strangers, ways_out)]
    lines += _table("bridge", [*inside, *_control_on_bridges(wanted)])
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


def _control_on_bridges(wanted: Wanted) -> Iterator[str]:
    """Yield what closes the control port to the ports of bridges, also to ports that are added later.

    Any tap is a guest, whatever bridge it is on. With an uplink, only its packets get past the rule for our bridge in
    the inet table, which does not see the port: a mark tells it.
    """
    if not wanted.control_port:
        return
    port = f"tcp dport {wanted.control_port}"
    yield "chain input {"
    yield "\ttype filter hook input priority 0; policy accept;"
    if wanted.uplink:
        yield f'\tiifname "{wanted.uplink}" {port} meta mark set {_FROM_UPLINK} accept'
    yield f'\tmeta iifkind "tun" {port} drop'
    yield "}"


def _on_host(wanted: Wanted) -> Iterator[str]:
    """Yield what goes for packets that this machine itself takes in."""
    if wanted.identity == "tap":
        yield from sets_of(wanted.guests, is_bridge=False)
        yield from _starters(wanted)
        yield "chain prerouting {"
        yield f"\ttype filter hook prerouting priority {_EARLY}; policy accept;"
        yield from (f"\t{line}" for line in _towards_service(wanted, [each.tap for each in wanted.guests]))
        yield from (f"\t{line}" for line in guards_of(wanted, is_bridge=False))
        yield "}"
    if not wanted.control_port:
        return
    port = f"tcp dport {wanted.control_port}"
    yield "chain input {"
    yield "\ttype filter hook input priority -10; policy accept;"
    except_uplink = f" meta mark != {_FROM_UPLINK}" if wanted.uplink else ""
    yield f'\tiifname "{wanted.bridge}" {port}{except_uplink} drop'
    if taps := names([each.tap for each in wanted.guests]):
        yield f"\tiifname {taps} {port} drop"
    # A tap that is no port of a bridge; the devices of tunnels are of the same kind, but not Ethernet.
    other = f'iifname != "{wanted.uplink}" ' if wanted.uplink else ""
    yield f"\t{other}meta iifkind {_VIRTUAL} meta iiftype ether {port} drop"
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
