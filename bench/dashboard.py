"""The dashboard in Chromium: how soon a large fleet is drawn, what a page takes, and how soon a change is visible."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from threading import Event as Signal
from time import perf_counter

from playwright.sync_api import Browser, Page, sync_playwright

from bench import fleets, pacer, service
from bench.disturbances import beside
from bench.figures import Figure, spread_of
from bench.listeners import wait_for_service
from bench.machine import cores
from bench.pacer import Pace
from bench.processes import free_port
from bench.server import Server
from bench.slowest_gets import tail_beside
from forewarn.control.bodies import HostOperationBody, TokenBody
from forewarn.control.client import ControlClient
from forewarn.core.model import Role

_SIZE = 100_000
_QUICK_SIZE = 5_000
_LISTENERS = 49
_RATE = 1_000
"""GETs per second."""
_EVERY = 0.5
"""Seconds from one change to the next."""
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
_DRAWN = "() => document.querySelector('#fleet-map')?.height > 0 || document.querySelector('.tile') !== null"

_SEARCH = """async (text) => {
    const box = document.querySelector("input[type=search]");
    const region = document.querySelector("[data-region=fleet]");
    const began = performance.now();
    const isShown = new Promise((resolve) => new MutationObserver(resolve).observe(region, { childList: true }));
    box.value = text;
    box.form.requestSubmit();
    await isShown;
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    return performance.now() - began;
}"""
"""Milliseconds from Enter in the search box until what it found is painted."""

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
        ours = stack.enter_context(service.serving(data, core, more=("--control", f"127.0.0.1:{port}")))
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
        yield _gets(page, ours, data, rounds=2 if quick else 5, seconds=2.0 if quick else 5.0)


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
        searches.append(float(page.evaluate(_SEARCH, f"{number:04d}")))
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
        name=f"memory of the page with {size:,} VMs",
        asked="under 200 MiB",
        limit=200.0,
        is_at_least=False,
        measured=max(_memories(page.context.browser)),
        unit="MiB",
        detail=f"proportional set size of the browser's process for it; its heap is"
        f" {found['JSHeapUsedSize'] / 2**20:.1f} MiB",
    )


def _memories(browser: Browser | None) -> Iterator[float]:
    """Yield the memory of each process that draws pages, in MiB."""
    assert browser is not None
    for each in browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]:
        if each["type"] == "renderer":
            lines = Path(f"/proc/{each['id']}/smaps_rollup").read_text("ascii").splitlines()
            yield next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


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


def _gets(page: Page, ours: Server, data: Path, *, rounds: int, seconds: float) -> Figure:
    """Send GETs while a page and the others follow changes, and while there is neither change nor page."""
    _, load = cores()
    host = page.url.rpartition("/")[2]

    def change(data: Path, stop: Signal) -> None:
        with ControlClient.local(data) as client:
            while not stop.wait(_EVERY):
                for operation in ("cordon", "uncordon"):
                    client.operate_host(host, HostOperationBody(operation=operation))

    followed, quiet = [], []
    address = page.url
    for _ in range(rounds):
        page.goto("about:blank")
        quiet.append(pacer.run(load, Pace(ours.port, _RATE, seconds)))
        page.goto(address)
        with beside(data, change):
            followed.append(pacer.run(load, Pace(ours.port, _RATE, seconds)))
    return tail_beside(f"a page and {_LISTENERS} listeners that follow changes", followed, quiet)
