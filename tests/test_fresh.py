"""``make test-fresh``: what it takes from this machine, and what it says where it cannot begin."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import fresh

ROOT = Path(__file__).parents[1]


def test_only_what_reaches_archives_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of pip, proxies and certificates; nothing else of whoever runs it."""
    for name in ("PIP_CERT", "https_proxy", "HTTP_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "SECRET", "HOME"):
        monkeypatch.setenv(name, "value")

    taken = set(fresh.settings())

    assert {"PIP_CERT", "https_proxy", "HTTP_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"} <= taken
    assert not {"SECRET", "HOME"} & taken


def test_local_indexes_of_pip_are_there_too(tmp_path: Path) -> None:
    """An index of files is mounted whole, for its links lead out of its list; what is elsewhere is fetched."""
    (tmp_path / "index" / "simple").mkdir(parents=True)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "pip.conf").write_text(
        f"[global]\nfind-links = {tmp_path}/wheels\nextra-index-url = file://{tmp_path}/index/simple"
        " https://mirror.example/simple\ncert = /etc/ssl/certs\n"
    )

    places = fresh.pip_places((tmp_path / "pip.conf",))
    assert {f"{tmp_path}/index", f"{tmp_path}/wheels"} <= set(places)
    assert not {place for place in places if "mirror" in place or place.startswith("/etc")}


@pytest.mark.end_to_end
def test_an_unknown_release_is_refused_by_its_name() -> None:
    """With those that there are, before anything is made."""
    command = [sys.executable, str(ROOT / "tools" / "fresh.py"), "sarge"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran.returncode == 2
    assert "sarge: the releases are bookworm and trixie" in ran.stderr
