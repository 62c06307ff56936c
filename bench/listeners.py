"""Listeners to changes, and how far apart they hear of one: ``python -m bench.listeners``, with a plan as its input.

All of them are ends of connections of one process, on a core of its own: the time it takes to read them all is in the
figure too.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import msgspec
import uvloop

from bench import fleets, service
from bench.figures import Figure, spread_of
from bench.machine import cores
from bench.processes import python, run_on
from forewarn.control.bodies import TermsBody
from forewarn.control.client import ControlClient
from forewarn.core.errors import Unavailable
from forewarn.metadata.limits import Limits, provide_files

_LISTENERS = 1_000
_FLEET = 1_000
_PATIENCE = 60.0
_REQUEST = b"GET /v1/changes HTTP/1.1\r\nHost: localhost\r\n\r\n"


class _Plan(msgspec.Struct, frozen=True):
    data: str
    listeners: int
    changes: int


def listeners(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Tell a thousand listeners of a change."""
    core, load = cores()
    data = fleets.make_journal(directory / "data", _FLEET)
    plan = _Plan(str(data), _LISTENERS, 5 if quick else 40)
    with service.serving(data, core):
        times = msgspec.json.decode(
            run_on(load, python("bench.listeners"), 300, given=msgspec.json.encode(plan)), type=list[float]
        )
    yield Figure(
        name=f"a change reaches the last of {_LISTENERS:,} listeners after the first",
        asked="within 250 ms",
        limit=250.0,
        is_at_least=False,
        measured=max(times),
        unit="ms",
        spread=spread_of(times),
        detail=f"the worst of {len(times)} changes (median {spread_of(times).median:.0f} ms)",
    )


class _Receipts:
    """What all listeners together have heard."""

    def __init__(self, listeners: int) -> None:
        self._listeners = listeners
        self._heard: list[float] = []
        self._all = asyncio.Event()

    def hear(self) -> None:
        self._heard.append(perf_counter())
        if len(self._heard) == self._listeners:
            self._all.set()

    async def spread(self) -> float:
        """Wait until all have heard something; return the milliseconds from the first to the last."""
        async with asyncio.timeout(_PATIENCE):
            await self._all.wait()
        took = (max(self._heard) - min(self._heard)) * 1_000
        self._heard.clear()
        self._all.clear()
        return took


class _Listener(asyncio.Protocol):
    """One end; what comes together is one message here, and all of them are small."""

    def __init__(self, ears: _Receipts) -> None:
        self._ears = ears

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(_REQUEST)  # type: ignore[attr-defined]  # a stream's

    def data_received(self, data: bytes) -> None:
        if b"still here" in data or b"event: group-set" in data:
            self._ears.hear()


async def _listen(plan: _Plan) -> list[float]:
    ears = _Receipts(plan.listeners)
    loop = asyncio.get_running_loop()
    path = str(Path(plan.data) / "control.sock")
    transports = [
        (await loop.create_unix_connection(lambda: _Listener(ears), path))[0] for _ in range(plan.listeners)
    ]
    await ears.spread()  # all of them listen
    with ControlClient.local(Path(plan.data)) as client:
        group = next(client.groups()).name
        times = []
        for number in range(plan.changes):
            body = TermsBody(postpone_limit=number + 1)
            _, took = await asyncio.gather(asyncio.to_thread(client.set_terms, group, body), ears.spread())
            times.append(took)
    for transport in transports:
        transport.abort()
    return times


def wait_for_service(data: Path) -> None:
    """Return when the control plane answers."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            with ControlClient.local(data) as client:
                client.me()
        except Unavailable:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def _main() -> None:
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=_Plan)
    provide_files(Limits(connections=plan.listeners))
    wait_for_service(Path(plan.data))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(msgspec.json.encode(runner.run(_listen(plan))).decode())


if __name__ == "__main__":
    _main()
