"""Receivers on this machine for the tests of this folder: real servers, in threads, that keep what they were sent."""

import socketserver
import ssl
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import msgspec

from tests.ports import free_port


class Received(msgspec.Struct, frozen=True):
    """One request that a receiver got."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def id(self) -> str:
        return str(self.json["id"])


class ReceiverResponse(msgspec.Struct, frozen=True):
    """What a receiver answers."""

    status: int = 204
    headers: dict[str, str] = {}
    body: bytes = b""


class Receiver:
    """A web server that can go down and come back at the same address."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tried: list[Received] = []
        self.taken: list[Received] = []
        self.answer: Callable[[Received], ReceiverResponse] = lambda _: ReceiverResponse()
        self._tls = tls
        self._address = ("127.0.0.1", free_port())  # nobody else is given it while it is down
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://localhost:{self._address[1]}/hook?key=1"

    @property
    def ids(self) -> list[str]:
        return [each.id for each in self.taken]

    def up(self) -> None:
        self._server = ThreadingHTTPServer(self._address, self._handler())
        if self._tls:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def down(self) -> None:
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *exc: object) -> None:
        self.down()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received = Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                receiver.tried.append(received)
                answer = receiver.answer(received)
                if answer.status < 300:
                    receiver.taken.append(received)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None:
                """Keep the tests' output clean."""

        return Handler


class MailSink:
    """A mail server that takes every mail, except for recipients it is told to refuse."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []
        self.logins: list[str] = []
        self.refuses = ""
        self.port = 0


@contextmanager
def mail_sink(tls: ssl.SSLContext | None = None, mode: str = "none") -> Iterator[MailSink]:
    """Run a mail server that is encrypted from the first byte (``tls``), on demand (``starttls``), or never."""
    sink = MailSink()

    class Handler(socketserver.StreamRequestHandler):
        def setup(self) -> None:
            if tls and mode == "tls":
                self.request = tls.wrap_socket(self.request, server_side=True)
            super().setup()

        def handle(self) -> None:
            self.say("220 sink")
            while line := self.rfile.readline().decode().strip():
                match line.split(" ")[0].upper():
                    case "EHLO":
                        self.say("250-sink\r\n250-STARTTLS\r\n250 AUTH PLAIN" if tls else "250 sink")
                    case "STARTTLS" if tls:
                        self.say("220 go on")
                        self.request = tls.wrap_socket(self.request, server_side=True)
                        super().setup()
                    case "AUTH" if isinstance(self.request, ssl.SSLSocket):
                        sink.logins.append(b64decode(line.split(" ")[2]).decode())
                        self.say("235 welcome")
                    case "RCPT" if sink.refuses and sink.refuses in line:
                        self.say("550 no such user here")
                    case "DATA":
                        self.say("354 go on")
                        sink.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                        self.say("250 taken")
                    case "QUIT":
                        self.say("221 bye")
                        return
                    case _:
                        self.say("250 ok")

        def finish(self) -> None:
            super().finish()
            self.request.close()

        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Keep quiet about those who hang up on a certificate they do not trust."""

    with Server(("127.0.0.1", 0), Handler) as server:
        sink.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield sink
        server.shutdown()
        thread.join()
