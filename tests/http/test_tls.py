"""Clients of TLS: they check who answers, and accept what private authorities make."""

import ssl
import subprocess
from pathlib import Path

import pytest

from forewarn.http.tls import make_client_context

_AUTHORITY = """
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority \\
    -keyout authority.key -out authority.pem
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=other -keyout o.key -out other.pem
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server -keyout server.key -out server.csr
printf 'subjectAltName=DNS:localhost\\nauthorityKeyIdentifier=none\\nsubjectKeyIdentifier=none\\n' > server.ext
openssl x509 -req -days 2 -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -extfile server.ext \\
    -out server.pem
"""


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    subprocess.run(["sh", "-ec", _AUTHORITY], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def connect(client: ssl.SSLContext, directory: Path, host: str) -> None:
    """Let a client and a server agree, without a network."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / "server.pem", directory / "server.key")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(down, up, server_hostname=host), server.wrap_bio(up, down, server_side=True)]
    for _ in range(3):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


def test_certificates_without_key_identifiers_are_accepted(certificates: Path) -> None:
    """Whichever Python runs: from 3.13 on it refuses them by default."""
    connect(make_client_context(str(certificates / "authority.pem")), certificates, "localhost")
    text = (certificates / "authority.pem").read_text("ascii")
    connect(make_client_context(pem=text), certificates, "localhost")


@pytest.mark.parametrize(("authority", "host"), [("authority.pem", "elsewhere"), ("other.pem", "localhost")])
def test_another_host_and_another_authority_are_refused(certificates: Path, authority: str, host: str) -> None:
    """Accepting more certificates does not mean trusting more of them."""
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(make_client_context(str(certificates / authority)), certificates, host)
