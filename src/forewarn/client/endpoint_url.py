"""Parses the address of a service: a host, a host and port, or a URL."""

import re

import msgspec

from forewarn.core.errors import BadInput
from forewarn.core.redaction import shown_address

DOCUMENT = "/metadata/scheduledevents"
OWN_NAME = "/metadata/instance/compute/name"
_ADDRESS = re.compile(
    r"(?:http://)?(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[\w.-]+))(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[!-\"$->@-~]*)?(?:\?api-version=(?P<version>[\w-]*))?",
    re.IGNORECASE | re.ASCII,
)


class EndpointUrl(msgspec.Struct, frozen=True):
    """The address of a service and the path of its document."""

    host: str
    port: int = 80
    path: str = DOCUMENT

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 80 else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL of the document, without the api-version."""
        return f"http://{self.authority}{self.path}"

    @property
    def name_path(self) -> str:
        """The path of a VM's own name."""
        before = self.path[: -len(DOCUMENT)] if self.path.lower().endswith(DOCUMENT) else ""
        return before + OWN_NAME


def read_endpoint_url(text: str) -> EndpointUrl:
    """Parse an address; an api-version at its end is ignored."""
    match = _ADDRESS.fullmatch(text.strip())
    port = int(match["port"] or 80) if match else 0
    if not match or not 0 < port < 65_536:
        given = shown_address(text)
        raise BadInput(
            f"{given!r} is not a valid service address; write it like http://169.254.169.254, 127.0.0.1:8254"
        )
    return EndpointUrl(match["six"] or match["host"], port, (match["path"] or "").rstrip("/") or DOCUMENT)


def read_version(text: str) -> str:
    """Return the api-version at the end of an address; empty if there is none."""
    match = _ADDRESS.fullmatch(text.strip())
    return (match["version"] or "") if match else ""
