"""A real web service, in a thread, that does impacts once for each webhook-id."""

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from forewarn.signature import verify

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"  # noqa: S105 a test's own


class Receiver:
    """Takes messages, answers as it is told to, and counts what it did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.switched: list[tuple[str, str]] = []
        """The VMs that it was asked to start or stop."""
        self.messages: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.answers: list[tuple[int, bytes] | None] = []
        """What the next messages are answered instead; None hangs up without an answer."""
        self.takes_its_time = False
        """Whether it says underway until ``finish``."""
        self.tells = True
        """Whether it answers the question for the outcome."""
        self.finished = threading.Event()
        self.fences = False
        """Whether it refuses a lower term than it has seen."""
        self.highest_term = 0
        self.term_headers: list[tuple[str, str]] = []
        """Term and attempt, as the headers of each message had them; empty where they were missing."""
        self._taking = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                verify(SECRET, dict(self.headers.items()), body, datetime.now(UTC))
                names = ("forewarn-term", "forewarn-attempt")
                receiver.term_headers.append((self.headers.get(names[0], ""), self.headers.get(names[1], "")))
                with receiver._taking:
                    answer = receiver.take(self.headers["webhook-id"], json.loads(body))
                if answer is None:
                    self.close_connection = True
                    return
                status, said = answer
                self.send_response(status)
                if status == 429:
                    self.send_header("Retry-After", "1")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/impacts"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, id_: str, message: dict[str, Any]) -> tuple[int, bytes] | None:
        self.messages.append(message)
        self.ids.append(id_)
        term = message.get("term") or message.get("impact", {}).get("term", 0)
        if self.fences and term < self.highest_term:
            return 409, f"a leader of term {self.highest_term} was here".encode()
        self.highest_term = max(self.highest_term, term)
        if message["ask"] in ("start", "stop"):
            self.switched.append((message["ask"], message["vm"]["name"]))
            return self.answers.pop(0) if self.answers else (200, b'{"outcome": "done"}')
        event = message["event"]
        if message["ask"] == "perform" and event not in self.done:
            assert id_ == event
            self.done.append(event)
        if self.answers:
            return self.answers.pop(0)
        if message["ask"] == "outcome" and not self.tells:
            return 404, b"no such page"
        if event not in self.done:
            return 200, b'{"outcome": "not-begun"}'
        if self.takes_its_time and not self.finished.is_set():
            return 202, b'{"outcome": "underway", "check_after": 0}'
        return 200, b'{"outcome": "done", "detail": "by hand"}'
