"""The agent under measurement, as its users start it, with a few handlers; one of them rings a bell when it runs."""

import json
import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.processes import free_port, python, running
from bench.server import Server
from forewarn.agent.subscriber import AgentSocket
from forewarn.core.errors import Unavailable

_PATIENCE = 30.0
_CONFIG = """\
url = "http://127.0.0.1:{port}"
state = {state}
socket = {socket}
http = "127.0.0.1:{http}"
log_level = "warning"

[[rules]]
types = ["Reboot"]
approval = "never"
handlers = ["bell"]

[[rules]]
types = ["Freeze", "Redeploy", "Preempt", "Terminate"]
handlers = ["balancer", ["unit", "hook"], "diary"]

[handlers.bell]
kind = "command"
do = {do}
undo = {undo}

[handlers.balancer]
kind = "haproxy"
servers = ["web/vm-0"]

[handlers.unit]
kind = "systemd"
units = ["nginx.service"]

[handlers.hook]
kind = "webhook"
url = "http://127.0.0.1:9/"

[handlers.diary]
kind = "log"
to = "file"
path = {diary}
"""


class Bell:
    """A pipe in the file system, by which a program says that it runs."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._path = path
        # Open at both ends, so that it never comes to its end.
        self._descriptor = os.open(path, os.O_RDWR)

    def command(self, word: str) -> list[str]:
        """Return the smallest program that rings: a shell, which writes by itself and starts nothing else."""
        return ["/bin/sh", "-c", f"echo {word} >'{self._path}'"]

    def wait_for(self, word: str) -> None:
        """Return as soon as a program rings with that word."""
        if not select.select([self._descriptor], [], [], _PATIENCE)[0]:
            raise SystemExit(f"No handler said {word!r} within {_PATIENCE:.0f} s.")
        said = os.read(self._descriptor, 4096).decode().split()
        if said != [word]:
            raise SystemExit(f"The handler should have said {word!r}, and said {' '.join(said)!r}.")

    def close(self) -> None:
        os.close(self._descriptor)


def render_config(service: int, http: int, directory: Path, bell: Bell) -> str:
    """Return the agent's configuration, with the ports of the service and of its own metrics."""
    words = {
        "state": directory / "state",
        "socket": directory / "agent.sock",
        "do": bell.command("do"),
        "undo": bell.command("undo"),
        "diary": directory / "diary",
    }
    quoted = {name: json.dumps(word if isinstance(word, list) else str(word)) for name, word in words.items()}
    return _CONFIG.format(port=service, http=http, **quoted)


@contextmanager
def agent_of(
    server: Server, directory: Path, core: int, bell: Bell, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run an agent for as long as the block lasts, which begins when the agent knows its document."""
    directory.mkdir(exist_ok=True)
    config, log, socket = directory / "agent.toml", directory / "log", directory / "agent.sock"
    config.write_text(render_config(server.port, free_port(), directory, bell), "utf-8")
    with running(python("forewarn", "agent", "--config", str(config)), core, log, environment) as process:
        until = time.monotonic() + _PATIENCE
        while not _knows_its_document(socket):
            if time.monotonic() > until or process.poll() is not None:
                raise SystemExit(f"The agent did not get ready; it said: {log.read_text('utf-8')[-2000:]}")
            time.sleep(0.05)
        yield process


def _knows_its_document(socket: Path) -> bool:
    with suppress(Unavailable), AgentSocket(socket) as agent:
        return agent.status().incarnation is not None
    return False
