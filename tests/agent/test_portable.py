"""Agent, handlers and commands of the VM run where nothing but Python's portable part exists."""

import subprocess
import sys
from pathlib import Path

import pytest

UNIX_ONLY = ("fcntl", "grp", "pwd", "pty", "resource", "spwd", "syslog", "termios", "tty", "uvloop", "httptools")

PROGRAM = f"""
# Others must not be misled about where they run, so all that is used of them comes first.
import asyncio, http.client, logging, os, shutil, signal, socket, ssl, subprocess, sys, tempfile, types, zoneinfo
import click, msgspec, rich.console, rich.table
for name in {UNIX_ONLY!r}:
    sys.modules[name] = None  # importing it fails now, as it does on Windows
for module, name in (
    (os, "fork"), (os, "geteuid"), (os, "getuid"), (os, "killpg"), (os, "set_blocking"),
    (signal, "SIGKILL"), (signal, "SIGUSR1"),
):
    delattr(module, name)
sys.modules["msvcrt"] = types.SimpleNamespace(locking=lambda *_: None, LK_NBLCK=2)
sys.platform = "win32"
"""

IMPORTS = """
del socket.AF_UNIX
import pkgutil
import forewarn.agent, forewarn.client
from importlib import import_module
for package in (forewarn.agent, forewarn.client):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        import_module(module.name)
import forewarn.cli.agent, forewarn.cli.agent_simulation
import forewarn.cli.events, forewarn.cli.approve, forewarn.cli.whoami
print("well")
"""

RUN = """
from forewarn.cli.root import run
code = run(["agent", "test", "reboot", "--config", sys.argv[1], "--json"])
print(code)
"""


def run(program: str, *arguments: str) -> tuple[str, str]:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM + program, *arguments],
        check=False,
        capture_output=True,
        text=True,
    )
    return ended.stdout, ended.stderr


@pytest.mark.end_to_end
def test_nothing_unix_only_is_imported() -> None:
    """With those modules hidden, every module of agent and client can be imported."""
    assert run(IMPORTS) == ("well\n", "")


@pytest.mark.end_to_end
def test_an_agent_runs_without_them(tmp_path: Path) -> None:
    """An event is played through a handler, and put back."""
    log, config = tmp_path / "events.jsonl", tmp_path / "agent.toml"
    config.write_text(f"""
[[rules]]
handlers = ["log"]
[handlers.log]
kind = "log"
to = "file"
path = "{log}"
""")

    stdout, stderr = run(RUN, str(config))

    assert (stdout.splitlines()[-1], stderr) == ("0", "")
    assert len(log.read_text().splitlines()) == 2
