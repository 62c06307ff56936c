"""Detects packet filters of other programs that may block guests, from nft listings. Pure functions.

What they accept may depend on things that cannot be read from the rules, so the result is only a hint.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from forewarn.network.rules import TABLE

_REFUSALS = ("drop", "reject")


def find_closed_tables(listing: Sequence[dict[str, Any]], known: frozenset[object], version: str) -> list[str]:
    """Return the tables that accept only what they name, and name nothing related to guests' requests."""
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
