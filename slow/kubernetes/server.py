"""A real Kubernetes API server on a real etcd."""

import http.client
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slow.kubernetes.cluster import ADMIN, AGENT, NOBODY, Cluster, Refused

TOKENS = f"""\
{ADMIN},admin,admin,"system:masters"
{AGENT},system:serviceaccount:forewarn:forewarn-agent,agent
{NOBODY},nobody,nobody
"""
AUDIT = """\
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Metadata
  users: ["system:serviceaccount:forewarn:forewarn-agent"]
  omitStages: [RequestReceived]
- level: None
"""


class Server:
    """The two processes, and what they write, in one directory."""

    def __init__(self, program: str, place: Path) -> None:
        etcd_port, peer_port, port = _free_ports(3)
        etcd, peer = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
        _make_certificates(place)
        (place / "tokens.csv").write_text(TOKENS)
        (place / "audit.yaml").write_text(AUDIT)
        self.cluster = Cluster(f"https://127.0.0.1:{port}", place)
        self._place = place
        # The controller that would make the tokens of new namespaces does not run, hence no ServiceAccount plugin.
        self._command = f"""
            {program} --etcd-servers={etcd} --secure-port={port} --bind-address=127.0.0.1
            --advertise-address=127.0.0.1 --endpoint-reconciler-type=none --anonymous-auth=false
            --tls-cert-file={place}/server.pem --tls-private-key-file={place}/server.key
            --client-ca-file={place}/ca.pem --token-auth-file={place}/tokens.csv --authorization-mode=RBAC
            --service-account-issuer=https://kubernetes.test --service-account-key-file={place}/server.key
            --service-account-signing-key-file={place}/server.key --disable-admission-plugins=ServiceAccount
            --audit-log-path={place}/audit.log --audit-policy-file={place}/audit.yaml --cert-dir={place}
        """
        self._etcd = self._run(f"""
            etcd --data-dir={place}/etcd --unsafe-no-fsync --listen-client-urls={etcd} --advertise-client-urls={etcd}
            --listen-peer-urls={peer} --initial-advertise-peer-urls={peer} --initial-cluster=default={peer}
        """)
        self._api = self._run(self._command)

    def stop_answering(self) -> None:
        self._api.kill()
        self._api.wait()

    def answer_again(self) -> None:
        self._api = self._run(self._command)
        self.wait_until_ready()

    def close(self) -> None:
        self.stop_answering()
        self._etcd.kill()
        self._etcd.wait()

    def wait_until_ready(self) -> None:
        until = time.monotonic() + 120
        while True:
            try:
                self.cluster.ask("GET", "/readyz")
                # Rights are made while it starts, and the tests need them.
                self.cluster.ask("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin")
            except (OSError, http.client.HTTPException, Refused) as error:
                has_ended = any(each.poll() is not None for each in (self._etcd, self._api))
                if has_ended or time.monotonic() > until:
                    said = "\n".join(log.read_text()[-1000:] for log in sorted(self._place.glob("*.log")))
                    raise AssertionError(f"the API server does not come up: {error}\n{said}") from None
                time.sleep(0.2)
            else:
                return

    def _run(self, command: str) -> "subprocess.Popen[bytes]":
        words = command.split()
        with (self._place / f"{Path(words[0]).name}.log").open("ab") as log:
            return subprocess.Popen(words, stdout=log, stderr=log)


@contextmanager
def running_server(program: str, place: Path) -> Iterator[Server]:
    server = Server(program, place)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.close()


def _make_certificates(place: Path) -> None:
    """Make an authority, a certificate for the server, and one that makes its bearer an administrator."""
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=kubernetes-ca",
            "-keyout", f"{place}/ca.key", "-out", f"{place}/ca.pem")  # fmt: skip
    for name, subject in (("server", "/CN=kube-apiserver"), ("admin", "/O=system:masters/CN=certified")):
        (place / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", subject,
                "-keyout", f"{place}/{name}.key", "-out", f"{place}/{name}.csr")  # fmt: skip
        openssl("x509", "-req", "-in", f"{place}/{name}.csr", "-CA", f"{place}/ca.pem", "-CAkey", f"{place}/ca.key",
                "-CAcreateserial", "-days", "2", "-extfile", f"{place}/names",
                "-out", f"{place}/{name}.pem")  # fmt: skip


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
