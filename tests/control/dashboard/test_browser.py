"""The dashboard in a real Chromium: login, live updates, actions, accessibility, hostile names, small screens."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, expect

from forewarn.config.values import ListenAddress
from forewarn.control.client import ControlClient
from forewarn.control.server.change_stream import ChangeStream
from forewarn.control.server.control_plane import ControlPlane
from forewarn.control.server.sockets import ControlSockets
from forewarn.core.commands import CancelEvent, ChangeFleet, Enrol, OperateVm, SetGroup, VmOperation
from forewarn.core.model import Caller, CallerKind, Host, Role, Vm
from forewarn.core.rollouts.commands import StartRollout
from forewarn.core.rollouts.model import RolloutOperation, RolloutTerms
from tests.control.dashboard.browsing import opened
from tests.control.dashboard.test_login import token_of
from tests.harness import ApiHarness

pytestmark = pytest.mark.end_to_end

ANN = Caller(CallerKind.OPERATOR, "ann")
PAGES = (
    *("/", "/fleet", "/fleet?by=group", "/timeline", "/vms", "/vms/web-0", "/hosts", "/hosts/h1", "/groups"),
    *("/groups/web", "/rollouts", "/history", "/health", "/access", "/notifications"),
)
EVERYWHERE = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)
PHONE = {"width": 390, "height": 800}
CUT_OFF = """[...document.querySelectorAll("nav, .who, main *")]
    .filter((each) => getComputedStyle(each).overflowX !== "visible" && each.scrollWidth > each.clientWidth + 1)
    .map((each) => each.outerHTML.slice(0, 80))"""
"""What has to be scrolled sideways to be read."""
COUNT_STREAMS = """
    const Original = EventSource;
    window.streams = [];
    window.beats = 0;
    window.EventSource = class extends Original {
        constructor(...given) {
            super(...given);
            streams.push(this);
            this.addEventListener("beat", () => { beats += 1; });
        }
    };
"""


@pytest.fixture(autouse=True)
def enrolled(harness: ApiHarness) -> None:
    """Let operations be announced, instead of begun at once."""
    harness.do(Enrol(id="a" * 32, by=ANN, group="web", vm="web-0"))


def restart(harness: ApiHarness, vm: str = "web-0", number: int = 1, description: str | None = None) -> None:
    harness.do(OperateVm(id=f"{number:032x}", by=ANN, operation=VmOperation.RESTART, vm=vm, description=description))


def test_a_link_logs_in_and_leaves_no_code_behind(chromium: Browser, harness: ApiHarness) -> None:
    """Neither in the address nor in the history of the browser."""
    with opened(chromium, harness) as page:
        expect(page.locator("h1")).to_have_text("Tonight")
        assert "code" not in page.url


def test_an_announcement_appears_by_itself(chromium: Browser, harness: ApiHarness) -> None:
    """And is gone when it is canceled, without a reload."""
    with opened(chromium, harness) as page:
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.get_by_text("Nothing is announced")).to_be_visible()
        restart(harness)
        expect(page.get_by_role("cell", name="web-0").first).to_be_visible()
        event = next(iter(harness.node.replica.fleet.events))
        harness.do(CancelEvent(id="f" * 32, by=ANN, event=event))
        expect(page.get_by_text("Nothing is announced")).to_be_visible()


def test_a_lost_connection_is_shown_and_recovers(chromium: Browser, harness: ApiHarness) -> None:
    """What happened meanwhile is shown then."""
    with opened(chromium, harness) as page:
        expect(page.locator("#connection")).to_have_text("live")

        async def close() -> None:
            harness.context.changes.close()

        harness.run(close)
        restart(harness)
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.get_by_role("cell", name="web-0").first).to_be_visible()


def test_a_connection_that_falls_silent_is_made_anew(chromium: Browser, harness: ApiHarness) -> None:
    """Without an end or an error, as when a cable is pulled: the page says that it is lost, and connects again."""
    with opened(chromium, harness) as page:
        page.add_init_script(COUNT_STREAMS)
        page.clock.install()
        page.reload()
        expect(page.locator("#connection")).to_have_text("live")
        page.clock.fast_forward(41_000)
        expect(page.locator("#connection")).to_have_class("lost")
        expect(page.locator("#connection")).to_have_text("live")
        assert page.evaluate("streams.map((each) => each.readyState)") == [2, 1]


def test_heartbeats_keep_a_connection(chromium: Browser, harness: ApiHarness) -> None:
    """However long nothing happens; they cause no fetch."""
    harness.context.changes = ChangeStream(harness.node, harness.journal, heartbeat=0.05)
    with opened(chromium, harness, "/vms") as page:
        page.add_init_script(COUNT_STREAMS)
        page.clock.install()
        page.reload()
        expect(page.locator("#connection")).to_have_text("live")
        fetched: list[str] = []
        page.on("request", lambda request: fetched.append(request.url))
        for _ in range(4):
            heard = page.evaluate("beats")
            page.clock.fast_forward(30_000)
            page.wait_for_timeout(500)
            assert page.evaluate("beats") > heard
        assert page.evaluate("streams.map((each) => each.readyState)") == [1]
        assert len(fetched) <= 1  # the one after the connection


def test_an_event_becomes_late_by_itself(chromium: Browser, harness: ApiHarness) -> None:
    """Nothing is recorded when NotBefore passes: the start page and the page of the event are fetched regularly."""
    restart(harness)
    event = next(iter(harness.node.replica.fleet.events))
    with opened(chromium, harness) as page:
        page.clock.install()
        page.reload()
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.locator(".pill.late")).to_have_count(0)
        harness.clock.advance(timedelta(hours=1))
        page.clock.fast_forward(6_000)
        expect(page.locator("td .pill.late")).to_be_visible()
        page.goto(f"/events/{event}")
        expect(page.locator("#connection")).to_have_text("live")
        with page.expect_response(f"**/events/{event}"):
            page.clock.fast_forward(6_000)


def test_times_are_those_of_the_service(chromium: Browser, harness: ApiHarness) -> None:
    """A browser with a clock that is 80 minutes fast calls nothing late; each fetch corrects it."""
    restart(harness)
    with opened(chromium, harness) as page:
        page.clock.install(time=harness.clock.now() + timedelta(minutes=80))
        page.reload()
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.locator(".countdown")).to_have_text(re.compile("^14 min|^15 min"))
        page.goto("/timeline")
        expect(page.locator("#timeline a > title")).to_contain_text(re.compile(" 1[45] min "))
        page.goto("/")
        expect(page.locator("#connection")).to_have_text("live")
        harness.clock.advance(timedelta(hours=1))
        page.clock.fast_forward(6_000)
        expect(page.locator(".countdown")).to_have_text(re.compile("^late by 4[45] min"))


def test_a_field_that_is_typed_into_holds_back_nothing_else(chromium: Browser, harness: ApiHarness) -> None:
    """The state of a VM or an event goes on being shown; what was entered stays."""
    with opened(chromium, harness, "/vms/web-0") as page:
        expect(page.locator("#connection")).to_have_text("live")
        page.get_by_label("To host").fill("h")
        restart(harness)
        expect(page.locator("h1 .state")).to_have_text("announced")
        expect(page.get_by_role("heading", name="Events")).to_be_visible()
        expect(page.get_by_label("To host")).to_have_value("h")
        event = next(iter(harness.node.replica.fleet.events))
        harness.do(SetGroup(id="5" * 32, by=ANN, group="web", postpone_limit=3600))
        page.goto(f"/events/{event}")
        expect(page.locator("#connection")).to_have_text("live")
        page.get_by_label("Minutes").fill("7")
        harness.do(CancelEvent(id="f" * 32, by=ANN, event=event))
        expect(page.locator("h1 .state")).to_have_text("Canceled")
        expect(page.locator(".steps")).to_contain_text("Canceled")
        expect(page.get_by_label("Minutes")).to_have_value("7")


def test_an_ended_session_leads_to_the_login(chromium: Browser, harness: ApiHarness) -> None:
    """A page that is open says so by itself when the token is revoked."""
    with opened(chromium, harness) as page:
        expect(page.locator("#connection")).to_have_text("live")
        with ControlClient.local(harness.directory) as client:
            client.revoke_token(next(iter(client.tokens())).id)
        page.wait_for_url("**/login*")


def test_the_new_secret_of_the_token_of_the_session_is_shown(chromium: Browser, harness: ApiHarness) -> None:
    """The session ends with the old one, but not before the dialog is closed: the secret is shown once."""
    with opened(chromium, harness, "/access") as page:
        expect(page.locator("#connection")).to_have_text("live")
        page.get_by_role("row", name="this session").get_by_role("button", name="Rotate").click()
        page.get_by_role("button", name="Carry out").click()
        expect(page.locator("dialog").get_by_text("This secret is shown once: fw_")).to_be_visible()
        expect(page.locator("#connection")).to_have_class("lost")
        expect(page.locator("dialog").get_by_text("This secret is shown once: fw_")).to_be_visible()
        page.get_by_role("button", name="Close").click()
        page.wait_for_url("**/login*")


def test_a_page_of_something_removed_says_so(chromium: Browser, harness: ApiHarness) -> None:
    """It does not go on showing a VM that is gone."""
    with opened(chromium, harness, "/vms/db") as page:
        expect(page.locator("#connection")).to_have_text("live")
        harness.do(ChangeFleet(id="d" * 32, by=ANN, removed_vms=("db",)))
        expect(page.locator("main h1")).to_have_text("There is no such thing")
        expect(page.get_by_role("button", name="Restart")).to_have_count(0)


def test_regions_without_a_change_stay_as_they_are(chromium: Browser, harness: ApiHarness) -> None:
    """A fact that does not concern the list does not build it anew; one that does reaches it beside a focused box."""
    with opened(chromium, harness, "/vms") as page:
        expect(page.locator("#connection")).to_have_text("live")
        page.evaluate("document.querySelector('tbody tr').isOld = true")
        with page.expect_response("**/vms"):
            harness.do(Enrol(id="b" * 32, by=ANN, group="pool", vm="pool_0"))
        page.wait_for_timeout(50)
        assert page.evaluate("document.querySelector('tbody tr').isOld") is True
        page.get_by_role("checkbox", name="web-0").check()
        restart(harness, "web-1")
        expect(page.get_by_role("row", name="web-1").locator(".state")).to_have_text("announced")
        expect(page.get_by_role("checkbox", name="web-0")).to_be_checked()
        expect(page.get_by_role("checkbox", name="web-0")).to_be_focused()


def test_actions_work_by_plain_http_from_another_machine(chromium: Browser, harness: ApiHarness) -> None:
    """There the browser has no crypto.randomUUID."""
    with opened(chromium, harness, "/vms/web-0") as page:
        page.evaluate("delete Crypto.prototype.randomUUID")
        page.get_by_role("button", name="Restart").click()
        page.get_by_role("button", name="Carry out").click()
        expect(page.locator("dialog").get_by_text("Done:")).to_be_visible()


def test_all_rollouts_that_run_are_paused(chromium: Browser, harness: ApiHarness) -> None:
    """Those that run at the click; the question says what goes on."""
    with opened(chromium, harness) as page:
        expect(page.locator("#connection")).to_have_text("live")
        for number, name in enumerate(("one", "two")):
            terms = RolloutTerms(operation=RolloutOperation.REBOOT, hosts=(f"h{number + 1}",))
            harness.do(StartRollout(id=f"{number + 20:032x}", by=ANN, name=name, terms=terms))
        page.get_by_role("button", name="Pause all rollouts (2)").click()
        expect(page.locator("dialog")).to_contain_text("Started ones finish")
        expect(page.locator("dialog")).not_to_contain_text("cannot be undone")
        page.get_by_role("button", name="Carry out").click()
        expect(page.get_by_role("listitem").filter(has_text="two: paused")).to_be_visible()
    assert {each.state for each in harness.node.replica.fleet.rollouts.values()} == {"paused"}


def test_a_vm_is_restarted_after_a_question(chromium: Browser, harness: ApiHarness) -> None:
    """The answer says what was announced."""
    with opened(chromium, harness, "/vms/web-0") as page:
        page.get_by_role("button", name="Restart").click()
        dialog = page.locator("dialog")
        expect(dialog).to_be_visible()
        assert not harness.node.replica.fleet.events
        dialog.get_by_role("button", name="Carry out").click()
        expect(dialog.get_by_text("Done:")).to_be_visible()
    assert harness.node.replica.fleet.events


def test_several_vms_are_restarted_together(chromium: Browser, harness: ApiHarness) -> None:
    """Each has its own answer; a refusal is shown beside its VM."""
    with opened(chromium, harness, "/vms") as page:
        restart(harness, "web-0")
        page.get_by_role("checkbox", name="web-0").check()
        page.get_by_role("checkbox", name="web-1").check()
        page.get_by_role("button", name="Restart").click()
        page.get_by_role("button", name="Carry out").click()
        expect(page.locator("dialog").get_by_text("Refused:")).to_be_visible()
        expect(page.locator("dialog").get_by_text("Done:")).to_be_visible()


def test_an_event_is_canceled_on_its_page(chromium: Browser, harness: ApiHarness) -> None:
    """The page then shows its end."""
    restart(harness)
    event = next(iter(harness.node.replica.fleet.events))
    with opened(chromium, harness, f"/events/{event}") as page:
        page.get_by_role("button", name="Cancel the event").click()
        page.get_by_role("button", name="Carry out").click()
        page.get_by_role("button", name="Close").click()
        expect(page.locator("h1 .state")).to_have_text("Canceled")


def test_a_viewer_sees_no_actions(chromium: Browser, harness: ApiHarness) -> None:
    """It logs in with its token, by hand."""
    token = token_of(harness, Role.VIEWER)
    page = chromium.new_page(base_url=f"http://127.0.0.1:{harness.control_plane.port}")
    page.goto("/vms/web-0")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("h1")).to_contain_text("web-0")
    expect(page.get_by_role("button", name="Restart")).to_have_count(0)
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible(chromium: Browser, harness: ApiHarness, scheme: str) -> None:
    """No serious or critical finding of axe-core."""
    restart(harness)
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)
    harness.do(StartRollout(id="9" * 32, by=ANN, name="kernel", terms=terms))
    harness.advance_rollouts()
    event = next(iter(harness.node.replica.fleet.events))
    with opened(chromium, harness, color_scheme=scheme) as page:
        for path in (*PAGES, f"/events/{event}", "/rollouts/kernel", "/login", "/nowhere"):
            page.goto(path)
            found = Axe().run(page).response["violations"]
            serious = [
                (each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")
            ]
            assert serious == [], path


def test_hostile_names_are_shown_as_text(chromium: Browser, harness: ApiHarness) -> None:
    """No dialog opens, nothing is broken."""
    evil = "<img src=x onerror=alert(1)>\"'&\u202eRTL"
    restart(harness, description=evil)
    harness.do(
        ChangeFleet(
            id="e" * 32, by=ANN, hosts=(Host("h-" + "x" * 60),), vms=(Vm("v" * 60, "web", "h1", update_domain=4),)
        )
    )
    event = next(iter(harness.node.replica.fleet.events))
    with opened(chromium, harness, f"/events/{event}") as page:
        expect(page.get_by_text("<img src=x onerror=alert(1)>").first).to_be_visible()
        for path in PAGES:
            page.goto(path)


def test_a_page_goes_on_after_a_restart_of_the_service(chromium: Browser, harness: ApiHarness) -> None:
    """It tells that the connection is lost, and shows what is then."""
    with opened(chromium, harness) as page:
        expect(page.locator("#connection")).to_have_text("live")
        port = harness.control_plane.port
        harness.run(harness.control_plane.close)
        expect(page.locator("#connection")).to_have_class("lost")
        sockets = ControlSockets(harness.directory, ListenAddress("127.0.0.1", port))
        harness.control_plane = ControlPlane(harness.context, sockets)
        restart(harness)
        harness.open()
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.get_by_role("cell", name="web-0").first).to_be_visible()


def test_pages_fit_a_phone(chromium: Browser, harness: ApiHarness) -> None:
    """Nothing is wider than the screen but tables, which scroll by themselves; the navigation shows the page."""
    restart(harness)
    harness.do(StartRollout(id="9" * 32, by=ANN, name="kernel" * 8, terms=EVERYWHERE))
    harness.advance_rollouts()
    event = next(iter(harness.node.replica.fleet.events))
    with opened(chromium, harness, viewport=PHONE) as page:
        for path in (*PAGES, f"/events/{event}", f"/rollouts/{'kernel' * 8}", "/vms/nobody"):
            page.goto(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
            expect(page.get_by_text("· operator")).to_be_visible()
            if path != "/vms/nobody":
                place = page.locator("nav [aria-current]").evaluate("each => each.getBoundingClientRect().toJSON()")
                assert 0 <= place["left"] < place["right"] <= PHONE["width"], path


def test_a_lost_connection_fits_a_phone(chromium: Browser, harness: ApiHarness) -> None:
    """What says so does not make the page wider than the screen."""
    with opened(chromium, harness, viewport=PHONE, timezone_id="America/Argentina/Buenos_Aires") as page:
        expect(page.locator("#connection")).to_have_text("live")
        harness.run(harness.control_plane.close)
        expect(page.locator("#connection")).to_have_text("connection lost")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    harness.open()


def test_the_timeline_begins_around_now(chromium: Browser, harness: ApiHarness) -> None:
    """One event of next week does not squeeze the others; everything is one click away."""
    restart(harness, "web-0")
    week = harness.clock.now() + timedelta(days=7)
    harness.do(OperateVm(id="7" * 32, by=ANN, operation=VmOperation.FREEZE, vm="web-1", not_before=week))
    with opened(chromium, harness, "/timeline") as page:
        near = page.locator("#timeline a", has_text="web-0").locator("rect").first
        wide = "each => each.getBoundingClientRect().width"
        assert near.evaluate(wide) > 40
        page.get_by_role("button", name="All", exact=True).click()
        assert near.evaluate(wide) < 10
        page.get_by_role("button", name="Now", exact=True).click()
        assert near.evaluate(wide) > 40


def test_a_started_event_is_drawn_until_now(chromium: Browser, harness: ApiHarness) -> None:
    """And not until a NotBefore in the future, before which it was approved; nor is that NotBefore marked."""
    restart(harness)
    event = next(iter(harness.node.replica.fleet.events))
    harness.clock.advance(timedelta(minutes=5))
    harness.ask("POST", f"/v1/events/{event}/approve")
    harness.clock.advance(timedelta(minutes=1))
    with opened(chromium, harness, "/timeline") as page:
        bar = page.locator("#timeline a rect.done").bounding_box()
        present = page.locator("#timeline .now").bounding_box()
        assert bar is not None
        assert present is not None
        assert abs(bar["x"] + bar["width"] - present["x"]) < 5
        expect(page.locator("#timeline .mark")).to_have_count(0)
        expect(page.locator("#timeline .approval")).to_have_count(1)


def test_the_timeline_is_searched(chromium: Browser, harness: ApiHarness) -> None:
    """For groups, hosts and VMs; the group that it is limited to is named, and can be left."""
    restart(harness)
    restart(harness, "db", number=2)
    lanes = "[...document.querySelectorAll('#timeline .lane')].map((each) => each.textContent)"
    with opened(chromium, harness, "/timeline") as page:
        expect(page.locator("#timeline .lane")).to_have_count(2)
        page.get_by_label("Group, host or VM").fill("WEB-0")
        expect(page.locator("#timeline .lane")).to_have_count(1)
        assert page.evaluate(lanes) == ["web"]
        page.goto("/timeline?group=db")
        expect(page.locator("#timeline .lane")).to_have_count(1)
        expect(page.get_by_text("Only group db")).to_be_visible()
        page.get_by_role("link", name="All groups").click()
        expect(page.locator("#timeline .lane")).to_have_count(2)


def test_dates_are_shown_unless_they_are_today(chromium: Browser, harness: ApiHarness) -> None:
    """Written so that day and month cannot be taken for each other."""
    soon, late = harness.clock.now() + timedelta(minutes=30), harness.clock.now() + timedelta(hours=23)
    for number, (vm, at) in enumerate((("web-0", soon), ("web-1", late))):
        harness.do(OperateVm(id=f"{number:032x}", by=ANN, operation=VmOperation.FREEZE, vm=vm, not_before=at))
    with opened(chromium, harness, "/groups/web", timezone_id="Asia/Tokyo") as page:
        times = page.locator("td .countdown").locator("xpath=preceding-sibling::time")
        expect(times).to_have_text(["09:30:00", "2026-01-02 08:00:00"])


def test_actions_on_a_selection_stay_in_sight(chromium: Browser, harness: ApiHarness) -> None:
    """However far down the list the last VM was selected."""
    many = tuple(Vm(f"web-{number:02}", "web", "h1") for number in range(10, 60))
    harness.do(ChangeFleet(id="e" * 32, by=ANN, vms=many))
    for viewport in (PHONE, {"width": 1440, "height": 900}):
        with opened(chromium, harness, "/vms", viewport=viewport) as page:
            page.get_by_role("checkbox", name="web-59").check()
            place = page.get_by_role("button", name="Restart").bounding_box()
            assert place is not None
            assert 0 <= place["y"] < viewport["height"]
            page.get_by_role("button", name="Restart").click(timeout=5_000)
            expect(page.locator("dialog")).to_contain_text("web-59")


def test_a_late_event_says_how_late_it_is(chromium: Browser, harness: ApiHarness) -> None:
    """Its type and its status are not broken into parts."""
    harness.clock.advance(datetime.now(UTC) - timedelta(hours=2, minutes=20) - harness.clock.now())
    restart(harness)
    harness.clock.advance(timedelta(hours=2, minutes=20))
    with opened(chromium, harness, viewport={"width": 1280, "height": 800}) as page:
        expect(page.get_by_role("cell", name="late by 2 h")).to_be_visible()
        lines = """cell => { const range = document.createRange(); range.selectNodeContents(cell);
            return new Set([...range.getClientRects()].map((each) => Math.round(each.top))).size; }"""
        assert [page.locator("td.word").nth(number).evaluate(lines) for number in (0, 1)] == [1, 1]


@pytest.mark.parametrize(
    ("width", "height", "letters"), [(1280, 800, 15), (1920, 1080, 16), (2560, 1440, 22), (3840, 2160, 33)]
)
def test_a_wall_display_is_read_from_afar(
    chromium: Browser, harness: ApiHarness, width: int, height: int, letters: int
) -> None:
    """Texts and drawings are larger there, and fill the width; nothing is cut off."""
    restart(harness)
    with opened(chromium, harness, viewport={"width": width, "height": height}) as page:
        for path in ("/", "/fleet", "/timeline", "/rollouts", "/health"):
            page.goto(path)
            assert page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") >= letters, path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate("document.querySelector('main').getBoundingClientRect().width") > 0.9 * width, path
            assert page.evaluate(CUT_OFF) == [], path
        page.goto("/timeline")
        expect(page.locator("#timeline a")).to_have_count(1)
        assert (
            page.locator("#timeline a rect").first.evaluate("each => each.getBoundingClientRect().height") >= letters
        )


def test_a_bad_night_is_understood_in_two_clicks(chromium: Browser, harness: ApiHarness) -> None:
    """From the start page: who has not been told, who has not approved, what is late, and how to stop it."""
    harness.clock.advance(datetime.now(UTC) - timedelta(hours=1) - harness.clock.now())
    restart(harness, "web-0")
    restart(harness, "web-1", number=2)
    harness.do(StartRollout(id="9" * 32, by=ANN, name="kernel", terms=EVERYWHERE))
    first = next(iter(harness.node.replica.fleet.events.values()))
    for vm in first.vms:
        harness.show(first.id, vm)
    harness.clock.advance(timedelta(hours=1))
    with opened(chromium, harness) as page:
        rows = page.locator("[data-region=tonight] tbody tr")
        for reason, vms in (("Not fetched", ["web-1"]), ("Not approved", ["web-0", "web-1"])):
            page.goto("/")
            page.get_by_role("link", name=reason).click()
            expect(rows).to_have_count(len(vms))
            for vm in vms:
                expect(rows.filter(has_text=vm)).to_have_count(1)
        page.goto("/")
        page.get_by_role("link", name="Late").click()
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("late by")
        page.goto("/")
        page.get_by_role("button", name="Pause all and withdraw").click()
        page.get_by_role("button", name="Carry out").click()
        expect(page.locator("dialog").get_by_text("Done:").first).to_be_visible()
    assert harness.node.replica.fleet.rollouts["kernel"].state == "paused"


def test_the_timeline_can_be_moved_by_keys(chromium: Browser, harness: ApiHarness) -> None:
    """And every event in it is a link."""
    restart(harness)
    with opened(chromium, harness, "/timeline") as page:
        expect(page.locator("#timeline a")).to_have_count(1)
        before = page.locator("#timeline a rect").first.get_attribute("x")
        page.keyboard.press("ArrowRight")
        assert (
            page.locator("#timeline a rect").first.get_attribute("x") != before
            or page.locator("#timeline a").count() == 0
        )


def test_a_rollout_is_previewed_started_and_paused(chromium: Browser, harness: ApiHarness) -> None:
    """The plan is drawn before anything is announced; the page of the rollout then follows it."""
    with opened(chromium, harness, "/rollouts") as page:
        page.get_by_role("textbox", name="Name", exact=True).fill("kernel")
        page.get_by_label("Operation").first.select_option("freeze")
        page.get_by_label("All hosts").check()
        expect(page.locator("#plan svg")).to_be_visible()
        assert not harness.node.replica.fleet.rollouts
        page.get_by_role("button", name="Start").click()
        page.get_by_role("button", name="Carry out").click()
        expect(page.locator("dialog").get_by_text("Done:")).to_be_visible()
        page.goto("/rollouts/kernel")
        page.get_by_role("button", name="Pause", exact=True).click()
        page.get_by_role("button", name="Carry out").click()
        expect(page.locator("h1")).to_contain_text("paused")
