"""A VM that approves at once, in the network of a site: ``python -m bench.approver ADDRESS SERVICE``.

It reads the ids of events, one a line, and answers each with two times of the monotonic clock: when it sent its
approval, and when it had the answer.
"""

import json
import socket
import subprocess
import sys
from time import monotonic

from bench.processes import end, python
from bench.wrk import TARGET
from demo.site import METADATA, Site


class Approver:
    """One that runs, until it is closed."""

    def __init__(self, site: Site, address: str) -> None:
        command = python("bench.approver", address, METADATA)
        self._process = site.begin(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def approve(self, event: str) -> tuple[float, float]:
        """Have an event approved; return when that was sent, and when it was answered."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{event}\n".encode())
        self._process.stdin.flush()
        sent, answered = map(float, self._process.stdout.readline().split())
        return sent, answered

    def close(self) -> None:
        end(self._process)


def _approve(event: str, address: str, service: str) -> tuple[float, float]:
    body = json.dumps({"StartRequests": [{"EventId": event}]})
    head = f"POST {TARGET} HTTP/1.1\r\nHost: {service}\r\nMetadata: true\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((service, 80), 30, (address, 0)) as connection:
        sent = monotonic()
        connection.sendall((head + body).encode())
        answer = connection.recv(65_536)
        answered = monotonic()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"The approval was not taken: {answer.decode(errors='replace')}")
    return sent, answered


def main() -> None:
    """Approve what is read."""
    _, address, service = sys.argv
    for line in sys.stdin:
        sent, answered = _approve(line.strip(), address, service)
        print(sent, answered, flush=True)


if __name__ == "__main__":
    main()
