"""What an attacker tries: stored scripts, requests of other sites, another tenant's data, ended sessions, paths."""

import asyncio
import logging
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from http.client import HTTPConnection

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import expect

from forewarn.control.bodies import DeliveryReceipt
from forewarn.control.dashboard.sessions import csrf_token, login_cookie, session_cookie
from forewarn.control.notifications.worker import DeliveryState, DeliveryStatus
from forewarn.core.commands import (
    Approve,
    CancelEvent,
    ChangeFleet,
    ImpactResult,
    OperateVm,
    RecordObservation,
    ReportImpact,
    SetSubscription,
    VmOperation,
)
from forewarn.core.model import (
    NODE,
    Caller,
    CallerKind,
    GroupKind,
    GroupTerms,
    Observation,
    ObservationKind,
    Role,
    Subscription,
    SubscriptionKind,
    Vm,
)
from forewarn.core.rollouts.commands import PauseRollout, ReportRolloutCheck, StartRollout
from forewarn.core.rollouts.model import HealthGate, RolloutOperation, RolloutTerms
from tests.control.dashboard.browsing import opened
from tests.control.dashboard.conftest import Browser
from tests.control.dashboard.test_login import token_of
from tests.harness import ApiHarness

ANN = Caller(CallerKind.OPERATOR, "ann")
EVIL = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>\u202eRTL & </script>" + "w" * 400
MALLORY = Caller(CallerKind.OPERATOR, "mallory<img src=x onerror=alert(1)>", "<script>alert(3)</script>")
PAGES = (
    *(
        "/",
        "/fleet",
        "/fleet?by=group",
        "/timeline",
        "/timeline?by=host",
        "/vms",
        "/vms/web-0",
        "/hosts",
        "/hosts/h1",
    ),
    *("/groups", "/groups/web", "/rollouts", "/rollouts/kernel", "/history", "/health", "/access", "/notifications"),
)
EXPORTS = tuple(
    f"/export/{name}.{form}"
    for name in ("vms", "groups", "events", "attention", "hosts", "rollouts", "refused", "tokens", "subscriptions")
    for form in ("csv", "json")
)


class _FailingDeliveries:
    """Delivers nothing, and repeats what the receiver said."""

    def check(self, subscription: Subscription) -> None:
        pass

    def delivery_of(self, subscription: str) -> DeliveryStatus:
        return DeliveryStatus(state=DeliveryState.PARKED, last_error=EVIL)

    async def send_test(self, subscription: Subscription) -> DeliveryReceipt:
        raise NotImplementedError


@pytest.fixture
def poisoned(harness: ApiHarness) -> ApiHarness:
    """Return a service with hostile text wherever somebody can leave some."""
    harness.enrol("web", "web-0")
    harness.do(OperateVm(id="1" * 32, by=MALLORY, operation=VmOperation.RESTART, vm="web-0", description=EVIL))
    event = next(iter(harness.node.replica.fleet.events))
    harness.node.progress[event] = EVIL
    harness.do(OperateVm(id="2" * 32, by=ANN, operation=VmOperation.DELETE, vm="web-1"))
    failing = next(each for each in harness.node.replica.fleet.events if each != event)
    harness.attempt(failing)
    harness.do(ReportImpact(id="3" * 32, by=NODE, event=failing, result=ImpactResult.FAILED, detail=EVIL))
    terms = RolloutTerms(
        operation=RolloutOperation.REBOOT, all_hosts=True, description=EVIL, gate=HealthGate(url="http://127.0.0.1/")
    )
    harness.do(StartRollout(id="4" * 32, by=MALLORY, name="kernel", terms=terms))
    harness.do(ReportRolloutCheck(id="5" * 32, by=NODE, rollout="kernel", wave=1, passed=False, detail=EVIL))
    target = "https://example.org/<img/src=x/onerror=alert(1)>"
    harness.do(
        SetSubscription(
            id="6" * 32, by=MALLORY, subscription=Subscription("s1", MALLORY.name, SubscriptionKind.WEBHOOK, target)
        )
    )
    harness.context.deliveries = _FailingDeliveries()
    harness.token(MALLORY.name)
    harness.node.warnings["evil"] = EVIL
    harness.context.authenticator.refused_by[EVIL] = 7
    return harness


def test_no_stored_text_becomes_markup(poisoned: ApiHarness, browser: Browser) -> None:
    """Wherever a page shows it: it is escaped, also in what scripts read."""
    browser.log_in(token_of(poisoned))
    event = next(iter(poisoned.node.replica.fleet.events))
    showing = set()
    for path in (*PAGES, f"/events/{event}", "/history?vm=web-1"):
        said = browser.get(path)
        assert said.status == 200, path
        body = said.body.decode()
        assert "<img" not in body, path
        assert "<script>" not in body, path
        if "onerror=alert(1)" in body:
            showing.add(path)
    assert showing >= {"/", "/rollouts/kernel", "/health", "/notifications", "/history", f"/events/{event}"}


@pytest.mark.end_to_end
def test_no_stored_text_runs_in_a_browser(chromium: Chromium, poisoned: ApiHarness) -> None:
    """Nothing is refused by the policy, because nothing asks for it; no dialog opens, and no image is asked for."""
    event = next(iter(poisoned.node.replica.fleet.events))
    with opened(chromium, poisoned) as page:
        for path in (*PAGES, f"/events/{event}"):
            page.goto(path)
            expect(page.locator("h1").first).to_be_visible()
            assert page.evaluate("document.querySelectorAll('img, main script:not([type])').length") == 0, path
        page.goto(f"/events/{event}")
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("dialog .preview")).to_be_visible()
        assert page.locator("img").count() == 0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/hosts", {"name": "<b>"}),
        ("/v1/groups", {"name": "<b>", "kind": "scale-set"}),
        ("/v1/rollouts", {"name": "<b>", "terms": {"operation": "reboot", "all_hosts": True}}),
    ],
)
def test_no_name_and_no_label_has_markup(harness: ApiHarness, path: str, body: dict[str, object]) -> None:
    """It is refused where it is given."""
    said = harness.ask("POST", path, body)

    assert said.status in (400, 409), said
    assert harness.ask("PATCH", "/v1/hosts/h1", {"labels": {"rack": "<b>"}}).status in (400, 409)
    assert harness.ask("POST", path, {**body, "name": "good"}).status in (200, 201)


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/json"])
def test_another_site_changes_nothing(harness: ApiHarness, browser: Browser, method: str, kind: str) -> None:
    """Its requests may carry the cookie, and never the CSRF token; that of another session is none."""
    browser.log_in(token_of(harness))
    before = harness.node.replica.revision
    path = {"POST": "/v1/vms/web-0/operations", "PATCH": "/v1/groups/web"}.get(method, "/v1/vms/web-0")
    more = {"Content_Type": kind, "Origin": "https://evil.example"}
    for csrf in ("", "guess", csrf_token("another"), csrf_token("")):
        said = browser.send(method, path, b'{"operation": "delete", "approval": "all"}', X_CSRF_Token=csrf, **more)
        assert said.status in (403, 405), (csrf, said)
    assert harness.node.replica.revision == before


def test_no_get_changes_anything(harness: ApiHarness, browser: Browser) -> None:
    """Whatever is opened in a session, by a link or an image of another site."""
    harness.do(OperateVm(id="1" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-0"))
    event = next(iter(harness.node.replica.fleet.events))
    browser.log_in(token_of(harness))
    before = harness.node.replica.revision
    for path in (*PAGES, *EXPORTS, "/logout", f"/v1/events/{event}/cancel", f"/v1/events/{event}/approve"):
        browser.get(path)
    assert harness.node.replica.revision == before
    assert browser.get("/").status == 200


def test_answers_are_neither_framed_nor_kept(harness: ApiHarness, browser: Browser) -> None:
    """Pages, exports, errors and redirects: no frame, no guess of the type, no copy in a cache."""
    refused = browser.get("/vms")
    browser.log_in(token_of(harness))
    for said in (
        refused,
        *(browser.get(path) for path in (*PAGES, *EXPORTS, "/login", "/vms/nobody", "/export/x.csv")),
    ):
        assert said.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in said.headers["content-security-policy"]
        assert "unsafe" not in said.headers["content-security-policy"]
        assert said.headers["x-content-type-options"] == "nosniff"
        assert said.headers["cache-control"] == "no-store"


def test_pages_have_nothing_inline(poisoned: ApiHarness, browser: Browser) -> None:
    """Neither script nor style nor handler, which the policy would refuse; data for scripts is no script."""
    browser.log_in(token_of(poisoned))
    for path in (*PAGES, "/login"):
        said = browser.get(path)
        assert said.status == 200, path
        body = said.body.decode()
        assert not re.search(r"<style|<[^>]* style=|<[^>]* on[a-z]+=", body), path
        assert all("src=" in each or "application/json" in each for each in re.findall(r"<script[^>]*>", body)), path


@pytest.fixture
def rivals(harness: ApiHarness) -> ApiHarness:
    """Return a service with another tenant, to which everything has happened that pages can tell of."""
    terms = GroupTerms("rivals", GroupKind.SCALE_SET)
    vms = tuple(Vm(f"rival_{number}", "rivals", "h1", spot=True) for number in range(4))
    harness.do(ChangeFleet(id="2" * 32, by=ANN, groups=(terms,), vms=vms))
    harness.enrol("rivals", "rival_0")
    for number in range(3):
        harness.do(OperateVm(id=f"{number + 16:032x}", by=ANN, operation=VmOperation.RESTART, vm=f"rival_{number}"))
    canceled, failed, _ = list(harness.node.replica.fleet.events)
    harness.do(CancelEvent(id="3" * 32, by=ANN, event=canceled))
    harness.do(Approve(id="4" * 32, by=Caller(CallerKind.VM, "rival_1"), events=(failed,)))
    harness.attempt(failed)
    harness.do(ReportImpact(id="5" * 32, by=NODE, event=failed, result=ImpactResult.FAILED, detail="rival disk"))
    seen = Observation("rival_3", ObservationKind.CRASHED, harness.clock.now())
    harness.do(RecordObservation(id="6" * 32, by=NODE, observation=seen))
    rollout = RolloutTerms(operation=RolloutOperation.REBOOT, hosts=("h1",))
    harness.do(StartRollout(id="7" * 32, by=ANN, name="night", terms=rollout))
    harness.advance_rollouts()
    harness.do(PauseRollout(id="8" * 32, by=ANN, name="night"))
    return harness


def test_an_owner_gets_nothing_of_another_tenant(rivals: ApiHarness, browser: Browser) -> None:
    """On no page, in no export, by no id; what exists is told apart from what does not by nothing."""
    browser.log_in(token_of(rivals, Role.OWNER, groups=("web",)))
    shown = 0
    for path in (
        *PAGES,
        *EXPORTS,
        "/history?group=rivals",
        "/timeline?group=rivals",
        "/vms?group=rivals",
        "/vms?host=h1",
        "/vms?search=rival",
        "/fleet?search=rival",
        "/fleet?by=host&search=rival",
        "/fleet?state=failed",
        "/groups?search=rival",
        "/history?vm=rival_0",
    ):
        said = browser.get(path)
        body = said.body.decode().replace("/vms?group=rivals", "").lower()
        shown += said.status == 200
        echoed = r'group=rivals|search=rival\b|vm=rival_0|value="(rivals?|rival_0)"|there is no group \S+'
        assert "rival" not in re.sub(echoed, "", body), path
    assert shown > 20
    ended = (each.event for each in rivals.context.recent._ended.values())
    for event in (each.id for each in (*rivals.node.replica.fleet.events.values(), *ended) if each.group == "rivals"):
        known, unknown = browser.get(f"/events/{event}"), browser.get("/events/00000000-0000-4000-8000-000000000000")
        assert known.status == unknown.status == 404
    for path in ("/vms/rival_0", "/groups/rivals", "/fleet?by=group&group=rivals"):
        assert browser.get(path).status == 404, path
    for path in ("/hosts/h1", "/rollouts/night"):
        assert browser.get(path).status == 403, path


def test_an_owner_hears_nothing_of_another_tenant(rivals: ApiHarness, browser: Browser) -> None:
    """Neither of what is new nor of what was before; the stream is for this session alone, and is not kept."""
    browser.log_in(token_of(rivals, Role.OWNER, groups=("web",)))
    with stream_of(browser, "?after=1") as heard:
        rivals.do(OperateVm(id="a" * 32, by=ANN, operation=VmOperation.RESTART, vm="rival_3"))
        own = OperateVm(id="b" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-0", description="the last word")
        rivals.do(own)
        text = ""
        while "the last word" not in text:
            text += next(heard)
    assert "rival" not in text


class stream_of:  # noqa: N801 - it is used as a function
    """The stream of changes of a session, as text."""

    def __init__(self, browser: Browser, query: str = "") -> None:
        self._connection = HTTPConnection("127.0.0.1", browser.port, timeout=20)
        cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        self._connection.request("GET", f"/v1/changes{query}", headers={"Cookie": cookies})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        assert self._answer.headers["cache-control"] == "no-store"

    def __enter__(self) -> Iterator[str]:
        return iter(lambda: self._answer.read1().decode(), "")

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def rest_of(heard: Iterator[str], word: str) -> str:
    """Return what comes until the end of a stream, or until a word."""
    text = ""
    for part in heard:
        text += part
        if word in text:
            break
    return text


def test_a_code_is_in_no_log_and_in_no_record(
    harness: ApiHarness, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the code of a link nor the token for which it stands; and it is used up."""
    caplog.set_level(logging.DEBUG)
    token = token_of(harness)
    path = harness.ask("POST", "/v1/dashboard/links", {}, token=token).json["path"]
    code = path.partition("#code=")[2]

    assert browser.log_in(code=code).status == 303
    assert browser.log_in(code=code).status == 403
    told = caplog.text + repr(harness.recorded())
    assert code not in told
    assert token not in told


def test_a_session_ends_with_the_secret_of_its_token(harness: ApiHarness, browser: Browser) -> None:
    """A rotation ends it at once, pages and streams; the new secret begins another."""
    browser.log_in(token_of(harness))
    token = next(iter(harness.node.replica.fleet.tokens))
    with stream_of(browser) as heard:
        next(heard)
        new = harness.ask("POST", f"/v1/tokens/{token}/rotate").json["token"]
        assert "still here" not in rest_of(heard, "still here")  # it ends by itself
    assert browser.get("/").status == 303
    browser.log_in(new)
    assert browser.get("/").status == 200


def test_a_session_ends_when_the_old_secret_does(harness: ApiHarness, browser: Browser) -> None:
    """One that a rotation left valid for a while; so does its stream."""
    browser.log_in(token_of(harness))
    token = next(iter(harness.node.replica.fleet.tokens))
    harness.ask("POST", f"/v1/tokens/{token}/rotate?overlap=60")
    assert browser.get("/").status == 200
    with stream_of(browser) as heard:
        next(heard)
        for _ in range(20):  # now it waits for the next change
            harness.run(partial(asyncio.sleep, 0))
        harness.clock.advance(timedelta(seconds=61))
        harness.do(OperateVm(id="b" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-0"))
        assert "web-0" not in rest_of(heard, "web-0")
    assert browser.get("/").status == 303


def test_a_session_ends_when_its_token_expires(harness: ApiHarness, browser: Browser) -> None:
    """The cookie does not outlive it; what happens afterwards is not told to the open stream."""
    said = browser.log_in(token_of(harness, lasts=60))
    assert "max-age=60" in said.headers["set-cookie"].lower()
    with stream_of(browser) as heard:
        next(heard)
        for _ in range(20):  # now it waits for the next change
            harness.run(partial(asyncio.sleep, 0))
        harness.clock.advance(timedelta(seconds=61))
        harness.do(OperateVm(id="b" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-0"))
        assert "web-0" not in rest_of(heard, "web-0")
    assert browser.get("/").status == 303


@pytest.mark.parametrize(
    "target",
    [
        "/\t/evil.example",
        "/\r\nSet-Cookie: a=b",
        "/\\/evil.example",
        "http:evil.example",
        "///evil.example",
        "/\u65e5\u672c",
        " //evil.example",
        "evil.example",
    ],
)
def test_a_login_leads_nowhere_else(harness: ApiHarness, browser: Browser, target: str) -> None:
    """Whatever the address of the login page was made of."""
    browser.get("/login")
    csrf = csrf_token(browser.cookies[login_cookie(browser.port)])
    said = browser.post("/login", token=token_of(harness), next=target, csrf=csrf)

    assert said.status == 303
    assert re.fullmatch(r"/([^/\\].*)?", said.headers["location"])
    assert session_cookie(browser.port) in browser.cookies
    assert "a" not in browser.cookies


@pytest.mark.parametrize(
    "path",
    [
        "/static/x/../texts.toml",
        "/static/x/..%2ftexts.toml",
        "/static/x/%2e%2e%2f%2e%2e%2fsessions.py",
        "/static/x/..%5ctexts.toml",
        "/static/x//etc/passwd",
        "/static/..%2f..%2f/etc/passwd",
        "/static/x/texts.toml",
        "/static/x/dashboard.css%00.js",
    ],
)
def test_only_scripts_and_styles_are_files(browser: Browser, path: str) -> None:
    """No path leads out of their directory."""
    assert browser.get(path).status == 404
