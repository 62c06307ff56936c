"""The emulator runs where nothing but Python's portable part exists."""

import subprocess
import sys

import pytest

UNIX_ONLY = ("fcntl", "grp", "pwd", "pty", "resource", "spwd", "syslog", "termios", "tty", "uvloop", "httptools")

PROGRAM = f"""
import sys
for name in {UNIX_ONLY!r}:
    sys.modules[name] = None  # importing it fails now, as it does on Windows
import os
for name in ("fork", "getuid", "set_blocking"):
    delattr(os, name)

import forewarn.cli.emulate
import forewarn.cli.emulating.emulator_run
import forewarn.cli.emulating.screen
import forewarn.cli.emulating.keyboard
from forewarn.emulator import Emulator
from urllib.request import Request, urlopen

with Emulator("web-0", "web-1") as emulator:
    event = emulator.vm("web-0").reboot()
    emulator.advance("15m")
    shown = urlopen(Request(emulator.vm("web-1").events_url(), headers={{"Metadata": "true"}})).read()
    assert event.shown_id.encode() in shown, shown
    assert event.status == "started"
print("well")
"""


@pytest.mark.end_to_end
def test_nothing_unix_only_is_imported() -> None:
    """With those modules hidden, the emulator starts, answers over HTTP and moves its clock."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], check=False, capture_output=True, text=True
    )

    assert (ended.stdout, ended.stderr) == ("well\n", "")
