"""Certificates of nodes: what is wrong with one is said in one sentence, with the remedy."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forewarn.cluster.peers.certificates import PeerCertificates, explain
from forewarn.core.errors import BadInput
from tests.cluster.peers.authority import Authority


def warning(certificates: PeerCertificates) -> str:
    return certificates.warning(datetime.now(UTC))


def test_a_valid_certificate_is_no_reason_for_a_warning(authority: Authority) -> None:
    """A certificate that the other nodes will accept for a month."""
    assert warning(authority.files()) == ""


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("127.0.0.9", "make one with subjectAltName IP:127.0.0.9"),
        ("a.test", "make one with subjectAltName DNS:a.test"),
    ],
)
def test_a_certificate_must_name_the_address_of_its_node(authority: Authority, host: str, said: str) -> None:
    """The other nodes check the address that they call."""
    assert warning(authority.files(host=host)).endswith(f"n1.pem does not name {host}; {said}")


def test_an_expired_certificate_is_warned_of(authority: Authority) -> None:
    """It was valid until yesterday."""
    assert warning(authority.certify("expired", days=0)).endswith("expired.pem has expired; renew it")


def test_a_certificate_that_expires_soon_is_warned_of(authority: Authority) -> None:
    """Two weeks before its end, which is when it can still be renewed at leisure."""
    certificates = authority.files()

    assert certificates.warning(datetime.now(UTC) + timedelta(days=15)) == ""
    assert "n1.pem expires at " in certificates.warning(datetime.now(UTC) + timedelta(days=17))


@pytest.mark.parametrize("use", ["serverAuth", "clientAuth"])
def test_a_certificate_is_for_both_sides(authority: Authority, use: str) -> None:
    """A node is called and calls with the same certificate."""
    said = warning(authority.certify(use, use=use))

    assert said.endswith("is not for this purpose; make one with extendedKeyUsage serverAuth and clientAuth")


def test_a_certificate_of_another_authority_is_warned_of(authority: Authority, foreign_authority: Authority) -> None:
    """The node trusts one authority and shows a certificate of another."""
    said = warning(foreign_authority.files("n1", authority))

    assert said.endswith("n1.pem is not signed by the authority of this cluster (cluster_authority)")


def test_files_that_cannot_be_used_are_refused_by_name(authority: Authority, tmp_path: Path) -> None:
    """The message names the setting, the file and the remedy."""
    missing, text = tmp_path / "missing.pem", tmp_path / "text.pem"
    text.write_text("no certificate", encoding="ascii")
    good = authority.certificate

    with pytest.raises(BadInput, match=r"cluster_authority .*missing\.pem cannot be used: No such file"):
        PeerCertificates(good, good, missing, "n1")
    with pytest.raises(BadInput, match=r"cluster_authority .*text\.pem cannot be used"):
        PeerCertificates(good, good, text, "n1")
    with pytest.raises(
        BadInput, match=r"cluster_certificate .*missing\.pem and cluster_key .*cannot be used: No such"
    ):
        PeerCertificates(missing, missing, good, "n1")
    with pytest.raises(BadInput, match=r"cluster_certificate .* and cluster_key .*cannot be used"):
        PeerCertificates(good, text, good, "n1")


def test_no_other_authority_counts_and_old_tls_is_not_spoken(authority: Authority) -> None:
    """What the system trusts is not trusted here."""
    for context in (authority.files().server.context, authority.files().client):
        assert len(context.get_ca_certs()) == 1
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_what_the_network_says_is_passed_on() -> None:
    """Errors that have nothing to do with certificates."""
    assert (
        explain(ConnectionRefusedError(111, "Connection refused"), "n2") == "cannot be reached (Connection refused)"
    )
    assert explain(TimeoutError(), "n2") == "cannot be reached (timed out)"


def test_renewed_files_are_read_without_a_restart(authority: Authority) -> None:
    """A file that cannot be used changes nothing."""
    certificates = authority.certify("renewed", days=0)
    assert "has expired" in warning(certificates)

    authority.certify("renewed")
    certificates.read_again()()
    assert warning(certificates) == ""

    known = authority.certificate.read_bytes()
    authority.certificate.write_bytes(known + known)
    with pytest.raises(BadInput, match="has changed: restart the node"):
        certificates.read_again()
    authority.certificate.write_bytes(known)

    authority.path("renewed.key").write_text("no key", encoding="ascii")
    with pytest.raises(BadInput, match=r"cluster_key .*renewed\.key cannot be used"):
        certificates.read_again()
    assert warning(certificates) == ""
