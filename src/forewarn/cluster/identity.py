"""Keeps two clusters apart: a node belongs to one database, and nodes of one database to one authority.

The node keeps the id of its cluster in its data directory. The database keeps the fingerprints of the certificates
in ``cluster_authority`` of the node that started last. A node that has none of these is of another cluster; to change
the authority, the nodes have both certificates for a while.
"""

import ssl
from hashlib import sha256
from pathlib import Path

import msgspec

from forewarn.core.errors import BadInput
from forewarn.files import write_atomically
from forewarn.journal.shared import SupportsIdentity

_FILE = "cluster-id"
_BEGIN = "-----BEGIN CERTIFICATE-----"
_END = "-----END CERTIFICATE-----"


class ClusterIdentity(msgspec.Struct, frozen=True):
    """What a node knows of its cluster: where it notes the id, and its authority."""

    data: Path
    authority: Path | None

    def check(self, journal: SupportsIdentity) -> None:
        """Join the cluster of a journal; raise BadInput where this node is of another one."""
        id_ = journal.cluster_id()
        is_known = self._is_known(id_, journal.place)
        if self.authority and not journal.join(fingerprints := _fingerprints(self.authority)):
            raise BadInput(
                f"{journal.place} belongs to nodes with another authority than {self.authority}"
                f" ({', '.join(each[:16] for each in fingerprints)}): give all nodes of a cluster the same"
                " cluster_authority, and each cluster a database of its own; to change the authority, put both"
                " certificates into the files of all nodes first"
            )
        if not is_known:
            with write_atomically(self.data / _FILE) as file:
                file.write(f"{id_}\n".encode())

    def _is_known(self, id_: str, place: str) -> bool:
        """Return whether this node has noted the id; raise BadInput where it has noted another."""
        path = self.data / _FILE
        known = path.read_text("ascii").strip() if path.exists() else ""
        if known and known != id_:
            raise BadInput(
                f"{place} is of cluster {id_}, and this node of cluster {known}: name the database of that cluster in"
                f" journal; if this node is to belong to the other one, delete {path}"
            )
        return bool(known)


def _fingerprints(authority: Path) -> tuple[str, ...]:
    blocks = authority.read_text("ascii", errors="replace").split(_BEGIN)[1:]
    certificates = [_BEGIN + block.partition(_END)[0] + _END for block in blocks]
    return tuple(sha256(ssl.PEM_cert_to_DER_cert(each)).hexdigest() for each in certificates)
