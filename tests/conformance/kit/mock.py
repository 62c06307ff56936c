"""A server that does what is known to be wrong with simple mocks, for the kit to find.

NotBefore is in ISO 8601, each state of an event has an id of its own, neither header nor api-version are looked at,
only the first StartRequest is read, and an id that names no event is answered 200 as long as there is one.
There is no /metadata/instance. With ids in lower case it compares them letter by letter; a silent one answers 200 to
every approval, and changes nothing where it does not know one of the ids.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from uuid import uuid4

NOT_BEFORE = "2030-01-05T14:32:00Z"


class Mock(ThreadingHTTPServer):
    """Global events, each of which an approval starts and the next GETs see through."""

    daemon_threads = True

    def __init__(
        self, *, number: int = 1, source: str = "Platform", has_lower_ids: bool = False, is_silent: bool = False
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.incarnation = 1
        self.source = source
        self.has_lower_ids = has_lower_ids or is_silent
        self.is_silent = is_silent
        self.is_deaf = False
        """It answers 200 and starts nothing."""
        self.events = [self.event(index, "Scheduled") for index in range(number)]
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    def event(self, index: int, status: str) -> dict[str, Any]:
        self.incarnation += 1
        id_ = f"a{str(uuid4())[1:]}"  # it has a letter
        return {
            "EventId": id_ if self.has_lower_ids else id_.upper(),
            "EventStatus": status,
            "EventType": "Freeze",
            "ResourceType": "VirtualMachine",
            "Resources": [f"web-{index}"],
            "NotBefore": NOT_BEFORE if status == "Scheduled" else "",
            "Description": "",
            "EventSource": self.source,
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
        if "scheduledevents" not in self.path.lower():
            self._answer(404, {"error": "Not found"})
            return
        self._answer(200, {"DocumentIncarnation": self.server.incarnation, "Events": self.server.events})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server = self.server
        try:
            ids = [each["EventId"] for each in json.loads(body)["StartRequests"]]
            id_ = ids[0]
        except (ValueError, LookupError, TypeError):
            self._answer(400, {"error": "Bad request"})
            return
        if server.is_deaf or (server.is_silent and not {each["EventId"] for each in server.events}.issuperset(ids)):
            self._answer(200, {})
            return
        for index, event in enumerate(server.events):
            is_it = event["EventId"] == (id_ if server.has_lower_ids else id_.upper())
            if is_it and event["EventStatus"] == "Scheduled":
                server.events[index] = server.event(index, "Started")
                break
        else:
            if server.has_lower_ids:
                self._answer(400, {"error": "Bad request"})
                return
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
