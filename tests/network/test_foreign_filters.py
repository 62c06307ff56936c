"""Packet filters of others, as nft lists them."""

import json
import subprocess

import pytest

from forewarn.network.foreign_filters import find_closed_tables

pytestmark = pytest.mark.end_to_end

KNOWN = frozenset(("br0", "169.254.169.254", 80))
INPUT = "type filter hook input priority 0; policy"


def found(*tables: str) -> list[str]:
    """Return what is told of tables, after nft itself has read and listed them."""
    program = "nft -f - && nft -j list ruleset"
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", program], input="\n".join(tables), text=True, check=True, capture_output=True
    )
    listing = [each for each in json.loads(done.stdout)["nftables"] if "metainfo" not in each]
    return find_closed_tables(listing, KNOWN, "ip")


def chain(*rules: str, policy: str = "drop", more: str = "") -> str:
    inside = "\n".join((f"{INPUT} {policy};", *rules))
    return f"table inet filter {{ {more}\nchain input {{ {inside}\n}}\n}}"


@pytest.mark.parametrize(
    "rules",
    [
        chain("ct state established accept", "iifname lo accept", "tcp dport 22 accept"),
        chain("tcp dport 22 accept", "counter reject", policy="accept"),
        chain("tcp dport 22 accept", "log drop", policy="accept"),
    ],
)
def test_a_table_that_lets_in_only_others_is_told(rules: str) -> None:
    """Whether by its policy or by its last rule."""
    assert found(rules) == ["inet filter"]


@pytest.mark.parametrize(
    "rules",
    [
        chain("tcp dport 22 drop", policy="accept"),
        chain('iifname "br0" accept'),
        chain('iifname { "lo", "br0" } accept'),
        chain("tcp dport 80 accept"),
        chain("tcp dport { 22, 80 } accept"),
        chain("ip daddr 169.254.169.254 accept"),
        chain("jump zones", more='chain zones { iifname "br0" accept\n }'),
        "table ip6 filter { chain input { type filter hook input priority 0; policy drop;\n}\n}",
        "table inet forewarn { chain input { type filter hook input priority 0; policy drop;\n}\n}",
        "table inet filter { chain forward { type filter hook forward priority 0; policy drop;\n}\n}",
    ],
)
def test_a_table_that_names_guests_or_is_open_is_not(rules: str) -> None:
    """Nor one that is not asked about them, or is our own."""
    assert found(rules) == []
