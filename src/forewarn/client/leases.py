"""Reads option 245 from lease files of DHCP clients, and the address that discovery tools store in the registry."""

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

from forewarn.client.dhcp import COOKIE, address, endpoint_in

PATTERNS = (
    "/run/systemd/netif/leases/*",  # systemd-networkd
    "/var/lib/dhcp/*.lease*",  # dhclient on Debian
    "/var/lib/dhclient/*.lease*",  # dhclient on Red Hat
    "/var/lib/NetworkManager/*.lease",  # NetworkManager, by itself and with dhclient
    "/run/NetworkManager/devices/*",
    "/var/lib/dhcpcd/*.lease",  # dhcpcd stores the raw message
    "/var/lib/dhcpcd5/*.lease",
    "/run/dhcpcd/hook-state/*",
)
REGISTRY = (r"Software\ScheduledEvents", "ScheduledEventsIp")
_LONGEST = 1 << 20
_TEXT = re.compile(
    r"(?:option[ _-]|unknown[ _-]|private[ _-]|option unknown-|option option-)245[ =]+"
    r"(?:\"((?:[^\"\\]|\\.)*)\"|([0-9A-Fa-f]{1,2}(?::[0-9A-Fa-f]{1,2}){3}|[0-9A-Fa-f]{8}|[0-9]{1,3}(?:\.[0-9]{1,3}){3}))",
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\([0-7]{3}|.)", re.DOTALL)


def leased_endpoints(patterns: Iterable[str] = PATTERNS) -> tuple[str, ...]:
    """Return the addresses in the lease files of this machine without repetition, newest files first."""
    files = sorted(_files(patterns), key=_age, reverse=True)
    return tuple(dict.fromkeys(found for file in files for found in endpoints_in(_content(file))))


def endpoints_in(content: bytes) -> tuple[str, ...]:
    """Return the addresses in one lease file, newest lease first: programs append."""
    if content[0xEC:0xF0] == COOKIE:
        found = endpoint_in(content)
        return (found,) if found else ()
    text = content.decode("latin-1")
    spelled = [_read(match[1], match[2]) for match in _TEXT.finditer(text)]
    return tuple(dict.fromkeys(found for found in reversed(spelled) if found))


def registered_endpoints() -> tuple[str, ...]:
    """Return the address in the Windows registry, if any."""
    try:
        registry = import_module("winreg")
    except ImportError:
        return ()
    try:
        with registry.OpenKey(registry.HKEY_LOCAL_MACHINE, REGISTRY[0]) as key:
            value = str(registry.QueryValueEx(key, REGISTRY[1])[0]).strip()
    except OSError:
        return ()
    return (value,) if value else ()


def _read(quoted: str | None, bare: str | None) -> str:
    if quoted is not None:
        # dhclient writes printable bytes as text, others as octal numbers.
        letters = _ESCAPE.sub(lambda match: chr(int(match[1], 8) & 0xFF) if len(match[1]) == 3 else match[1], quoted)
        return address(letters.encode("latin-1"))
    bare = bare or ""
    if "." in bare:
        return bare if all(int(part) < 256 for part in bare.split(".")) else ""
    if ":" in bare:
        return address(bytes(int(part, 16) for part in bare.split(":")))
    return address(bytes.fromhex(bare))


def _files(patterns: Iterable[str]) -> Iterator[Path]:
    for pattern in patterns:
        folder, _, name = pattern.rpartition("/")
        try:
            yield from Path(folder).glob(name)
        except OSError:
            continue  # no permission


def _age(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(_LONGEST)
    except OSError:
        return b""
