"""A real HAProxy before two web servers, everything on unix sockets in one directory."""

import http.client
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

from forewarn.agent.handlers.haproxy_socket import HaproxyAdminSocket, HaproxyServerState, HaproxyUnreachable
from tests.cleaning import closed_on_failure

CONFIGURATION = """\
global
    stats socket {place}/admin.sock level admin
    stats socket {place}/user.sock level user
    stats socket fd@{tcp} level admin
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend front
    bind unix@{place}/front.sock
    default_backend web
backend web
    balance roundrobin
    server a unix@{place}/a.sock
    server b unix@{place}/b.sock
"""


class WebServer(ThreadingUnixStreamServer):
    """Answers its name; a request for /slow is answered when the test says so."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.go_on = threading.Event()
        self.asked = threading.Semaphore(0)
        super().__init__(str(path), WebServerHandler)


class WebServerHandler(BaseHTTPRequestHandler):
    """One request of HAProxy's."""

    server: WebServer

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.server.asked.release()
            self.server.go_on.wait(60)
        name = Path(str(self.server.server_address)).stem.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(name)))
        self.end_headers()
        self.wfile.write(name)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class Balancer:
    """HAProxy and its servers ``web/a`` and ``web/b``."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.admin = place / "admin.sock"
        self.user = place / "user.sock"
        self._slow: list[Future[str]] = []
        self._asking = HaproxyAdminSocket(str(self.admin))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.tcp = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.servers = {name: WebServer(place / f"{name}.sock") for name in "ab"}
        for server in self.servers.values():
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        with closed_on_failure(self.close):
            self.start()

    def start(self) -> None:
        configuration = self.place / "haproxy.cfg"
        configuration.write_text(CONFIGURATION.format(place=self.place, tcp=self._listener.fileno()))
        self._process = subprocess.Popen(
            ["haproxy", "-q", "-db", "-f", configuration],
            pass_fds=[self._listener.fileno()],
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self._process.poll() is None, "HAProxy ended"
        try:
            self.state("a")
        except HaproxyUnreachable:
            return False
        return True

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        for server in self.servers.values():
            server.go_on.set()
        for answer in self._slow:
            answer.result(20)
        self.stop()
        for server in self.servers.values():
            server.shutdown()
            server.server_close()
        self._listener.close()

    def state(self, name: str) -> HaproxyServerState:
        return self._asking.state(f"web/{name}", 30)

    def set_state(self, name: str, state: HaproxyServerState) -> None:
        self._asking.set_state(f"web/{name}", state, 30)

    def get(self, path: str = "/") -> str:
        """Ask HAProxy; return the name of the server that answered."""
        connection = http.client.HTTPConnection("front")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(os.fspath(self.place / "front.sock"))
        connection.request("GET", path)
        with connection.getresponse() as response:
            assert response.status == 200, response.status
            answer = response.read().decode()
        connection.close()
        return answer

    def begin_slow(self, name: str) -> Future[str]:
        """Begin a request that server ``name`` answers only when it may go on."""
        others = [other for other in self.servers if other != name and self.state(other) is HaproxyServerState.READY]
        for other in others:
            self.set_state(other, HaproxyServerState.MAINTENANCE)
        answer: Future[str] = Future()
        self._slow.append(answer)
        threading.Thread(target=lambda: answer.set_result(self.get("/slow")), daemon=True).start()
        assert self.servers[name].asked.acquire(timeout=20), "the server was not asked"
        for other in others:
            self.set_state(other, HaproxyServerState.READY)
        return answer


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never became so")
