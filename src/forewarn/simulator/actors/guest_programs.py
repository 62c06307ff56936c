"""Programs of guests that speak plain HTTP to the metadata service: good, slow, old, meddling and hostile ones."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from itertools import cycle
from typing import Any

import msgspec

from forewarn.simulator.actors.simulated_guest import (
    METADATA,
    TARGET,
    GuestConnection,
    ReadEvent,
    SimulatedGuest,
    approval_of,
    events_of,
)
from forewarn.simulator.environment.service import ENDPOINT
from forewarn.simulator.exchanges import VmExchange

NEWEST = "2020-07-01"
_OLD_VERSIONS = ("2017-03-01", "2017-08-01", "2019-01-01", "2019-08-01")
_NOTICE = 900.0
"""Seconds of a reboot's notice, without hurry."""
_UUID = "00000000-0000-4000-8000-{:012x}"


class Surroundings(msgspec.Struct):
    """What the programs know beyond their own VM."""

    hurry: float
    event_ids: dict[str, None] = {}
    """Every event id that a guest was shown, of whatever VM; in the order of their appearance."""


Program = Callable[[SimulatedGuest, Surroundings], Coroutine[Any, Any, None]]


async def poll_promptly(guest: SimulatedGuest, around: Surroundings) -> None:
    """Ask every second; approve at once what names this VM, now and then more than once."""
    connection = GuestConnection(guest)
    approved: dict[str, None] = {}
    while True:
        shown = await _fetch(connection, around)
        wanted = [id_ for id_ in _own(guest, shown) if id_ not in approved or guest.random.random() < 0.1]
        if wanted and (await _approve(connection, wanted)).status == 200:
            approved |= dict.fromkeys(wanted)
        await _pause(guest, 1.0)


async def poll_slowly(guest: SimulatedGuest, around: Surroundings) -> None:
    """Ask every 10 seconds; approve late or never."""
    connection = GuestConnection(guest)
    approve_at: dict[str, float] = {}
    while True:
        ids = _own(guest, await _fetch(connection, around))
        for id_ in ids:
            late = guest.random.random() * 1.3 * _NOTICE / around.hurry
            approve_at.setdefault(id_, guest.loop.time() + late if guest.random.random() < 0.7 else float("inf"))
        if wanted := [id_ for id_ in ids if approve_at[id_] <= guest.loop.time()]:
            await _approve(connection, wanted)
        await asyncio.sleep(10.0)


async def stay_silent(guest: SimulatedGuest, around: Surroundings) -> None:
    """Never ask."""


async def approve_for_others(guest: SimulatedGuest, around: Surroundings) -> None:
    """Approve every event of the document, of whatever VM, and ids that the document does not hold."""
    connection = GuestConnection(guest)
    while True:
        wanted = [event.id for event in await _fetch(connection, around) if guest.random.random() < 0.5]
        if not guest.is_quiet and guest.random.random() < 0.1:
            wanted.append(_strange_id(guest, around))
        if wanted:
            await _approve(connection, wanted)
        await _pause(guest, 2.0)


async def ask_in_old_versions(guest: SimulatedGuest, around: Surroundings) -> None:
    """Ask and approve in old api-versions, another one each time."""
    connection = GuestConnection(guest)
    for version in cycle(_OLD_VERSIONS):
        shown = await _fetch(connection, around, version)
        if wanted := _own(guest, shown):
            headers = () if version == "2017-03-01" else METADATA
            await connection.request("POST", TARGET + version, approval_of(wanted), headers)
        await _pause(guest, 3.0)


async def poll_long(guest: SimulatedGuest, around: Surroundings) -> None:
    """Wait for each change of the document, and approve some events after a second."""
    connection = GuestConnection(guest)
    tag = ""
    refused: dict[str, bool] = {}
    while True:
        wait = guest.random.choice((1, 5, 30, 55))
        headers = [*METADATA, ("Prefer", f"wait={wait}"), *([("If-None-Match", tag)] if tag else [])]
        exchange = await connection.request("GET", TARGET + NEWEST, headers=headers, limit=wait + 10.0)
        tag = exchange.headers.get("etag", "") if exchange.status in (200, 304) else ""
        ids = _own(guest, _noted(exchange, around))
        for id_ in ids:
            refused.setdefault(id_, guest.random.random() < 0.3)
        await asyncio.sleep(1.0)
        if wanted := [id_ for id_ in ids if not refused[id_]]:
            await _approve(connection, wanted)


async def postpone(guest: SimulatedGuest, around: Surroundings) -> None:
    """Ask for more time again and again, also for what cannot be postponed; approve in the end."""
    connection = GuestConnection(guest)
    patience: dict[str, int] = {}
    while True:
        for id_ in _own(guest, await _fetch(connection, around)):
            left = patience.setdefault(id_, guest.random.randint(0, 6)) if not guest.is_quiet else 0
            patience[id_] = left - 1
            wish = {"EventId": id_, "Seconds": guest.random.choice((10, 30, 50)), "Reason": "busy"}
            body = msgspec.json.encode({"PostponeRequests": [wish]}) if left > 0 else approval_of([id_])
            await connection.request("POST", TARGET + NEWEST, body)
        await _pause(guest, 2.0)


async def attack(guest: SimulatedGuest, around: Surroundings) -> None:
    """Send what no program should send."""
    while not guest.is_quiet:
        await guest.random.choice(_ATTACKS)(guest, around)
        await asyncio.sleep(guest.random.uniform(0.5, 8.0))


async def _wrong_request(guest: SimulatedGuest, around: Surroundings) -> None:
    connection = GuestConnection(guest)
    id_ = _strange_id(guest, around)
    method, target, body, headers = guest.random.choice(
        (
            ("GET", TARGET + NEWEST, b"", ()),
            ("GET", TARGET + NEWEST, b"", (*METADATA, ("X-Forwarded-For", "10.0.0.1"))),
            ("GET", TARGET + "latest", b"", METADATA),
            ("GET", "/metadata/latest/scheduledevents", b"", METADATA),
            ("GET", "/metadata/instance/compute/%2e%2e/secrets?api-version=2021-02-01", b"", METADATA),
            ("DELETE", TARGET + NEWEST, b"", METADATA),
            ("POST", TARGET + NEWEST, b'{"StartRequests":[{"EventId":', METADATA),
            ("POST", TARGET + NEWEST, b'{"StartRequests":[{"EventId":null}]}', METADATA),
            ("POST", TARGET + NEWEST, b"[" * 5000, METADATA),
            ("POST", TARGET + NEWEST, approval_of([id_] * 200), METADATA),
            ("POST", TARGET + NEWEST, approval_of([id_]), ()),
            ("POST", TARGET + "2017-03-01", approval_of([id_]), ()),
        )
    )
    await connection.request(method, target, body, headers)
    connection.close()


async def _many_at_once(guest: SimulatedGuest, around: Surroundings) -> None:
    """Pipeline requests, an approval of an event of another VM among them."""
    body = approval_of([_strange_id(guest, around)])
    head = f"{TARGET}{NEWEST} HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true\r\n"
    get, post = ("GET", TARGET + NEWEST, b""), ("POST", TARGET + NEWEST, body)
    content = f"GET {head}\r\n".encode() * 2 + f"POST {head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    connection = GuestConnection(guest)
    await connection.send(content + f"GET {head}\r\n".encode(), [get, get, post, get])
    connection.close()


async def _wrong_bytes(guest: SimulatedGuest, around: Surroundings) -> None:
    """Send half a request, garbage, too much, or a request within another, and listen for a while."""
    head = f"POST {TARGET}{NEWEST} HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true\r\n".encode()
    approval = approval_of([_strange_id(guest, around)])
    content = guest.random.choice(
        (
            b"",
            b"\r\n" * 50,
            b"\x16\x03\x01" + guest.random.randbytes(200),
            b"GET " + b"/" * 70_000,
            head[: guest.random.randrange(len(head))],
            head + b"X: " + b"y" * 100_000,
            head + b"Content-Length: 100000000\r\n\r\n" + b"x" * 50_000,
            head + b"Content-Length: 1000\r\n\r\n" + approval,
            head + b"Content-Length: -1\r\n\r\n" + approval,
            head + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + head + approval,
            head + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + approval,
        )
    )
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(guest.random.choice((0.001, 3.0, 30.0))):
            reader, writer = await asyncio.open_connection(*ENDPOINT)
            try:
                writer.write(content)
                while await reader.read(65_536):
                    pass
            finally:
                writer.close()


_ATTACKS = (_wrong_request, _many_at_once, _wrong_bytes)


async def _fetch(connection: GuestConnection, around: Surroundings, version: str = NEWEST) -> list[ReadEvent]:
    if not connection.roams:
        return _noted(await connection.request("GET", TARGET + version), around)
    headers = [*METADATA, *([("If-None-Match", connection.tag)] if connection.tag else [])]
    exchange = await connection.request("GET", TARGET + version, headers=headers)
    if exchange.status == 200:
        connection.tag, connection.shown = exchange.headers.get("etag", ""), _noted(exchange, around)
    return connection.shown if exchange.status in (200, 304) else []


async def _approve(connection: GuestConnection, ids: list[str]) -> VmExchange:
    return await connection.request("POST", TARGET + NEWEST, approval_of(ids))


async def _pause(guest: SimulatedGuest, seconds: float) -> None:
    """Wait; longer at the end, when only what is due has to complete."""
    await asyncio.sleep(seconds * 5 if guest.is_quiet else seconds)


def _noted(exchange: VmExchange, around: Surroundings) -> list[ReadEvent]:
    events = events_of(exchange)
    for event in events:
        around.event_ids[event.id] = None
    return events


def _own(guest: SimulatedGuest, events: list[ReadEvent]) -> list[str]:
    """Return the events to approve; the oldest api-version writes names with an underscore."""
    return [event.id for event in events if event.status == "Scheduled" and guest.vm.name in _plain(event.resources)]


def _plain(names: list[str]) -> Iterator[str]:
    return (name.removeprefix("_") for name in names)


def _strange_id(guest: SimulatedGuest, around: Surroundings) -> str:
    """Return the id of any event, or an invented one."""
    if around.event_ids and guest.random.random() < 0.7:
        return guest.random.choice(list(around.event_ids))
    return guest.random.choice((_UUID.format(guest.random.getrandbits(48)), "nonsense", ""))


PROGRAMS: dict[str, Program] = {
    "prompt": poll_promptly,
    "slow": poll_slowly,
    "silent": stay_silent,
    "approver-of-others": approve_for_others,
    "old": ask_in_old_versions,
    "long-poll": poll_long,
    "postponer": postpone,
    "hostile": attack,
}
"""By the kind of the guest."""
