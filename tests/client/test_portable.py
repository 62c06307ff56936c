"""The client and its commands run where nothing but Python's portable part exists."""

import subprocess
import sys

import pytest

from tests.emulator.test_portable import UNIX_ONLY

PROGRAM = f"""
import sys
for name in {UNIX_ONLY!r}:
    sys.modules[name] = None  # importing it fails now, as it does on Windows
import os
import socket
for module, names in ((os, ("fork", "getuid", "geteuid", "set_blocking")), (socket, ("AF_PACKET",))):
    for name in names:
        delattr(module, name)

import asyncio
import forewarn.client.leases
from forewarn import AsyncClient, Client
from forewarn.cli.root import run
from forewarn.client.dhcp_discovery import offered_endpoints
from forewarn.emulator import Emulator

async def name_of(url):
    async with AsyncClient(url) as client:
        return await client.own_name()

with Emulator("web-0", "web-1") as emulator:
    event = emulator.vm("web-0").reboot()
    with Client(emulator.url) as client:
        assert client.document().events[0].id == event.id
    assert asyncio.run(name_of(emulator.url)) == "web-0"
    for command in (["events"], ["whoami"], ["approve", "--all"]):
        assert run([*command, "--json", "--url", emulator.url]) == 0, command
    assert event.status == "started"
assert offered_endpoints() == forewarn.client.leases.registered_endpoints() == ()
print("well")
"""


@pytest.mark.end_to_end
def test_nothing_unix_only_is_imported() -> None:
    """With those modules hidden, client and commands find, read and approve."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], check=False, capture_output=True, text=True
    )

    assert (ended.stdout.splitlines()[-1:], ended.stderr) == (["well"], "")


LIGHT = """
import sys
from forewarn.emulator import Emulator

with Emulator("web-0") as emulator:
    import subprocess
    program = (
        "import sys; from forewarn.cli.root import run; code = run(sys.argv[1:]); "
        "print(code, *{'asyncio', 'email', 'http.client', 'logging', 'random', 'rich', 'ssl'} & set(sys.modules))"
    )
    print(subprocess.check_output([sys.executable, "-c", program, "events", "--url", emulator.url], text=True))
"""


@pytest.mark.end_to_end
def test_listening_imports_only_what_it_needs() -> None:
    """So that ``forewarn events`` starts fast: nothing heavy is loaded to ask and to print."""
    ended = subprocess.run([sys.executable, "-c", LIGHT], check=True, capture_output=True, text=True)

    assert ended.stdout.split("\n")[1:2] == ["0"]
