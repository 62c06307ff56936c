"""Certificates of a cluster, made with the openssl program."""

import subprocess
from pathlib import Path

from forewarn.cluster.peers.certificates import PeerCertificates

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class Authority:
    """An authority that signs certificates of nodes."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self.certificate = directory / "authority.pem"
        self._openssl(
            "req", "-x509", *_KEY, "-keyout", "authority.key", "-out", "authority.pem", "-subj", "/CN=authority"
        )

    def certify(
        self, node: str, *, names: str = "IP:127.0.0.1", days: int = 30, use: str = "serverAuth,clientAuth"
    ) -> PeerCertificates:
        """Return the certificate of a node, with this authority's beside it."""
        extensions = self._directory / f"{node}.cnf"
        extensions.write_text(f"subjectAltName={names}\nextendedKeyUsage={use}\n", encoding="ascii")
        self._openssl("req", *_KEY, "-keyout", f"{node}.key", "-out", f"{node}.csr", "-subj", f"/CN={node}")
        signed = ["-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-extfile", extensions.name]
        asked = ["-in", f"{node}.csr", "-out", f"{node}.pem", "-days", str(days)]
        self._openssl("x509", "-req", *asked, *signed)
        return self.files(node)

    def files(
        self, node: str = "n1", authority: "Authority | None" = None, host: str = "127.0.0.1"
    ) -> PeerCertificates:
        """Return a certificate made before; a node that trusts another authority may use it."""
        trusted = (authority or self).certificate
        return PeerCertificates(self._directory / f"{node}.pem", self._directory / f"{node}.key", trusted, host)

    def path(self, name: str) -> Path:
        return self._directory / name

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._directory, check=True, capture_output=True)
