"""The dashboard in Chromium: how soon a large fleet is drawn, what a page takes, and how soon a change is visible."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter

from playwright.sync_api import Browser, Page, sync_playwright

from bench import fleets, service
from bench.figures import Figure, spread_of
from bench.listeners import wait_for_service
from bench.machine import cores
from bench.processes import free_port
from forewarn.control.bodies import HostOperationBody, TokenBody
from forewarn.control.client import ControlClient
from forewarn.core.model import Role

_SIZE = 100_000
_QUICK_SIZE = 5_000
_LISTENERS = 49
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
_DRAWN = "() => document.querySelector('#fleet-map')?.height > 0 || document.querySelector('.tile') !== null"

_TRANSFER = """() => ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
    .reduce((sum, each) => sum + each.encodedBodySize + 300, 0)"""
"""Bytes of the page and all that it needs; heads are taken to have 300."""


def dashboard(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Measure the dashboard of a large fleet."""
    core, _ = cores()
    size = _QUICK_SIZE if quick else _SIZE
    data = fleets.make_journal(directory / "data", size)
    port = free_port()
    with ExitStack() as stack:
        stack.enter_context(service.serving(data, core, more=("--control", f"127.0.0.1:{port}")))
        wait_for_service(data)
        client = stack.enter_context(ControlClient.local(data))
        token = client.create_token(TokenBody(name="bench", role=Role.OPERATOR)).token
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=_FLAGS)
        stack.callback(browser.close)
        page = _open(browser, f"http://127.0.0.1:{port}", token)
        yield from _views(page, size, 3 if quick else 10)
        for _ in range(_LISTENERS):
            stack.callback(_listen(port, token).close)
        yield _change(page, client, 3 if quick else 20)


def _open(browser: Browser, address: str, token: str) -> Page:
    page = browser.new_page(base_url=address, viewport={"width": 1280, "height": 800})
    page.goto("/login")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/")
    return page


def _views(page: Page, size: int, rounds: int) -> Iterator[Figure]:
    page.goto("/")
    page.wait_for_load_state("load")
    yield Figure(
        name="transfer of the first page",
        asked="under 300 KiB",
        limit=300.0,
        is_at_least=False,
        measured=float(page.evaluate(_TRANSFER)) / 1024,
        unit="KiB",
    )
    views, searches = [], []
    for number in range(rounds):
        began = perf_counter()
        page.goto("/fleet")
        page.wait_for_function(_DRAWN)
        views.append(perf_counter() - began)
        began = perf_counter()
        page.goto(f"/fleet?search={number:04d}")
        page.wait_for_function("() => document.querySelector('.tile, .card') !== null")
        searches.append((perf_counter() - began) * 1000)
    yield Figure(
        name=f"first view of {size:,} VMs",
        asked="under 1 s",
        limit=1.0,
        is_at_least=False,
        measured=spread_of(views).median,
        unit="s",
        spread=spread_of(views),
    )
    yield Figure(
        name="a search in them is shown",
        asked="under 100 ms",
        limit=100.0,
        is_at_least=False,
        measured=spread_of(searches).median,
        unit="ms",
        spread=spread_of(searches),
    )
    page.goto("/fleet")
    page.wait_for_function(_DRAWN)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    found = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    yield Figure(
        name=f"heap of the page with {size:,} VMs",
        asked="under 200 MiB",
        limit=200.0,
        is_at_least=False,
        measured=found["JSHeapUsedSize"] / 2**20,
        unit="MiB",
    )


def _listen(port: int, token: str) -> HTTPConnection:
    """Open a stream of changes that is never read: the kernel's buffers take what it says."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/v1/changes", headers={"Authorization": f"Bearer {token}"})
    connection.getresponse()
    return connection


def _change(page: Page, client: ControlClient, rounds: int) -> Figure:
    """Cordon and uncordon a host, and wait until its page says so."""
    host = next(client.hosts()).name
    page.goto(f"/hosts/{host}")
    page.wait_for_function("() => document.querySelector('#connection')?.textContent === 'live'")
    times = []
    for number in range(rounds):
        is_cordoned = number % 2 == 0
        began = perf_counter()
        client.operate_host(host, HostOperationBody(operation="cordon" if is_cordoned else "uncordon"))
        page.wait_for_function(
            f"() => document.querySelector('h1').textContent.includes('cordoned') === {json.dumps(is_cordoned)}",
            polling=5,
        )
        times.append((perf_counter() - began) * 1000)
    return Figure(
        name=f"a change is visible, with {_LISTENERS} other listeners",
        asked="within 200 ms",
        limit=200.0,
        is_at_least=False,
        measured=spread_of(times).median,
        unit="ms",
        spread=spread_of(times),
        detail="from the sending of the request to the text on the page",
    )
