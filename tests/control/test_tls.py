"""TLS on the control port, and what goes without: a real certificate, a real service, real commands."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_serve import answers
from tests.harness import FLEET
from tests.ports import free_port

pytestmark = pytest.mark.end_to_end

FOREWARN = str(Path(sys.executable).parent / "forewarn")

CERTIFY = """
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout key.pem -out certificate.pem
-subj /CN=forewarn -addext subjectAltName=DNS:localhost,IP:127.0.0.1
"""


def run(directory: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FOREWARN_")}
    home = {"XDG_CONFIG_HOME": str(directory / "home")}
    return subprocess.run(
        [FOREWARN, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=directory,
        env=kept | home | environment,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A service that speaks TLS, with a certificate of its own making."""
    directory = tmp_path_factory.mktemp("site")
    (directory / "fleet.toml").write_text(FLEET, encoding="utf-8")
    subprocess.run(shlex.split(CERTIFY), check=True, capture_output=True, cwd=directory)
    port = free_port()
    command = [FOREWARN, "serve", "--data", "data", "--fleet", "fleet.toml", "--metadata", f"127.0.0.1:{free_port()}"]
    command += [
        "--control",
        f"127.0.0.1:{port}",
        "--control-certificate",
        "certificate.pem",
        "--control-key",
        "key.pem",
    ]
    with (directory / "log").open("w", encoding="utf-8") as log:
        service = subprocess.Popen(command, cwd=directory, stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        while not answers(directory / "data" / "control.sock"):
            assert service.poll() is None, (directory / "log").read_text(encoding="utf-8")
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield directory, f"https://127.0.0.1:{port}"
    finally:
        service.terminate()
        service.wait(60)


def test_a_login_over_tls_works_with_the_authority_that_vouches(site: tuple[Path, str]) -> None:
    """And is refused without it; the unix socket goes on without TLS."""
    directory, url = site
    made = json.loads(
        run(
            directory, "--data", "data", "token", "create", "ada", "--role", "owner", "--group", "web", "--json"
        ).stdout
    )
    (directory / "token").write_text(made["token"], encoding="utf-8")

    refused = run(directory, "login", "--url", url, "--token-file", "token")
    assert (refused.returncode, "cannot be trusted" in refused.stderr) == (3, True)
    done = run(directory, "login", "--url", url, "--token-file", "token", "--authority", "certificate.pem")
    assert (done.returncode, done.stderr) == (0, "")
    listed = run(directory, "--url", url, "vm", "list", "--json")
    assert [vm["name"] for vm in json.loads(listed.stdout)] == ["web-0", "web-1"]


def test_the_port_speaks_nothing_but_tls(site: tuple[Path, str]) -> None:
    """A request in the clear is not answered."""
    directory, url = site
    plain = run(directory, "--url", url.replace("https", "http"), "vm", "list", FOREWARN_TOKEN="fw_x")  # noqa: S106

    assert plain.returncode == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--control", "0.0.0.0:0"], "where tokens can be read on the network"),
        (
            ["--control", "127.0.0.1:0", "--control-key", "key.pem"],
            "control_key needs control_certificate",
        ),
        (["--control", "127.0.0.1:0", "--control-certificate", "fleet.toml"], "both in PEM"),
    ],
)
def test_a_port_that_would_not_be_safe_is_refused_at_start(
    site: tuple[Path, str], arguments: list[str], said: str
) -> None:
    """Unless it is explicitly allowed."""
    directory, _ = site
    metadata = f"127.0.0.1:{free_port()}"
    ran = run(directory, "serve", "--data", "other", "--metadata", metadata, *arguments)

    assert (ran.returncode, said in ran.stderr) == (2, True)
    assert "Traceback" not in ran.stderr
