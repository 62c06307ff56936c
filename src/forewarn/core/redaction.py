"""Redaction: what is shown of an address and of a token.

address    its host, because its path, query, user and password may be secret
token      its id
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

HIDDEN = "…"
TOKEN_BEGINNING = "fw_([0-9a-f]{16})_"  # noqa: S105 - a pattern, no secret
"""Regular expression of the beginning of a token, with its id as a group; the secret follows."""
_ADDRESS = re.compile(r"[a-z]+://[^\s'\"()]+")
_TOKEN = re.compile(rf"{TOKEN_BEGINNING}[\w-]+")
_SECRET_NAME = re.compile(r"key|token|secret|pass|credential|auth", re.IGNORECASE)
_LONG = 8
"""Parts of a path and values with at least this length may be secrets."""


def shown_url(url: str) -> str:
    """Return a URL up to its host and port."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return HIDDEN
    place = parts.netloc.rpartition("@")[2]
    if not parts.scheme or not place:
        return HIDDEN
    has_more = parts.path.strip("/") or parts.query or parts.fragment
    return f"{parts.scheme}://{place}" + (f"/{HIDDEN}" if has_more else "")


def shown_address(given: str) -> str:
    """Return a refused address for a message; only its host if it has a user, a password or a query."""
    return shown_url(given) if "@" in given or "?" in given else given


def shown_uri(uri: str) -> str:
    """Return a URI of a hypervisor without its password; its query names files, and no secret."""
    return re.sub(r"(://[^/@:?]*):[^/?]*@", rf"\1:{HIDDEN}@", uri)


def shown_text(text: str) -> str:
    """Return a text with redacted addresses."""
    return _ADDRESS.sub(lambda found: shown_address(found[0]), text)


def shown_tokens(text: str) -> str:
    """Return a text with tokens shortened to their id."""
    return _TOKEN.sub(rf"fw_\1_{HIDDEN}", text)


def secrets_in(url: str) -> Iterator[str]:
    """Yield the parts of a URL that may be secret, the longest first."""
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    names = parts.path.split("/")
    whole = [parts.path, f"{parts.path}?{parts.query}", parts.query, user, *user.split(":", 1)[1:]]
    values = [value for _, value in parse_qsl(parts.query)]
    found = {*whole, *(each for each in (*names, *values) if len(each) >= _LONG)} - {"", "/", "?", "/?"}
    yield from sorted({*found, *map(unquote, found)}, key=len, reverse=True)


def secrets_among(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of an environment that may be secret, by name or form; the longest first."""
    found = {value for name, value in environment.items() if value and _may_be_secret(name, value)}
    return tuple(sorted(found, key=len, reverse=True))


def _may_be_secret(name: str, value: str) -> bool:
    is_word = len(value) < _LONG or value.startswith("/") or any(map(str.isspace, value))
    return not is_word or _SECRET_NAME.search(name) is not None


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """Remove secrets from a text of another program."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN) if secret else text
    return text
