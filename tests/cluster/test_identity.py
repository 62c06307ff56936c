"""A node belongs to one cluster, and a database to the nodes of one authority."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from forewarn.cluster.identity import ClusterIdentity
from forewarn.core.errors import BadInput
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.journal import PostgresJournal
from tests.cluster.peers.authority import Authority


class FakeJournal:
    """A journal of a cluster, without a database."""

    place = "postgresql://db/forewarn"

    def __init__(self, id_: str) -> None:
        self._id = id_
        self._noted: set[str] = set()

    def cluster_id(self) -> str:
        return self._id

    def join(self, fingerprints: Sequence[str]) -> bool:
        is_same = not self._noted or bool(self._noted & set(fingerprints))
        self._noted = set(fingerprints) if is_same else self._noted
        return is_same


def test_a_node_stays_with_its_cluster(tmp_path: Path) -> None:
    """The message names the file to delete where it is to change."""
    identity = ClusterIdentity(tmp_path, None)
    identity.check(FakeJournal("one"))
    identity.check(FakeJournal("one"))
    with pytest.raises(BadInput, match=r"is of cluster two, and this node of cluster one: .* delete .*cluster-id"):
        identity.check(FakeJournal("two"))

    (tmp_path / "cluster-id").unlink()
    identity.check(FakeJournal("two"))


@pytest.mark.end_to_end
def test_a_node_of_another_authority_is_refused(tmp_path: Path) -> None:
    """The authority is changed by way of files with both certificates."""
    first, second = Authority(tmp_path / "first"), Authority(tmp_path / "second")
    both = tmp_path / "both.pem"
    both.write_text(first.certificate.read_text() + second.certificate.read_text())
    journal = FakeJournal("one")
    ClusterIdentity(tmp_path, first.certificate).check(journal)
    (other := tmp_path / "other").mkdir()
    with pytest.raises(BadInput, match="belongs to nodes with another authority"):
        ClusterIdentity(other, second.certificate).check(journal)

    assert not (other / "cluster-id").exists(), "it may still join its own cluster"

    for path in (both, first.certificate, both, second.certificate, second.certificate):
        ClusterIdentity(tmp_path, path).check(journal)
    with pytest.raises(BadInput, match="belongs to nodes with another authority"):
        ClusterIdentity(tmp_path, first.certificate).check(journal)


@pytest.mark.end_to_end
def test_the_database_notes_the_authority(database: str) -> None:
    """The first node decides; afterwards one fingerprint must be the same, and the last node's are noted."""
    journal = PostgresJournal(DatabaseAddress.parse(database))
    id_ = journal.cluster_id()

    assert id_ == journal.cluster_id()
    assert len(id_) == 36
    assert [journal.join(each) for each in (["a"], ["b"], ["a", "b"], ["b"], ["a"])] == [
        True, False, True, True, False,
    ]  # fmt: skip
    journal.close()
