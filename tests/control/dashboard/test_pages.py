"""Every page under every role: who is let in, what is shown, and that names are only text."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from html import unescape
from importlib.resources import files
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from forewarn.control.dashboard.events import event_row
from forewarn.control.dashboard.pages.exports import LISTS, write_csv
from forewarn.control.dashboard.states import EventState, state_of
from forewarn.control.server.metrics import MetricSources
from forewarn.core.commands import (
    Approve,
    CancelEvent,
    ChangeFleet,
    Command,
    DeallocateVm,
    HostOperation,
    ImpactResult,
    OperateHost,
    OperateVm,
    RecordFetched,
    RecordObservation,
    ReportImpact,
    SetGroup,
    SetSubscription,
    VmOperation,
)
from forewarn.core.facts import Announced, Entry, Fetch, StartedAtOnce
from forewarn.core.model import (
    NODE,
    ApprovalRule,
    Caller,
    CallerKind,
    GroupKind,
    GroupTerms,
    Host,
    Observation,
    ObservationKind,
    Role,
    Subscription,
    SubscriptionKind,
    Vm,
)
from forewarn.core.rollouts.commands import PauseRollout, StartRollout
from forewarn.core.rollouts.model import RolloutOperation, RolloutTerms
from forewarn.node.histogram import Histogram
from tests.control.dashboard.conftest import Browser
from tests.control.dashboard.test_login import token_of
from tests.harness import ApiHarness, ApiResponse

ANN = Caller(CallerKind.OPERATOR, "ann")
PAGES = {
    "/": {"operator", "owner", "viewer"},
    "/fleet": {"operator", "owner", "viewer"},
    "/fleet?by=group": {"operator", "owner", "viewer"},
    "/timeline": {"operator", "owner", "viewer"},
    "/vms": {"operator", "owner", "viewer"},
    "/vms/web-0": {"operator", "owner", "viewer"},
    "/groups": {"operator", "owner", "viewer"},
    "/groups/web": {"operator", "owner", "viewer"},
    "/history": {"operator", "owner", "viewer"},
    "/hosts": {"operator", "viewer"},
    "/rollouts": {"operator", "viewer"},
    "/health": {"operator", "viewer"},
    "/fleet?by=group&group=web": {"operator", "owner", "viewer"},
    "/rollouts/kernel": {"operator", "viewer"},
    "/access": {"operator"},
    "/notifications": {"operator"},
}


@pytest.mark.parametrize("role", list(Role))
def test_a_page_is_shown_to_its_roles(harness: ApiHarness, browser: Browser, role: Role) -> None:
    """The others get a page that says why not."""
    groups = ("web",) if role is Role.OWNER else ()
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)
    harness.do(StartRollout(id="9" * 32, by=ANN, name="kernel", terms=terms))
    harness.advance_rollouts()
    browser.log_in(token_of(harness, role, groups=groups))

    for path, roles in PAGES.items():
        said = browser.get(path)
        assert said.status == (200 if role in roles else 403), path
        assert said.headers["content-type"].startswith("text/html"), path


def test_pages_allow_nothing_inline_and_no_frames(harness: ApiHarness, browser: Browser) -> None:
    """The browser is told so with each of them, also with one that says that something does not exist."""
    browser.log_in(token_of(harness))
    for path in (*PAGES, "/login"):
        policy = browser.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


def test_hostile_names_are_text(harness: ApiHarness, browser: Browser) -> None:
    """Descriptions may hold anything; so may what others send."""
    evil = "<script>alert(1)</script>\"'&"
    harness.do(OperateVm(id="1" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-0", description=evil))
    browser.log_in(token_of(harness))
    event = next(iter(harness.node.replica.fleet.events), "")
    assert event

    for path in (*PAGES, f"/events/{event}", "/fleet?search=%3Cscript%3E", "/history?caller=%3Cscript%3E"):
        body = browser.get(path).body.decode()
        assert "<script>alert" not in body, path
        assert "search=<script>" not in body, path


BUTTONS = {
    "/vms/web-0": {"Restart": "ow", "Redeploy": "ow", "Freeze": "o", "Delete": "ow", "Deallocate": "o", "Move": "o"},
    "/hosts/h1": {"Cordon": "o", "Drain": "o", "Degrade": "o", "Fail": "o", "Reboot": "o"},
    "/groups/web": {"Save": "o"},
    "/vms": {"Restart": "ow", "Evict": "o", "Delete": "ow"},
    "/rollouts": {"Start": "o"},
    "/events/last": {"Approve": "ow", "Cancel the event": "o"},
}
"""The buttons of pages, and the roles that have them: operators (o) and owners (w)."""


@pytest.mark.parametrize("role", list(Role))
def test_a_role_has_the_buttons_of_what_it_may_do(harness: ApiHarness, browser: Browser, role: Role) -> None:
    """And no others."""
    harness.enrol("web", "web-0")
    harness.do(OperateVm(id="1" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-0"))
    browser.log_in(token_of(harness, role, groups=("web",) if role is Role.OWNER else ()))
    letter = {Role.OPERATOR: "o", Role.OWNER: "w", Role.VIEWER: "v"}[role]

    for path, buttons in BUTTONS.items():
        said = browser.get(path)
        found = re.findall(r"<button[^>]*>([^<]*)</button>", said.body.decode()) if said.status == 200 else []
        expected = {name for name, roles in buttons.items() if letter in roles}
        assert {name for name in buttons if name in found} == expected, path


def test_an_owner_sees_nothing_of_others(harness: ApiHarness, browser: Browser) -> None:
    """Neither VMs nor groups nor their number."""
    others = GroupTerms("rivals", GroupKind.AVAILABILITY_SET)
    harness.do(ChangeFleet(id="2" * 32, by=ANN, groups=(others,), vms=(Vm("rival-0", "rivals", "h1"),)))
    browser.log_in(token_of(harness, Role.OWNER, groups=("web",)))

    for path, roles in PAGES.items():
        if "owner" in roles:
            assert "rival" not in browser.get(path).body.decode(), path
    assert browser.get("/vms/rival-0").status == 404
    assert browser.get("/groups/rivals").status == 404


def test_an_event_page_shows_its_history_and_documents(harness: ApiHarness, browser: Browser) -> None:
    """As each api-version shows it."""
    harness.do(OperateVm(id="3" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-0"))
    browser.log_in(token_of(harness))
    event = next(iter(harness.node.replica.fleet.events))

    body = browser.get(f"/events/{event[:8]}").body.decode()
    assert event.upper() in body
    assert "2020-07-01" in body
    assert "2017-03-01" in body


def test_an_event_page_says_how_long_everything_took(harness: ApiHarness, browser: Browser) -> None:
    """When it started, and how long it runs or ran; every time on it follows the time zone of the browser."""
    harness.enrol("web", "web-0")
    harness.do(OperateVm(id="3" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-0"))
    event = next(iter(harness.node.replica.fleet.events))
    harness.clock.advance(timedelta(seconds=30))
    harness.do(Approve(id="4" * 32, by=ANN, events=(event,)))
    browser.log_in(token_of(harness))

    body = browser.get(f"/events/{event}").body.decode()
    assert '<dt>Started</dt><dd><time datetime="2026-01-01T00:00:30Z">' in body
    assert 'class="elapsed" data-since="2026-01-01T00:00:30Z"' in body
    assert 'until the start <span class="duration" data-seconds="30.0">' in body
    steps = body.partition("<ol")[2].partition("</ol>")[0]
    assert re.search(r'not before <time datetime="([^"]+)">\1</time>', steps)
    harness.clock.advance(timedelta(seconds=5))
    harness.finish(event)
    body = browser.get(f"/events/{event}").body.decode()
    assert 'for the impact <span class="duration" data-seconds="5.0">' in body
    assert "elapsed" not in body


def test_scripts_and_styles_are_kept_by_browsers(browser: Browser) -> None:
    """Their address changes with their content; they need no session."""
    page = browser.get("/login").body.decode()
    path = page.partition('href="')[2].partition('"')[0]
    said = browser.get(path)

    assert said.status == 200
    assert "immutable" in said.headers["cache-control"]
    assert browser.get("/static/x/none.js").status == 404


def test_tonight_names_who_has_not_fetched_and_not_approved(harness: ApiHarness) -> None:
    """An event is not fetched until all its VMs have; an approval that is not enough does not count as one."""
    web = harness.node.replica.fleet.groups["web"].terms
    vms = (Vm("web-2", "web", "h1"),)
    harness.do(ChangeFleet(id="2" * 32, by=ANN, groups=(replace(web, approval=ApprovalRule.ALL),), vms=vms))
    harness.enrol("web", "web-0")
    harness.do(OperateHost(id="3" * 32, by=ANN, operation=HostOperation.REBOOT, host="h1"))
    event = next(each for each in harness.node.replica.fleet.events.values() if each.group == "web")
    harness.show(event.id, "web-0")
    harness.show(event.id, "web-1")
    fleet = harness.node.replica.fleet

    row = event_row(fleet, fleet.events[event.id], harness.clock.now())
    assert (row.fetched, "web-2" in row.unfetched, "web-1" in row.unfetched) == (1, True, False)
    harness.do(Approve(id="4" * 32, by=Caller(CallerKind.VM, "web-0"), events=(event.id,)))
    row = event_row(fleet, fleet.events[event.id], harness.clock.now())
    assert (row.approved, row.needed, row.unapproved) == (("web-0",), 1, ("web-2",))
    assert state_of(fleet, fleet.vms["web-0"], [fleet.events[event.id]], ()) is EventState.ANNOUNCED


def test_tonight_counts_every_reason_and_lists_the_events_with_one(harness: ApiHarness, browser: Browser) -> None:
    """An event that nobody fetched is not approved either: it counts as both."""
    harness.enrol("web", "web-0")
    for number, vm in enumerate(("web-0", "web-1")):
        harness.do(OperateVm(id=f"{number + 1:032x}", by=ANN, operation=VmOperation.RESTART, vm=vm))
    first, second = (event.id for event in harness.node.replica.fleet.events.values())
    harness.show(first, "web-0")
    browser.log_in(token_of(harness))

    body = browser.get("/").body.decode()
    assert "Not fetched <b>1</b>" in body
    assert "Not approved <b>2</b>" in body
    assert listed_events(browser.get("/?only=unfetched")) == {second}
    assert listed_events(browser.get("/?only=unapproved")) == {first, second}
    assert "No event has this reason any more" in browser.get("/?only=late").body.decode()
    assert listed_events(browser.get("/?only=nonsense")) == {first, second}


def test_tonight_names_vms_whose_event_started_without_their_knowledge(harness: ApiHarness, browser: Browser) -> None:
    """And since when it runs. An event that is owed no notice, such as a deletion, is not counted as not fetched."""
    harness.enrol("web", "web-0")
    harness.do(OperateVm(id="1" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-0"))
    (event,) = harness.node.replica.fleet.events
    harness.do(Approve(id="2" * 32, by=ANN, events=(event,)))
    harness.do(OperateVm(id="3" * 32, by=ANN, operation=VmOperation.RESTART, vm="db"))
    browser.log_in(token_of(harness))

    assert listed_events(browser.get("/?only=unfetched")) == {event}
    body = browser.get("/?only=unfetched").body.decode().partition("What happened last")[0]
    assert 'href="/vms/web-0"' in body.partition("not by")[2].partition("</td>")[0]
    started = harness.node.replica.fleet.events[event].started_at
    assert started is not None
    assert f'class="elapsed" data-since="{started.isoformat().replace("+00:00", "Z")}"' in body


def listed_events(said: ApiResponse) -> set[str]:
    """Return the events of the page that stand before the list of what happened last."""
    return set(re.findall(r'href="/events/([^"]*)"', said.body.decode().partition("What happened last")[0]))


def test_an_event_names_every_vm_that_has_not_fetched_or_approved_it(harness: ApiHarness, browser: Browser) -> None:
    """The lists name some of them, and count the others."""
    web = harness.node.replica.fleet.groups["web"].terms
    many = tuple(Vm(f"api_{number}", "web", "h1") for number in range(9))
    harness.do(ChangeFleet(id="2" * 32, by=ANN, groups=(replace(web, approval=ApprovalRule.ALL),), vms=many))
    harness.enrol("web", "web-0")
    harness.do(OperateHost(id="3" * 32, by=ANN, operation=HostOperation.REBOOT, host="h1"))
    event = next(each for each in harness.node.replica.fleet.events.values() if "api_0" in each.vms)
    browser.log_in(token_of(harness))

    assert "+" in browser.get("/").body.decode().partition("not by")[2].partition("</td>")[0]
    body = browser.get(f"/events/{event.id}").body.decode()
    for words in ("not by", "more needed:"):
        assert all(f"/vms/{vm}" in body.partition(words)[2].partition("</dd>")[0] for vm in event.vms), words


@pytest.mark.parametrize(
    ("path", "said"),
    [("/vms", "No VM matches."), ("/hosts", "No host matches."), ("/groups", "No group matches.")],
)
def test_a_search_without_a_match_says_so(harness: ApiHarness, browser: Browser, path: str, said: str) -> None:
    """A list that a search leaves empty is a sentence, not an empty table."""
    browser.log_in(token_of(harness))

    assert said not in browser.get(path).body.decode()
    assert said in browser.get(f"{path}?search=nothing-like-this").body.decode()


def test_tonight_tells_of_failures_beside_events(harness: ApiHarness, browser: Browser) -> None:
    """A paused rollout, a crashed VM, a failed host; an owner is told of no rollout, no host and no VM of others."""
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, hosts=("h1",))
    harness.do(StartRollout(id="5" * 32, by=ANN, name="kernel", terms=terms))
    harness.do(PauseRollout(id="6" * 32, by=ANN, name="kernel"))
    seen = Observation("db", ObservationKind.CRASHED, harness.clock.now())
    harness.do(RecordObservation(id="7" * 32, by=NODE, observation=seen))
    harness.do(OperateHost(id="8" * 32, by=ANN, operation=HostOperation.DEGRADE, host="h2"))
    browser.log_in(token_of(harness))
    body = browser.get("/").body.decode()
    assert "/rollouts/kernel" in body
    assert "Crashed: VM" in body
    assert re.search(r"Host <a href=\"/hosts/h2\"><bdi>h2</bdi></a>: <span class=\"problem\">degraded<", body)

    browser.log_in(token_of(harness, Role.OWNER, groups=("web",)))
    body = browser.get("/").body.decode()
    assert "kernel" not in body
    assert "Crashed" not in body
    assert "/hosts/" not in body


def test_a_vm_stays_failed_until_a_later_event_of_it_is_completed(harness: ApiHarness, browser: Browser) -> None:
    """On the pages of the fleet, of all VMs, of the VM and of its host; a later cancellation changes nothing."""
    browser.log_in(token_of(harness))
    assert states_of(browser, "db") == {"idle"}
    for number, result in ((1, ImpactResult.FAILED), (2, None), (3, ImpactResult.DONE)):
        made = harness.do(OperateVm(id=f"{number:032x}", by=ANN, operation=VmOperation.RESTART, vm="db"))
        event = next(fact.event for fact in made if isinstance(fact, Announced | StartedAtOnce))
        if result is None:
            harness.do(CancelEvent(id="c" * 32, by=ANN, event=event.id))
        else:
            if not harness.node.replica.fleet.events[event.id].started_at:
                harness.do(Approve(id=f"{number + 4:032x}", by=ANN, events=(event.id,)))
            harness.attempt(event.id)
            harness.do(ReportImpact(id=f"{number + 7:032x}", by=NODE, event=event.id, result=result))
        assert states_of(browser, "db") == {"idle" if result is ImpactResult.DONE else "failed"}
        harness.enrol("db", "db")
        harness.clock.advance(timedelta(minutes=1))


def states_of(browser: Browser, vm: str) -> set[str]:
    """Return the states of a VM that its pages show."""
    tile = rf'class="tile ([a-z-]+)" href="/vms/{vm}"'
    row = rf'href="/vms/{vm}">.*?class="state ([a-z-]+)"'
    found = [(path, tile) for path in ("/fleet", "/fleet?by=group", "/hosts/h2")]
    found += [("/vms", row), (f"/vms/{vm}", rf'<h1>{vm} <span class="state ([a-z-]+)"')]
    return {str(re.search(pattern, browser.get(path).body.decode(), re.DOTALL)[1]) for path, pattern in found}  # type: ignore[index]


def test_the_waves_of_an_ended_rollout_are_drawn(harness: ApiHarness, browser: Browser) -> None:
    """As those of one that runs; nothing can be done with it any more."""
    harness.do(ChangeFleet(id="2" * 32, by=ANN, hosts=(Host("h8"), Host("h9"))))
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, hosts=("h8", "h9"))
    harness.do(StartRollout(id="5" * 32, by=ANN, name="kernel", terms=terms))
    harness.advance_rollouts()
    assert not harness.node.replica.fleet.rollouts
    browser.log_in(token_of(harness))

    body = browser.get("/rollouts/kernel").body.decode()
    assert "2 Waves" in body
    assert body.count("<title>1 done</title>") == 2
    assert "/v1/rollouts/kernel/" not in body


def test_the_latency_of_requests_is_shown(harness: ApiHarness, browser: Browser) -> None:
    """Of those that were answered: of VMs, of the control API, and of the journal."""
    delays = Histogram(0.001, 0.01)
    harness.context.metric_sources = MetricSources(delays=lambda: delays)
    browser.log_in(token_of(harness))
    assert "request of a VM" not in browser.get("/health").body.decode()
    for seconds in (0.0005, 0.0005, 0.005, 3.0):
        delays.add(seconds)
    harness.node.writer.appends.add(0.2)

    body = unescape(re.sub(r"<[^>]+>", " ", browser.get("/health").body.decode()))
    assert re.search(r"request of a VM[^≤]*≤ 1 ms\s+> 10 ms", body)
    assert re.search(r"request of the control API[^≤]*≤ [0-9.]+ ms", body)
    assert re.search(r"100 ms:\s+1\s+/ \d", body)
    assert sum(harness.context.durations.counts) >= 4


def test_the_health_page_lists_the_enrolled_groups_by_their_expiry(harness: ApiHarness, browser: Browser) -> None:
    """The one that is switched off soonest first, with its last request; groups that are off are not listed."""
    for group, vm in (("pool", "pool_0"), ("web", "web-1"), ("db", "db")):
        harness.enrol(group, vm)
        harness.clock.advance(timedelta(hours=1))
    browser.log_in(token_of(harness, Role.VIEWER))

    card = browser.get("/health").body.decode().partition("<h2>Enrolment</h2>")[2].partition("</section>")[0]
    assert re.findall(r'href="/groups/([^"]+)"', card) == ["pool", "web", "db"]
    assert re.findall(r'href="/vms/([^"]+)"', card) == ["pool_0", "web-1", "db"]
    expiries = re.findall(r'class="countdown" data-until="([^"]+)"', card)
    now = harness.clock.now()
    assert [datetime.fromisoformat(at) - now for at in expiries] == [timedelta(hours=hours) for hours in (21, 22, 23)]
    assert 'href="/groups"' in card
    assert 'class="countdown"' in browser.get("/groups").body.decode()


def test_who_did_what_is_read_once(harness: ApiHarness, browser: Browser) -> None:
    """A page reads from the journal only what came since the last one; roles do not share what they may see."""
    browser.log_in(token_of(harness))
    harness.do(OperateVm(id="1" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-0"))
    first = browser.get("/vms").body.decode()
    assert ">token-created<" in first
    read: list[int] = []
    entries = harness.journal.entries

    def note(after: int, limit: int) -> Iterable[Entry]:
        read.append(after)
        return entries(after, limit)

    with patch.object(harness.journal, "entries", note):
        assert browser.get("/fleet").body.decode().count(">token-created<") == first.count(">token-created<")
        assert not read
        before = harness.node.replica.revision
        harness.do(OperateVm(id="2" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-1"))
        assert "web-1" in browser.get("/").body.decode().partition("What happened last")[2]
        assert read
        assert min(read) >= before
    browser.log_in(token_of(harness, Role.VIEWER))
    assert ">token-created<" not in browser.get("/vms").body.decode()


def test_an_owner_s_pages_read_nothing_because_of_others(harness: ApiHarness, browser: Browser) -> None:
    """They read the journal again after something happened to its groups, and only then; VMs are not people."""
    harness.enrol("web", "web-0")
    browser.log_in(token_of(harness, Role.OWNER, groups=("web",)))
    browser.get("/vms")
    read: list[str] = []
    history = harness.journal.history

    def note(subject: str, **span: Any) -> list[Entry]:
        read.append(subject)
        return history(subject, **span)

    with patch.object(harness.journal, "history", note):
        harness.do(OperateVm(id="1" * 32, by=ANN, operation=VmOperation.RESTART, vm="db"))
        harness.do(DeallocateVm(id="2" * 32, by=ANN, vm="pool_0"))
        assert "What happened last" in browser.get("/vms").body.decode()
        assert not read
        for number, command in enumerate((make_restart, make_deallocation, make_fetch)):
            harness.do(command(harness, f"{number + 3:032x}"))
            known = ("announced", "vm-deallocated", "vm-deallocated")[number]
            assert last_fact(browser.get("/vms").body.decode()) == known
        assert read


def make_restart(_: ApiHarness, id: str) -> Command:
    return OperateVm(id=id, by=ANN, operation=VmOperation.RESTART, vm="web-0")


def make_deallocation(_: ApiHarness, id: str) -> Command:
    return DeallocateVm(id=id, by=ANN, vm="web-1")


def make_fetch(harness: ApiHarness, id: str) -> Command:
    (event,) = harness.node.replica.fleet.events_of("web")
    return RecordFetched(id=id, by=NODE, fetches=(Fetch(event.id, "web-0", harness.clock.now()),))


def last_fact(body: str) -> str:
    """Return the newest of what happened last."""
    found = re.search(r'<td class="fact">([^<]*)<', body.partition("What happened last")[2])
    return found[1] if found else ""


def test_a_host_without_vms_is_drawn(harness: ApiHarness, browser: Browser) -> None:
    """With its state, such as failed; a search for its name finds it."""
    harness.do(ChangeFleet(id="2" * 32, by=ANN, hosts=(Host("h9"),)))
    browser.log_in(token_of(harness))

    assert "/hosts/h9" in browser.get("/fleet").body.decode()
    assert "/hosts/h9" in browser.get("/fleet?search=H9").body.decode()
    assert "/hosts/h9" not in browser.get("/fleet?search=h1").body.decode()


def test_the_timeline_has_a_lane_for_each_group_or_host(harness: ApiHarness, browser: Browser) -> None:
    """As the reader asks; whoever may not see hosts gets groups."""
    harness.do(OperateHost(id="1" * 32, by=ANN, operation=HostOperation.REBOOT, host="h1"))
    browser.log_in(token_of(harness))
    groups, hosts = lanes(browser, "group"), lanes(browser, "host")
    assert hosts == {"h1"}
    assert groups.isdisjoint(hosts)

    browser.log_in(token_of(harness, Role.OWNER, groups=tuple(groups)))
    assert lanes(browser, "host") == groups


def lanes(browser: Browser, by: str) -> set[str]:
    """Return the names beside the bars."""
    return set(re.findall(r'"lane":"([^"]*)"', unescape(browser.get(f"/timeline?by={by}").body.decode())))


EXPORTS = {
    "vms": {"operator", "owner", "viewer"},
    "groups": {"operator", "owner", "viewer"},
    "events": {"operator", "owner", "viewer"},
    "attention": {"operator", "owner", "viewer"},
    "hosts": {"operator", "viewer"},
    "rollouts": {"operator", "viewer"},
    "rollout-hosts": {"operator", "viewer"},
    "rollout-events": {"operator", "viewer"},
    "refused": {"operator", "viewer"},
    "tokens": {"operator"},
    "subscriptions": {"operator"},
}
FILTERED = {"rollout-hosts": "?rollout=kernel", "rollout-events": "?rollout=kernel"}
"""What has to be given for an export."""
LINKS = {
    "/": "attention",
    "/fleet": "vms",
    "/timeline": "events",
    "/rollouts": "rollouts",
    "/rollouts/kernel": "rollout-hosts",
    "/vms": "vms",
    "/hosts": "hosts",
    "/groups": "groups",
    "/access": "tokens",
    "/notifications": "subscriptions",
}
"""The pages with lists, and the exports to which they lead."""


def test_a_page_with_a_list_leads_to_its_exports(harness: ApiHarness, browser: Browser) -> None:
    """As CSV and as JSON; those of the history have its filters."""
    harness.do(OperateVm(id="1" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-0"))
    start_rollout(harness)
    harness.context.authenticator.refused_by["10.0.0.9"] += 1
    browser.log_in(token_of(harness))

    links = [*LINKS.items(), ("/rollouts/kernel", "rollout-events"), ("/health", "refused")]
    for path, name in links:
        body = browser.get(path).body.decode()
        for form in ("csv", "json"):
            assert f'href="/export/{name}.{form}{FILTERED.get(name, "")}"' in body, path
    assert {name for _, name in links} == set(EXPORTS)
    body = browser.get("/history?vm=web-0").body.decode()
    for form in ("csv", "jsonl"):
        assert f'href="/v1/history/export?vm=web-0&amp;format={form}"' in body


def test_every_page_says_who_did_what(harness: ApiHarness, browser: Browser) -> None:
    """That of one thing says it of this thing."""
    harness.enrol("web", "web-0")
    harness.do(OperateVm(id="1" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-0"))
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)
    harness.do(StartRollout(id="9" * 32, by=ANN, name="kernel", terms=terms))
    event = next(iter(harness.node.replica.fleet.events))
    browser.log_in(token_of(harness))

    for path in (*PAGES, f"/events/{event}", "/hosts/h1"):
        body = browser.get(path).body.decode()
        if path not in TOPICS:
            assert re.search(r"<td><bdi>ann</bdi></td><td class=\"fact\">(announced|rollout-started)<", body), path


TOPICS = {
    "/hosts": {"host-state-set", "announced"},
    "/groups": {"group-set", "enrolled", "fleet-changed", "fleet-declared"},
    "/rollouts": {"rollout-started"},
    "/access": {"token-created"},
    "/notifications": {"subscription-set"},
}


def test_who_did_what_is_about_the_page(harness: ApiHarness, browser: Browser) -> None:
    """Tokens, subscriptions, rollouts, hosts and groups show what happened to these; the others what people did."""
    harness.enrol("web", "web-0")
    harness.do(SetGroup(id="1" * 32, by=ANN, group="web", approve_user_reboot=True))
    harness.do(OperateVm(id="2" * 32, by=ANN, operation=VmOperation.RESTART, vm="db"))
    harness.do(OperateHost(id="3" * 32, by=ANN, operation=HostOperation.DEGRADE, host="h2"))
    start_rollout(harness)
    hook = Subscription("s1", "ops", SubscriptionKind.WEBHOOK, "https://example.org/path", "c2VjcmV0")
    harness.do(SetSubscription(id="8" * 32, by=ANN, subscription=hook))
    event = next(iter(harness.node.replica.fleet.events_of("web")))
    harness.show(event.id, "web-0")
    browser.log_in(token_of(harness))

    for path, facts in TOPICS.items():
        assert facts <= set(told_facts(browser, path)) <= facts | {"started-at-once"}, path
    for path in ("/", "/fleet", "/timeline", "/vms", "/health"):
        assert {"fetched", "enrolled"}.isdisjoint(told_facts(browser, path)), path
        assert "subscription-set" in told_facts(browser, path), path
    assert "fetched" in told_facts(browser, "/history")


def told_facts(browser: Browser, path: str) -> list[str]:
    return re.findall(r'<td class="fact">([^<]*)<', browser.get(path).body.decode())


def test_an_ended_rollout_is_exported(harness: ApiHarness, browser: Browser) -> None:
    """As the page lists it."""
    harness.do(ChangeFleet(id="2" * 32, by=ANN, hosts=(Host("h8"),)))
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, hosts=("h8",))
    harness.do(StartRollout(id="5" * 32, by=ANN, name="kernel", terms=terms))
    harness.advance_rollouts()
    browser.log_in(token_of(harness))

    assert [(row["name"], row["state"]) for row in browser.get("/export/rollouts.json").json] == [
        ("kernel", "completed")
    ]


@pytest.mark.parametrize("role", list(Role))
def test_a_list_is_exported_to_its_roles(harness: ApiHarness, browser: Browser, role: Role) -> None:
    """As CSV and as JSON; an owner gets what belongs to its groups, and no secret is in it."""
    harness.do(OperateVm(id="1" * 32, by=ANN, operation=VmOperation.RESTART, vm="web-0"))
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)
    harness.do(StartRollout(id="9" * 32, by=ANN, name="kernel", terms=terms))
    harness.advance_rollouts()
    harness.context.authenticator.refused_by["10.0.0.9"] += 1
    hook = Subscription("s1", "ops", SubscriptionKind.WEBHOOK, "https://example.org/path", "c2VjcmV0")
    harness.do(SetSubscription(id="8" * 32, by=ANN, subscription=hook))
    browser.log_in(token_of(harness, role, groups=("web",) if role is Role.OWNER else ()))

    for name, roles in EXPORTS.items():
        said = [browser.get(f"/export/{name}.{form}{FILTERED.get(name, '')}") for form in ("json", "csv")]
        assert [each.status for each in said] == [200 if role in roles else 403] * 2, name
        if role in roles:
            assert len(said[0].json) == len(said[1].body.decode().splitlines()) - 1 > 0, name
            assert {tuple(row) for row in said[0].json} == {LISTS[name].columns}
            assert not re.search(rb"hash|c2VjcmV0|/path", said[0].body + said[1].body)
    vms = {vm["name"] for vm in browser.get("/export/vms.json").json}
    assert vms == ({"web-0", "web-1"} if role is Role.OWNER else {"web-0", "web-1", "pool_0", "db"})
    assert browser.get("/export/secrets.csv").status == 404


@pytest.mark.parametrize("name", [name for name in EXPORTS if name != "rollout-hosts"])
def test_an_empty_list_is_exported_with_the_names_of_its_columns(
    harness: ApiHarness, browser: Browser, name: str
) -> None:
    """They are the keys of its rows, in their order: a program that reads the file finds its columns."""
    token = token_of(harness)
    harness.declare("")
    browser.log_in(token)
    if name == "tokens":  # that of the session is one: it is never empty
        assert browser.get("/export/tokens.csv").body.decode().splitlines()[0] == ",".join(LISTS[name].columns)
    else:
        assert browser.get(f"/export/{name}.json").json == []
        assert browser.get(f"/export/{name}.csv").body.decode().splitlines() == [",".join(LISTS[name].columns)]


def start_rollout(harness: ApiHarness) -> None:
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, hosts=("h1",))
    harness.do(StartRollout(id="9" * 32, by=ANN, name="kernel", terms=terms))
    harness.advance_rollouts()


def test_an_export_has_the_filters_of_its_page(harness: ApiHarness, browser: Browser) -> None:
    """The link on the page has them, and the file has what the page lists."""
    harness.do(DeallocateVm(id="1" * 32, by=ANN, vm="web-1"))
    start_rollout(harness)
    browser.log_in(token_of(harness))
    rows = {
        "/vms?group=web": ("/export/vms.json?group=web", {"web-0", "web-1"}),
        "/vms?group=web&state=deallocated": ("/export/vms.json?group=web&state=deallocated", {"web-1"}),
        "/vms?host=h2&search=D": ("/export/vms.json?search=D&host=h2", {"db"}),
        "/fleet?search=pool": ("/export/vms.json?search=pool", {"pool_0"}),
        "/groups?search=P": ("/export/groups.json?search=P", {"pool"}),
        "/hosts?search=2": ("/export/hosts.json?search=2", {"h2"}),
    }
    for page, (export, names) in rows.items():
        assert f'href="{export}"' in unescape(browser.get(page).body.decode()), page
        assert {row["name"] for row in browser.get(export).json} == names, export
    assert len(browser.get("/export/attention.json").json) == len(harness.node.replica.fleet.events) > 0
    assert browser.get("/export/attention.json?only=failed").json == []
    assert {row["host"] for row in browser.get("/export/events.json?host=h1").json} == {"h1"}
    assert browser.get("/export/events.json?host=h2").json == []
    assert [row["host"] for row in browser.get("/export/rollout-hosts.json?rollout=kernel").json] == ["h1"]
    assert len(browser.get("/export/rollout-events.json?rollout=kernel").json) == 2


def test_the_export_of_a_group_has_its_ended_events(harness: ApiHarness, browser: Browser) -> None:
    """When each ended, and why; those of other groups are not in it."""
    for number, vm in enumerate(("web-0", "db")):
        made = harness.do(OperateVm(id=f"{number + 1:032x}", by=ANN, operation=VmOperation.RESTART, vm=vm))
        harness.finish(next(fact.event.id for fact in made if isinstance(fact, StartedAtOnce)))
    browser.log_in(token_of(harness))
    link = "/export/events.json?group=web&finished=yes"
    assert link in unescape(browser.get("/groups/web").body.decode())

    (row,) = browser.get(link).json
    assert (row["resources"], row["status"], bool(row["ended_at"])) == (["web-0"], "Completed", True)
    assert browser.get("/export/events.json?group=web").json == []


def test_a_spreadsheet_takes_no_cell_for_a_formula() -> None:
    """Numbers stay numbers."""
    rows = iter([{"name": "=1+1", "at": "@x", "list": ["-a", "b"], "number": -1, "plain": "a=b"}])

    assert (
        write_csv(("name", "at", "list", "number", "plain"), rows).decode().splitlines()[1]
        == "'=1+1,'@x,'-a b,-1,a=b"
    )


def test_an_owner_cannot_filter_the_history_by_host(harness: ApiHarness, browser: Browser) -> None:
    """As in the API: it may not read hosts."""
    browser.log_in(token_of(harness, Role.OWNER, groups=("web",)))

    assert browser.get("/history?host=h1").status == 403


def test_the_history_is_read_page_by_page(harness: ApiHarness, browser: Browser) -> None:
    """Each page begins where the one before ended; the links keep the filters."""
    for number in range(5):
        restart = OperateVm(id=f"{number + 1:032x}", by=ANN, operation=VmOperation.RESTART, vm="web-0")
        made = harness.do(restart)
        harness.finish(next(fact.event.id for fact in made if isinstance(fact, StartedAtOnce)))
        harness.clock.advance(timedelta(hours=1))
    browser.log_in(token_of(harness))
    whole = told_facts(browser, "/history?vm=web-0")
    assert "Older" not in browser.get("/history?vm=web-0").body.decode()

    with patch("forewarn.control.dashboard.pages.history._MOST", 4):
        found, path = [], "/history?vm=web-0"
        while path:
            body = browser.get(path).body.decode()
            page = re.findall(r'<td class="fact">([^<]*)<', body)
            assert 0 < len(page) <= 4
            found += page
            links = re.findall(r'href="(/history\?[^"]*before=[^"]*)"', body)
            path = unescape(links[0]) if links else ""
            assert "vm=web-0" in path or not path
    assert found == whole
    until = "2026-01-01T00:30"
    assert told_facts(browser, f"/history?vm=web-0&until={until}") == whole[-len(whole) // 5 :]
    assert f"until={until.replace(':', '%3A')}%3A00Z" in browser.get(f"/history?until={until}").body.decode()


@pytest.mark.parametrize("wrong", ["event=nonsense", "since=yesterday", "until=2026"])
def test_a_wrong_filter_keeps_its_form(harness: ApiHarness, browser: Browser, wrong: str) -> None:
    """With the reason, so that it can be mended."""
    browser.log_in(token_of(harness))
    said = browser.get(f"/history?vm=web-0&{wrong}")

    assert said.status == 200
    body = said.body.decode()
    assert 'role="alert"' in body
    assert f'value="{wrong.partition("=")[2]}"' in body
    assert 'name="vm" value="web-0"' in body


def test_vms_are_found_by_a_part_of_a_group_s_name(harness: ApiHarness, browser: Browser) -> None:
    """The name itself comes first; a text that no group has says so, and the form stays."""
    two = (GroupTerms("web-2", GroupKind.AVAILABILITY_SET),)
    harness.do(ChangeFleet(id="2" * 32, by=ANN, groups=two, vms=(Vm("other", "web-2", "h1"),)))
    browser.log_in(token_of(harness))

    assert names_in(browser.get("/vms?group=WE"), "/vms/") == ["other", "web-0", "web-1"]
    assert names_in(browser.get("/vms?group=web"), "/vms/") == ["web-0", "web-1"]
    body = browser.get("/vms?group=pay").body.decode()
    assert "The name of no group contains this text." in body
    assert 'name="group" value="pay"' in body


def test_the_lanes_of_one_group_are_drawn(harness: ApiHarness, browser: Browser) -> None:
    """Of this group alone, however large the fleet is; a group that is not visible does not exist."""
    browser.log_in(token_of(harness, Role.OWNER, groups=("web",)))

    body = browser.get("/fleet?by=group&group=web").body.decode()
    assert "/vms/web-1" in body
    assert "/vms/db" not in body
    assert browser.get("/fleet?by=group&group=pool").status == 404


def test_lists_are_in_natural_order(harness: ApiHarness, browser: Browser) -> None:
    """Of VMs, of those of a group, of a host and of a search; of hosts; of groups."""
    numbers = (10, 1, 2)
    harness.do(
        ChangeFleet(
            id="2" * 32,
            by=ANN,
            hosts=tuple(Host(f"rack_{number}") for number in numbers),
            groups=tuple(GroupTerms(f"team_{number}", GroupKind.AVAILABILITY_SET) for number in numbers),
            vms=tuple(Vm(f"api_{number}", "team_1", "rack_1") for number in numbers),
        )
    )
    browser.log_in(token_of(harness))

    for path in ("/vms", "/vms?search=api", "/vms?group=team_1", "/vms?host=rack_1", "/hosts/rack_1"):
        assert names_in(browser.get(path), "/vms/api_") == ["1", "2", "10"], path
    assert names_in(browser.get("/hosts"), "/hosts/rack_") == ["1", "2", "10"]
    assert names_in(browser.get("/groups"), "/groups/team_") == ["1", "2", "10"]


def test_a_list_that_is_too_long_to_be_sorted_has_the_order_of_the_api(harness: ApiHarness, browser: Browser) -> None:
    """It is not sorted for each page: the API keeps it sorted."""
    many = tuple(Vm(f"api_{number}", "web", "h1") for number in (10, 1, 2))
    harness.do(ChangeFleet(id="2" * 32, by=ANN, vms=many))
    browser.log_in(token_of(harness))

    with patch("forewarn.control.dashboard.pages.vms._MOST_SORTED", 2):
        assert names_in(browser.get("/vms"), "/vms/api_") == ["1", "10", "2"]


def names_in(said: ApiResponse, prefix: str) -> list[str]:
    """Return the ends of the links that begin with a prefix, before the list of what happened last."""
    return re.findall(rf'href="{prefix}([^"]*)"', said.body.decode().partition("What happened last")[0])


def test_the_page_of_an_event_calls_it_event() -> None:
    """Templates use the names of the glossary."""
    source = (files("forewarn.control.dashboard") / "templates" / "event.html").read_text("utf-8")

    assert "{{ event.type }}" in source
    assert not re.search(r"\btold\b", source)
