"""A certificate that nobody trusts unless told to, for the tests of this folder."""

import ssl
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a certificate for localhost and its key."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    key = path.with_name("key.pem")
    asked = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    made = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        str(key),
        "-out",
        str(path),
    ]
    subprocess.run(["openssl", "req", "-x509", *made, *asked], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + key.read_bytes())
    return path


@pytest.fixture
def served(certificate: Path) -> ssl.SSLContext:
    """What a server shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def trusting(certificate: Path) -> ssl.SSLContext:
    """Trust in that certificate."""
    return ssl.create_default_context(cafile=str(certificate))
