"""Secrets are planted wherever one is taken; no log, history, list, stream, metric or error repeats any of them."""

import hashlib
import http.client
import json
import os
import signal
import stat
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from forewarn.control.bodies import SubscriptionBody, TokenBody
from forewarn.control.client import ControlClient
from forewarn.control.server.sockets import LIMITS
from forewarn.core.model import Role, SubscriptionKind
from tests.harness import FLEET
from tests.ports import free_port

pytestmark = pytest.mark.end_to_end

FOREWARN = str(Path(sys.executable).parent / "forewarn")
SIGNING = "whsec_" + b64encode(b"PLANTED-signing-secret-of-a-webhook").decode()
DRIVER = "whsec_" + b64encode(b"PLANTED-secret-of-the-webhook-driver").decode()
HANDLER = "whsec_" + b64encode(b"PLANTED-secret-of-the-agent's-handler").decode()
WRONG_TOKEN = "fw_0123456789abcdef_" + "PLANTEDx" * 5 + "abc"
PLANTED = [
    "PLANTED",
    *(secret.removeprefix("whsec_") for secret in (SIGNING, DRIVER, HANDLER)),
    b64encode(b"ada:PLANTEDpassword").decode(),
    b64encode(b"driver:PLANTEDpassword").decode(),
]
"""What must not be seen; a token's secret and its hash join them when they are drawn."""
PATIENCE = 60.0


class _Echo(BaseHTTPRequestHandler):
    """A receiver that refuses, and repeats all that it was sent."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        said = f"{self.path} {self.headers} {body!r}".encode()
        self.send_response(400 if "drive" in self.path else 500, f"no {self.path}")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def receiver() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def write_settings(directory: Path, receiver: str, log_format: str) -> None:
    (directory / "fleet.toml").write_text(FLEET, encoding="utf-8")
    for name, secret in (("driver.secret", DRIVER), ("mail.secret", "PLANTEDmail"), ("handler.secret", HANDLER)):
        (directory / name).write_text(secret, encoding="utf-8")
        (directory / name).chmod(0o600)
    host, _, port = receiver.partition(":")
    (directory / "forewarn.toml").write_text(
        f"""
        data = "data"
        fleet = "fleet.toml"
        hurry = 900
        metadata = "127.0.0.1:{free_port()}"
        control = "127.0.0.1:{free_port()}"
        log_level = "debug"
        log_format = "{log_format}"
        driver = "webhook"
        [drivers.webhook]
        url = "http://driver:PLANTEDpassword@{receiver}/drive/PLANTEDpath?key=PLANTEDquery"
        secret_file = "driver.secret"
        [mail]
        host = "{host}"
        port = {port}
        tls = "tls"
        sender = "forewarn@example.org"
        user = "forewarn"
        password_file = "mail.secret"
        """,
        encoding="utf-8",
    )
    (directory / "agent.toml").write_text(
        f"""
        name = "web-0"
        state = "agent"
        socket = "off"
        [[rules]]
        handlers = ["tell"]
        [handlers.tell]
        kind = "webhook"
        timeout = "5s"
        url = "http://{receiver}/hooks/PLANTEDhandlerpath?key=PLANTEDquery"
        secret_file = "handler.secret"
        headers = {{ Authorization = "Bearer PLANTEDbearer" }}
        """,
        encoding="utf-8",
    )


class SecretsHarness:
    """A service with planted secrets, and all that was printed so far."""

    def __init__(self, directory: Path, receiver: str) -> None:
        self.directory = directory
        self.receiver = receiver
        self.printed: dict[str, str] = {}
        with (directory / "log").open("w") as log:
            self.service = subprocess.Popen([FOREWARN, "serve"], cwd=directory, stderr=log, env=self._environment)
        deadline = time.monotonic() + PATIENCE
        while not (directory / "data" / "control.sock").exists():
            assert self.service.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)
        self.client = ControlClient.local(directory / "data")

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(encoding="utf-8")

    @property
    def control(self) -> str:
        settings = (self.directory / "forewarn.toml").read_text(encoding="utf-8")
        return settings.partition('control = "')[2].partition('"')[0]

    @property
    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.directory), "XDG_CONFIG_HOME": str(self.directory)}

    def run(self, *arguments: str, given: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a command, and keep what it printed."""
        ran = subprocess.run(
            [FOREWARN, *arguments],
            check=False,
            cwd=self.directory,
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=self._environment | environment,
        )
        self.printed[f"forewarn {' '.join(arguments)}"] = ran.stdout + ran.stderr
        return ran

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> bytes:
        """Send a request to the port, and keep what was answered."""
        connection = http.client.HTTPConnection(self.control, timeout=3.0 if "changes" in path else PATIENCE)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        said = b""
        with suppress(TimeoutError):  # changes come for ever
            while part := answer.read1():
                said += part
        connection.close()
        self.printed[f"{method} {path} {sorted(headers)} {len(self.printed)}"] = said.decode()
        return said


def plant(harness: SecretsHarness) -> str:
    """Add subscriptions and a token, which are shown their secrets once; return the token."""
    add = harness.client.add_subscription
    for name, kind, target in (
        (
            "hook",
            SubscriptionKind.WEBHOOK,
            f"http://ada:PLANTEDpassword@{harness.receiver}/in/PLANTEDpath?k=PLANTEDquery",
        ),
        ("slack", SubscriptionKind.SLACK, f"http://{harness.receiver}/services/T0PLANTED/B0PLANTED/PLANTEDkey"),
        ("teams", SubscriptionKind.TEAMS, f"http://{harness.receiver}/workflows/PLANTEDid?sig=PLANTED%2Bsignature"),
        ("mail", SubscriptionKind.MAIL, "ops@example.org"),
    ):
        secret = SIGNING if kind is SubscriptionKind.WEBHOOK else ""
        add(SubscriptionBody(name=name, kind=kind, target=target, secret=secret))
    return harness.client.create_token(TokenBody(name="ci", role=Role.OPERATOR)).token


def exercise(harness: SecretsHarness, token: str) -> None:
    """Run every kind of command and route, with success and without."""
    harness.run("vm", "restart", "web-0")
    harness.run("host", "freeze", "h1", "--json")
    for name in ("hook", "slack", "teams", "mail"):
        harness.run("subscription", "test", name)
    deadline = time.monotonic() + PATIENCE
    while "Failed" not in harness.run("event", "list", "--all").stdout:
        assert time.monotonic() < deadline, harness.log
        time.sleep(0.2)
    for command in (
        "vm list", "vm show web-0", "group list", "group show web", "host list", "host show h1", "event list --all",
        "event show last", "history", "history --vm web-0", "history --group web", "history --oldest-first",
        "subscription list", "token list", "fleet show", "journal verify", "doctor", "whoami",
    ):  # fmt: skip
        harness.run(*command.split())
        harness.run(*command.split(), "--json")
    harness.run("history", "--csv")
    url = f"https://ada:PLANTEDpassword@{harness.receiver}/PLANTEDpath?key=PLANTEDquery"
    for refused in (url.replace("https", "ftp"), "no-scheme/PLANTEDpath", "http://[PLANTED", "http:///PLANTED"):
        harness.run("subscription", "add", "x", refused)
        if "@" in refused:
            harness.run("subscription", "add", "x", f"{refused} ", "--kind", "slack")
            harness.run("--url", refused, "vm", "list")
            harness.run("login", refused, given=token)
            harness.run("events", "--url", refused)
            harness.run("agent", "--url", refused, "--dry-run")
            harness.run("login", "--url", refused, given=token)
            harness.run("conformance", "--url", refused)
    harness.run("--url", url, "vm", "list", FOREWARN_TOKEN=token)
    harness.run("login", "--url", f"http://{harness.control}", given=WRONG_TOKEN)
    harness.run("--url", f"http://{harness.control}", "vm", "list", FOREWARN_TOKEN=WRONG_TOKEN)
    harness.run("--url", f"http://{harness.control}", "vm", "list", FOREWARN_TOKEN=f"{WRONG_TOKEN}\n\x01é")
    harness.run("login", "--url", f"http://{harness.control}", given=token)
    harness.run("subscription", "add", "hook", f"http://{harness.receiver}/PLANTEDother")
    harness.run("agent", "check", "--json")
    harness.run("agent", "test", "freeze", "--notice", "2s")
    harness.run("agent", "test", "freeze", "--notice", "2s", "--json")
    bearer = {"Authorization": f"Bearer {token}"}
    routes = json.loads(harness.ask("GET", "/openapi.json", {}))["paths"]
    known = {"name": "web-0", "id": "hook"}
    for path in (path for path, methods in routes.items() if "get" in methods and not path.endswith("/changes")):
        filled = path
        for name, value in known.items():
            filled = filled.replace(f"{{{name}}}", value)
        harness.ask("GET", filled, bearer)
        harness.ask("GET", filled, {})
    harness.ask("GET", "/v1/changes?after=1", bearer)
    for headers in (
        {"Authorization": f"Bearer {WRONG_TOKEN}"},
        {"Authorization": "Basic PLANTED"},
        bearer | {"Idempotency-Key": "a key"},
    ):
        for body in (b"PLANTED", b'{"name": "x", "secret": "PLANTED"}'):
            harness.ask("POST", "/v1/subscriptions", headers, body)
    for secret in ("PLANTED", SIGNING[:20]):
        fields = {"name": "y", "kind": "webhook", "target": url, "secret": secret}
        harness.ask("POST", "/v1/subscriptions", bearer, json.dumps(fields).encode())
    harness.ask("GET", "/v1/subscriptions/hook", bearer)


@pytest.mark.parametrize("log_format", ["human", "json"])
def test_no_planted_secret_is_seen(tmp_path: Path, receiver: str, log_format: str) -> None:
    """At the level debug, over the socket, over the port, by commands and by the agent, well and refused."""
    write_settings(tmp_path, receiver, log_format)
    harness = SecretsHarness(tmp_path, receiver)
    try:
        token = plant(harness)
        secret = token.split("_", 2)[2]
        exercise(harness, token)
        harness.client.rotate_token("ci")
        harness.run("history", "--json", "--limit", "1000")
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").rglob("*")}
    finally:
        harness.client.close()
        harness.service.send_signal(signal.SIGTERM)
        harness.service.wait(PATIENCE + LIMITS.arrival)
    harness.printed["the log"] = harness.log
    assert "subscription-set" in harness.log
    assert "token-created" in harness.printed["forewarn history --json"]
    assert any("event: subscription-set" in text for where, text in harness.printed.items() if "/changes" in where)

    seen = {
        (where, secret_)
        for where, text in harness.printed.items()
        for secret_ in (*PLANTED, secret, hashlib.sha256(secret.encode()).hexdigest())
        if secret_ in text
    }

    assert not seen, "\n".join(f"{where}: {harness.printed[where]}" for where, _ in seen)
    assert {mode for path, mode in modes.items() if path.is_dir()} <= {0o700}
    assert {mode for path, mode in modes.items() if not path.is_dir()} == {0o600}
