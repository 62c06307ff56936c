"""Order of names in lists: ``web-2`` stands before ``web-10``.

The API lists names by code point, because its cursors compare names; this order is the dashboard's alone.
"""

import re
from functools import lru_cache

_PARTS = re.compile(r"\d+|\D+").findall


@lru_cache(maxsize=20_000)
def natural_key(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Return a key that orders names by the numbers in them."""
    return tuple((not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in _PARTS(name))
