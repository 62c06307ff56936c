"""A fleet of 100,000 VMs in a real Chromium: counts first, then what is searched for; many changes to one page."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from forewarn.core.commands import ChangeFleet, CordonHost, OperateVm, VmOperation
from forewarn.core.facts import HostCordonSet
from forewarn.core.model import Caller, CallerKind, GroupKind, GroupTerms, Host, Vm
from forewarn.node.feed import Commit
from tests.control.dashboard.browsing import opened
from tests.harness import ApiHarness, open_harness

pytestmark = pytest.mark.end_to_end

ANN = Caller(CallerKind.OPERATOR, "ann")
VMS, HOSTS, GROUPS = 100_000, 2_000, 1_000
DRAWN = "#fleet-map:not([hidden])"
CHANGES, ROUNDS = 20_000, 50
PER_ROUND = CHANGES // ROUNDS
FIRST = 16
"""Rounds before the first measurement: then the list of what happened last is as long as it gets."""
MIB = 2**20
LISTEN = """
    window.heard = 0;
    new EventSource("/v1/changes").addEventListener("host-cordon-set", () => { heard += 1; });
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiHarness]:
    directory: Path = tmp_path_factory.mktemp("large")
    with open_harness(directory) as harness:
        harness.declare("")
        harness.do(
            ChangeFleet(
                id="c" * 32,
                by=ANN,
                hosts=tuple(Host(f"host-{number}") for number in range(HOSTS)),
                groups=tuple(GroupTerms(f"group-{number}", GroupKind.AVAILABILITY_SET) for number in range(GROUPS)),
                vms=tuple(
                    Vm(f"vm-{number:06}", f"group-{number % GROUPS}", f"host-{number % HOSTS}")
                    for number in range(VMS)
                ),
            )
        )
        harness.enrol("group-7", "vm-000007")
        harness.do(OperateVm(id="1" * 32, by=ANN, operation=VmOperation.RESTART, vm="vm-000007"))
        harness.do(OperateVm(id="2" * 32, by=ANN, operation=VmOperation.RESTART, vm="vm-001007"))
        yield harness


def elements(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def test_a_large_fleet_is_counted_first(chromium: Browser, large: ApiHarness) -> None:
    """One cell per host or group on a canvas, and the states in numbers; the page stays small."""
    with opened(chromium, large, "/fleet") as page:
        expect(page.locator(DRAWN)).to_be_visible()
        expect(page.locator(".legend")).to_contain_text("100,000 VMs")
        expect(page.locator(".legend")).to_contain_text("announced 2")
        assert page.evaluate("JSON.parse(document.getElementById('fleet-cells').textContent).length") == HOSTS
        colours = "[...new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, 60).data.buffer)]"
        drawn = page.evaluate(f"(() => {{ const canvas = document.querySelector('canvas'); return {colours}; }})()")
        assert len(set(drawn)) > 2  # nothing, idle, and announced
        assert elements(page) < 1_000
        page.get_by_label("By group").check()
        expect(page.locator("#fleet-cells[data-by=group]")).to_have_count(1)
        assert page.evaluate("JSON.parse(document.getElementById('fleet-cells').textContent).length") == GROUPS
        assert "by=group" in page.url


def test_a_search_in_a_large_fleet_draws_what_it_found(chromium: Browser, large: ApiHarness) -> None:
    """While one types; the address keeps it, so that a reload shows the same."""
    with opened(chromium, large, "/fleet") as page:
        page.get_by_label("Search").press_sequentially("vm-0420")
        expect(page.locator(".tile")).to_have_count(100)
        expect(page.locator(DRAWN)).to_have_count(0)
        expect(page.get_by_label("Search")).to_be_focused()
        assert "search=vm-0420" in page.url
        page.reload()
        expect(page.locator(".tile")).to_have_count(100)
        page.get_by_label("Search").fill("")
        expect(page.locator(DRAWN)).to_be_visible()
        expect(page.locator(".tile")).to_have_count(0)


def test_a_large_fleet_is_filtered_by_state(chromium: Browser, large: ApiHarness) -> None:
    """The few that are not idle are drawn one by one; of the many that are, as many as fit."""
    with opened(chromium, large, "/fleet") as page:
        page.get_by_label("State").select_option("announced")
        expect(page.locator(".tile")).to_have_text(["vm-000007", "vm-001007"])
        page.get_by_label("State").select_option("idle")
        expect(page.locator(".legend")).to_contain_text("2,000+ VMs")
        expect(page.locator(".tile")).to_have_count(2_000)


def test_a_cell_of_a_large_fleet_is_opened(chromium: Browser, large: ApiHarness) -> None:
    """By a click, and by keys; there its VMs are drawn one by one."""
    with opened(chromium, large, "/fleet") as page:
        expect(page.locator(DRAWN)).to_be_visible()
        page.locator("#fleet-map").click(position={"x": 21 * 7 + 5, "y": 5})
        page.wait_for_url("**/hosts/host-7")
        expect(page.locator(".tile")).to_have_count(VMS // HOSTS)
        page.goto("/fleet")
        expect(page.locator(DRAWN)).to_be_visible()
        page.locator("#fleet-map").focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        expect(page.locator("#fleet-hint")).to_contain_text("host-2: 50 idle")
        page.keyboard.press("Enter")
        page.wait_for_url("**/hosts/host-2")


def test_the_list_of_a_large_fleet_is_searched(chromium: Browser, large: ApiHarness) -> None:
    """It names how many it shows, and finds the others."""
    with opened(chromium, large, "/vms") as page:
        expect(page.locator("tbody").first.locator("tr")).to_have_count(500)
        expect(page.get_by_text("500 are shown; search to see the others")).to_be_visible()
        page.get_by_label("Search").fill("vm-099999")
        expect(page.locator("tbody").first.locator("tr")).to_have_count(1)


class LiveMemory(msgspec.Struct, frozen=True):
    """What a page holds after garbage collection."""

    bytes: float
    nodes: int
    objects: int


def live_memory(session: CDPSession) -> LiveMemory:
    """Collect garbage, and measure the heap, the nodes, and every object that inherits from ``Object``."""
    everything = session.send("Runtime.evaluate", {"expression": "Object.prototype", "objectGroup": "counting"})
    found = session.send(
        "Runtime.queryObjects",
        {"prototypeObjectId": everything["result"]["objectId"], "objectGroup": "counting"},
    )
    count = session.send(
        "Runtime.callFunctionOn",
        {
            "objectId": found["objects"]["objectId"],
            "functionDeclaration": "function () { return this.length; }",
            "returnByValue": True,
        },
    )
    session.send("Runtime.releaseObjectGroup", {"objectGroup": "counting"})
    session.send("HeapProfiler.collectGarbage")
    session.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return LiveMemory(metrics["JSHeapUsedSize"], int(metrics["Nodes"]), count["result"]["value"])


def test_many_changes_leave_nothing_behind_in_a_page(chromium: Browser, large: ApiHarness) -> None:
    """Of 20,000 changes, of which 50 are shown, no object and no node stays, and the heap grows by less than 5 MiB.

    A small object for each change is far less than 5 MiB: so objects are counted too.
    """
    with opened(chromium, large, "/hosts/host-0") as page:
        expect(page.locator("#connection")).to_have_text("live")
        page.evaluate(LISTEN)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        for number in range(-FIRST, 0):
            change(page, large, number)
        page.wait_for_function(f"heard >= {FIRST * PER_ROUND}")  # this also loads Playwright's own objects
        before = live_memory(session)
        for number in range(ROUNDS):
            change(page, large, number)
        page.wait_for_function(f"heard >= {(FIRST + ROUNDS) * PER_ROUND}")
        after = live_memory(session)
    assert after.objects - before.objects < ROUNDS / 2
    assert after.nodes - before.nodes < ROUNDS / 2
    assert after.bytes - before.bytes < 5 * MIB


def change(page: Page, large: ApiHarness, number: int) -> None:
    """Cordon or uncordon the host of the page, tell of all other changes of a round, and see the first."""
    facts = large.do(CordonHost(id=f"{number + FIRST + 3:032x}", by=ANN, host="host-0", is_cordoned=number % 2 == 0))
    fact = next(fact for fact in facts if isinstance(fact, HostCordonSet))

    async def publish() -> None:
        entry: Any = next(iter(large.journal.entries(large.node.replica.revision - 1, 1)))
        many = type(entry)(entry.revision, entry.at, entry.command, entry.by, (fact,) * (PER_ROUND - 1))
        large.context.changes.publish(Commit((many,), large.context.fleet))

    large.run(publish)
    expect(page.locator("h1")).to_contain_text("cordoned" if number % 2 == 0 else "up")
    if number % 2:
        expect(page.locator("h1")).not_to_contain_text("cordoned")
