"""A server that does what is known to be wrong with simple mocks, for the kit to find.

NotBefore is in ISO 8601, each state of an event has an id of its own, neither header nor api-version are looked at,
only the first StartRequest is read, and an id that names no event is answered 200 as long as there is one.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from uuid import uuid4

NOT_BEFORE = "2030-01-05T14:32:00Z"


class Mock(ThreadingHTTPServer):
    """One global event, which an approval starts and the next GETs see through."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.incarnation = 1
        self.event: dict[str, Any] | None = None
        self.show("Scheduled")
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    def show(self, status: str) -> None:
        self.incarnation += 1
        self.event = {
            "EventId": str(uuid4()).upper(),
            "EventStatus": status,
            "EventType": "Freeze",
            "ResourceType": "VirtualMachine",
            "Resources": ["web-0"],
            "NotBefore": NOT_BEFORE if status == "Scheduled" else "",
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": 5,
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Mock

    def do_GET(self) -> None:
        events = [self.server.event] if self.server.event else []
        self._answer(200, {"DocumentIncarnation": self.server.incarnation, "Events": events})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        event = self.server.event
        try:
            id_ = json.loads(body)["StartRequests"][0]["EventId"]
        except (ValueError, LookupError, TypeError):
            self._answer(400, {"error": "Bad request"})
            return
        if event and event["EventStatus"] == "Scheduled" and event["EventId"].lower() == id_.lower():
            self.server.show("Started")
        self._answer(200, {})

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
