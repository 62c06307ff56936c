"""What a service shows at the end: documents byte for byte, and the lists of the control API."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess
from forewarn.simulator.environment.service import ControlResponse

VERSIONS = ("2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-08-01", "2020-07-01")
_LISTS = ("/v1/vms", "/v1/hosts", "/v1/groups", "/v1/events?finished=1000", "/v1/rollouts?finished=1000", "/v1/fleet")
_PASSING = re.compile(rb'"(?:asked_\w+|switches_off_at|rate|predicted_\w+|is_late)":[^,}]*,?')
"""What depends on the time of day, or changes with each request of a VM and is recorded now and then only."""
OF_HOSTS = ("/v1/vms", "/v1/hosts", "/v1/fleet")
"""What names the hosts of VMs: a driver that starts may find them elsewhere."""
_PATIENCE = 60.0
"""Seconds to wait for a response."""
_ATTEMPTS = 5
_BEFORE = 60
_LONGEST = 200
"""Bytes that are told of a difference, and how many of them stand before it."""


async def read_document(loop: SimulatedLoop, address: str, host: str, version: str) -> bytes:
    """Return the response to a VM with that address, but for the date; nothing where none comes."""
    process = SimulatedProcess(f"asking-{address}", address)
    for _ in range(_ATTEMPTS):
        with suppress(OSError, asyncio.IncompleteReadError):  # a worker of the service before may end just now
            return await asyncio.wait_for(loop.spawn(process, _fetch(host, version)), _PATIENCE)
        await asyncio.sleep(1.0)
    return b""


async def read_state(
    loop: SimulatedLoop,
    request: Callable[[str, str], Awaitable[ControlResponse | None]],
    addresses: Iterable[str],
    host: str,
) -> dict[str, bytes]:
    """Return what the lists hold, and what VMs with these addresses are shown, by what was read."""
    process = SimulatedProcess("reading")
    state: dict[str, bytes] = {}
    for address in addresses:
        for version in VERSIONS:
            state[f"the document of {version} for {address}"] = await read_document(loop, address, host, version)
    for path in _LISTS:
        answer = None
        with suppress(TimeoutError):
            answer = await asyncio.wait_for(loop.spawn(process, _ask(request, path)), _PATIENCE)
        state[path] = _PASSING.sub(b"", answer.body) if answer else b""
    return state


def tell_difference(before: bytes, after: bytes) -> str:
    """Return the two places from the first byte on that differs."""
    same = next((at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), 0)
    return f"{before[max(same - _BEFORE, 0) :][:_LONGEST]!r}, then {after[max(same - _BEFORE, 0) :][:_LONGEST]!r}"


async def _ask(request: Callable[[str, str], Awaitable[ControlResponse | None]], path: str) -> ControlResponse | None:
    return await request("GET", path)


async def _fetch(host: str, version: str) -> bytes:
    reader, writer = await asyncio.open_connection(host, 80)
    target = f"/metadata/scheduledevents?api-version={version}"
    try:
        writer.write(f"GET {target} HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"date:")]
        length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
        body = await reader.readexactly(length)
    finally:
        writer.close()
    return b"\r\n".join(lines) + body
