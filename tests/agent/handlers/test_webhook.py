"""The webhook handler, with a real web server in a thread."""

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, HandlerResult
from forewarn.agent.handlers.template import NAMES
from forewarn.agent.handlers.webhook import WebhookHandler, WebhookHandlerSettings
from forewarn.core.errors import BadInput
from forewarn.signature import verify
from forewarn.testing.handler_contract import HandlerContract, HandlerTrial
from tests.agent.handlers.pages import HandlerPage

pytestmark = pytest.mark.end_to_end

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"  # noqa: S105 a test's own


class Receiver:
    """Writes down what it is sent, and answers as it is told to."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.status = 200
        self.said = b"thanks"
        self.hangs = False
        self.released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.command, self.path, dict(self.headers.items()), body))
                if receiver.hangs:
                    receiver.released.wait(20)
                    return
                self.send_response(receiver.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(receiver.said)))
                self.end_headers()
                self.wfile.write(receiver.said)

            def do_PUT(self) -> None:
                self.do_POST()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.place = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def directions(self) -> list[str]:
        return [json.loads(body)["direction"] for *_, body in self.requests]


class WebhookTrial(HandlerTrial):
    """A receiver that was told to get ready, and not yet that it is over."""

    def __init__(self, directory: Path, receiver: Receiver) -> None:
        super().__init__(directory)
        self.receiver = receiver

    def make(self, **more: object) -> WebhookHandler:
        settings: dict[str, object] = {"url": f"http://{self.receiver.place}/hook?a=b"}
        return WebhookHandler.from_settings(settings | more, self.directory)

    def is_ready(self) -> bool:
        return self.receiver.directions()[-1:] == ["do"]

    def hang(self) -> bool:
        self.receiver.hangs = True
        return True

    def do(self, **more: object) -> HandlerResult:
        return self.make(**more).do(self.task(Direction.DO))

    def received(self) -> Any:
        return json.loads(self.receiver.requests[-1][3])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def trial(tmp_path: Path, receiver: Receiver) -> WebhookTrial:
    return WebhookTrial(tmp_path / "tell", receiver)


class TestWebhookHandler(HandlerContract):
    """It keeps the contract."""

    @pytest.fixture
    def trial(self, tmp_path: Path, receiver: Receiver) -> HandlerTrial:
        return WebhookTrial(tmp_path / "tell", receiver)


def test_the_event_is_told_as_json(trial: WebhookTrial) -> None:
    """With the keys of the document, the direction and who tells."""
    assert trial.do() == HandlerDone(detail=f"{trial.receiver.place} answered 200 OK")

    method, path, headers, _ = trial.receiver.requests[-1]
    assert (method, path, headers["Content-Type"]) == ("POST", "/hook?a=b", "application/json")
    assert trial.received()["direction"] == "do"
    assert trial.received()["vm"] == "web-0"
    assert trial.received()["event"]["EventType"] == "Reboot"


def test_every_attempt_bears_the_same_id(trial: WebhookTrial, tmp_path: Path) -> None:
    """So a receiver can drop duplicates; another event, direction or handler has another."""
    event = trial.event()
    for handler in (trial.make(), trial.make()):
        handler.do(trial.task(Direction.DO, event=event))
    trial.make().undo(trial.task(Direction.UNDO, event=event))
    trial.do()
    WebhookTrial(tmp_path / "other", trial.receiver).make().do(trial.task(Direction.DO, event=event))
    first, second, *others = [headers["webhook-id"] for _, _, headers, _ in trial.receiver.requests]

    assert first == second
    assert len({first, *others}) == 4


def test_a_secret_signs(trial: WebhookTrial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a file, read anew each time, or from the environment."""
    (tmp_path / "secret").write_text(SECRET + "\n")
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    for setting in ({"secret_file": str(tmp_path / "secret")}, {"secret_variable": "HOOK_SECRET"}):
        assert isinstance(trial.do(**setting), HandlerDone)
        _, _, headers, body = trial.receiver.requests[-1]
        verify(SECRET, headers, body, datetime.now(UTC))


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"secret_file": "/no/such"}, "the secret /no/such cannot be read: No such file or directory"),
        ({"secret_file": "/bin/true"}, "/bin/true holds no secret; "),
        ({"secret_file": "/dev/null"}, "/dev/null holds no secret; "),
        ({"secret_variable": "NO_SUCH"}, "NO_SUCH holds no secret; "),
    ],
)
def test_without_its_secret_nothing_is_sent(trial: WebhookTrial, setting: dict[str, object], sentence: str) -> None:
    """An unsigned message would be refused, or worse, believed."""
    answer = trial.do(**setting)

    assert isinstance(answer, HandlerFailed)
    assert answer.final
    assert answer.reason.startswith(sentence)
    assert trial.receiver.requests == []


def test_templates_for_do_and_undo(trial: WebhookTrial) -> None:
    """The undo has its own body and address, or those of do."""
    end = f"http://{trial.receiver.place}/end"
    bodies = {"body": '{"text": "$EventType of $Vm"}', "undo_body": '{"text": "over"}'}
    handler = trial.make(**bodies, undo_url=end, method="PUT")
    handler.do(trial.task(Direction.DO))
    assert trial.received() == {"text": "Reboot of web-0"}
    handler.undo(trial.task(Direction.UNDO))
    assert trial.received() == {"text": "over"}
    assert trial.receiver.requests[-1][:2] == ("PUT", "/end")
    trial.make(body='{"text": "$Direction"}').undo(trial.task(Direction.UNDO))
    assert trial.received() == {"text": "undo"}


def test_the_end_need_not_be_told(trial: WebhookTrial) -> None:
    """With undo = false nothing is sent."""
    assert trial.make(undo=False).undo(trial.task(Direction.UNDO)) == HandlerDone()
    assert trial.receiver.requests == []


def test_headers_are_sent_and_replace_ours(trial: WebhookTrial) -> None:
    """In any case of letters."""
    trial.do(headers={"authorization": "Bearer x", "content-type": "text/plain"}, body="$Vm")
    _, _, headers, body = trial.receiver.requests[-1]

    assert headers["authorization"] == "Bearer x"
    assert {key.lower(): value for key, value in headers.items()}["content-type"] == "text/plain"
    assert body == b"web-0"


@pytest.mark.parametrize(
    ("status", "is_final"),
    [(302, True), (400, True), (404, True), (408, False), (425, False), (429, False), (500, False), (503, False)],
)
def test_an_answer_beyond_2xx_is_a_failure(trial: WebhookTrial, status: int, is_final: bool) -> None:  # noqa: FBT001
    """What the receiver will never take is final; redirects are not followed."""
    trial.receiver.status, trial.receiver.said = status, b"too\n bad\x07"
    answer = trial.do()

    assert isinstance(answer, HandlerFailed)
    assert answer.final == is_final
    assert answer.reason.startswith(f"{trial.receiver.place} answered {status}")
    assert answer.reason.endswith("set the address that it leads to" if status == 302 else ": too bad")
    assert len(trial.receiver.requests) == 1


def test_nobody_there_is_a_failure_that_names_the_host_only(trial: WebhookTrial) -> None:
    """The path of an address may be a secret."""
    answer = trial.do(url="http://127.0.0.1:9/secret-path")

    assert answer == HandlerFailed("127.0.0.1:9 gave no answer: connection refused")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    key, path = tmp_path / "key.pem", tmp_path / "certificate.pem"
    asked = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-nodes"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-keyout", str(key), "-out", str(path), *asked],
        check=True,
        capture_output=True,
    )
    return path


def test_certificates_are_verified(trial: WebhookTrial, certificate: Path) -> None:
    """Only one that is trusted, for the name that was asked for, is spoken to."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    server = trial.receiver.server
    server.socket = context.wrap_socket(server.socket, server_side=True)
    port = trial.receiver.place.partition(":")[2]
    refused = trial.do(url=f"https://localhost:{port}/")
    misnamed = trial.do(url=f"https://127.0.0.1:{port}/", ca_file=str(certificate))

    assert isinstance(refused, HandlerFailed)
    assert isinstance(misnamed, HandlerFailed)
    assert "its certificate is not trusted" in refused.reason
    assert "its certificate is not trusted" in misnamed.reason
    assert trial.receiver.requests == []
    assert isinstance(trial.do(url=f"https://localhost:{port}/", ca_file=str(certificate)), HandlerDone)
    assert trial.do(url=f"https://localhost:{port}/", ca_file="/no/such") == HandlerFailed(
        f"localhost:{port} gave no answer: the certificates in /no/such cannot be read (No such file or directory)"
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"url": "ftp://x"}, "setting 'url' of handler 'webhook': this is not a valid address"),
        ({"url": "http://x:99999/"}, "setting 'url' of handler 'webhook'"),
        ({"url": "http://a b/"}, "setting 'url' of handler 'webhook'"),
        ({"undo_url": "x"}, "setting 'undo_url' of handler 'webhook'"),
        ({"url": "http://u:p@x/"}, "a password does not belong there"),
        ({"headers": {"a b": "x"}}, "'a b' is not a header that can be set"),
        ({"headers": {"Host": "x"}}, "'Host' is not a header that can be set"),
        ({"headers": {"X": "a\r\nb"}}, "the value of X must be one line of ASCII"),
        ({"method": "post it"}, "setting 'method' of handler 'webhook'"),
        ({"body": "$Nothing"}, "setting 'body' of handler 'webhook': unknown name [$]Nothing"),
        ({"undo_body": "{"}, "setting 'undo_body' of handler 'webhook'"),
        ({"secret_file": "a", "secret_variable": "b"}, "setting 'secret_variable' of handler 'webhook'"),
    ],
)
def test_wrong_settings_are_refused(trial: WebhookTrial, settings: dict[str, object], sentence: str) -> None:
    """Each in one sentence that names the setting."""
    with pytest.raises(BadInput, match=sentence):
        trial.make(**settings)


def test_the_page_says_what_the_code_does(tmp_path: Path) -> None:
    """Its tables are complete, its examples understood."""
    page = HandlerPage("webhook")
    page.assert_names_settings(WebhookHandlerSettings)
    page.assert_examples_are_understood(WebhookHandler, tmp_path)

    assert all(f"`${name}`" in page.text for name in NAMES)
