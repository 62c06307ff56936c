"""Certificates of the peer port: each node shows one of the cluster's own authority, and asks for one.

No other authority counts, also none that the system trusts.
"""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from forewarn.control.server.sockets import Certificate
from forewarn.core.errors import BadInput

_WARN_BEFORE = timedelta(days=14)
_VERIFICATION = {
    9: "is not valid yet; compare the clocks of both nodes",
    10: "has expired; renew it",
    18: "is not signed by the authority of this cluster (cluster_authority)",
    19: "is not signed by the authority of this cluster (cluster_authority)",
    20: "is not signed by the authority of this cluster (cluster_authority)",
    21: "is not signed by the authority of this cluster (cluster_authority)",
    26: "is not for this purpose; make one with extendedKeyUsage serverAuth and clientAuth",
    62: "does not name {host}; make one with subjectAltName DNS:{host}",
    64: "does not name {host}; make one with subjectAltName IP:{host}",
}
"""What OpenSSL finds wrong with a certificate, by its number, and the remedy."""


class PeerCertificates:
    """Certificate, key and authority of this node, read from files."""

    def __init__(self, certificate: Path, key: Path, authority: Path, host: str) -> None:
        """``host`` is the name or address by which other nodes call this one. Raise BadInput for useless files."""
        self._certificate = certificate
        self._key = key
        self._authority = authority
        self._host = host
        self.client = self._context(ssl.PROTOCOL_TLS_CLIENT)
        """For requests to other nodes; their certificates must name the address that is called."""
        self._authority_at_start = authority.read_bytes()
        self.server = Certificate(self._context(ssl.PROTOCOL_TLS_SERVER))
        """For the peer port: a caller without a certificate of the authority is refused."""

    def read_again(self) -> Callable[[], None]:
        """Read the files again; raise BadInput for useless ones. What is returned lets new connections use them."""
        server, client = self._context(ssl.PROTOCOL_TLS_SERVER), self._context(ssl.PROTOCOL_TLS_CLIENT)
        if self._authority.read_bytes() != self._authority_at_start:
            raise BadInput(f"cluster_authority {self._authority} has changed: restart the node")

        def renew() -> None:
            self.client = client
            self.server.renew(server)

        return renew

    def warning(self, now: datetime) -> str:
        """Return what is wrong with the own certificate, and the remedy; nothing if the other nodes accept it."""
        try:
            expires_at = self._expiry()
        except ssl.SSLError as error:
            return f"cluster_certificate {self._certificate} {_verification(error, self._host)}"
        if now > expires_at - _WARN_BEFORE:
            return f"cluster_certificate {self._certificate} expires at {expires_at:%Y-%m-%d %H:%M} UTC; renew it"
        return ""

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(self._authority)
        except (OSError, ssl.SSLError) as error:
            raise BadInput(
                f"cluster_authority {self._authority} cannot be used: {_said(error)};"
                " give the certificate of the authority that signed those of the nodes, in PEM"
            ) from None
        try:
            context.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError) as error:
            raise BadInput(
                f"cluster_certificate {self._certificate} and cluster_key {self._key} cannot be used:"
                f" {_said(error)}; give a certificate and its key, both in PEM"
            ) from None
        return context

    def _expiry(self) -> datetime:
        """Return until when the own certificate is valid, after it has been shown to itself from both sides."""
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.client.wrap_bio(to_client, to_server, server_hostname=self._host)
        server = self.server.context.wrap_bio(to_server, to_client, server_side=True)
        pending = [client, server]
        while pending:
            side = pending.pop(0)
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pending.append(side)
        shown = client.getpeercert() or {}
        return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(shown["notAfter"])), UTC)


def explain(error: OSError, host: str) -> str:
    """Return why a node could not be talked to, as a predicate: "cannot be reached (timed out)"."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"is not trusted: its certificate {_verification(error, host)}"
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "does not speak TLS; is that its address for other nodes (cluster HOST:PORT)?"
    return f"cannot be reached ({_said(error)})"


def _verification(error: ssl.SSLError, host: str) -> str:
    known = _VERIFICATION.get(getattr(error, "verify_code", 0))
    return known.format(host=host) if known else f"is not accepted ({getattr(error, 'verify_message', '') or error})"


def _said(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return error.strerror or str(error) or type(error).__name__
