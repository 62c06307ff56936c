"""Every action under every role, by clicks: it has its effect, or it is not offered."""

from collections.abc import Callable
from uuid import uuid4

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from forewarn.control.bodies import DeliveryReceipt
from forewarn.control.notifications.worker import DeliveryStatus
from forewarn.core.commands import CancelEvent, Command, OperateVm, SetGroup, SetSubscription, VmOperation
from forewarn.core.facts import Announced
from forewarn.core.model import Caller, CallerKind, Role, Subscription, SubscriptionKind
from forewarn.core.rollouts.commands import StartRollout
from forewarn.core.rollouts.model import RolloutOperation, RolloutTerms
from tests.control.dashboard.browsing import opened
from tests.harness import ApiHarness

pytestmark = pytest.mark.end_to_end

ANN = Caller(CallerKind.OPERATOR, "ann")
VM_ACTIONS = (
    "restart",
    "redeploy",
    "freeze",
    "delete",
    "deallocate",
    "move",
    "bulk-1",
    "bulk-2",
    "approve",
    "cancel",
)
HOST_ACTIONS = ("cordon", "drain", "freeze", "reboot", "redeploy", "degrade", "fail")
FLEET = (
    '[[group]]\nname = "web"\nkind = "availability-set"\n'
    '[[group]]\nname = "pool"\nkind = "scale-set"\n'
    '[[group]]\nname = "late"\nkind = "availability-set"\npostpone_limit = "PT1H"\n'
    '[[host]]\nname = "home"\n[[host]]\nname = "other"\n'
    + "".join(f'[[host]]\nname = "h-{name}"\n' for name in HOST_ACTIONS)
    + "".join(f'[[host]]\nname = "r-{number}"\n' for number in range(7))
    + "".join(f'[[vm]]\nname = "v-{name}"\ngroup = "web"\nhost = "home"\n' for name in VM_ACTIONS)
    + "".join(f'[[vm]]\nname = "on-{name}"\ngroup = "web"\nhost = "h-{name}"\n' for name in HOST_ACTIONS)
    + "".join(f'[[vm]]\nname = "on-r-{number}"\ngroup = "web"\nhost = "r-{number}"\n' for number in range(7))
    + "".join(f'[[vm]]\nname = "spot_{number}"\ngroup = "pool"\nhost = "home"\nspot = true\n' for number in range(3))
    + '[[vm]]\nname = "v-late"\ngroup = "late"\nhost = "home"\n'
)
OWN = {Role.OPERATOR: (), Role.OWNER: ("web", "pool", "late"), Role.VIEWER: ()}


class Act(msgspec.Struct, frozen=True):
    """One action: where its button is, who has it, and the facts that it causes."""

    path: str
    button: str
    roles: str
    """Operators (o) and owners (w); viewers have none."""
    facts: tuple[str, ...]
    fill: dict[str, str] = {}
    """What is entered beforehand, by label; a label of a box that is only checked has no text."""


ACTS = (
    Act("/vms/v-restart", "Restart", "ow", ("announced",)),
    Act("/vms/v-redeploy", "Redeploy", "ow", ("announced",)),
    Act("/vms/v-freeze", "Freeze", "o", ("announced",)),
    Act("/vms/v-delete", "Delete", "ow", ("started-at-once",)),
    Act("/vms/v-deallocate", "Deallocate", "o", ("vm-deallocated",)),
    Act("/vms/v-deallocate", "Start", "o", ("vm-started",)),
    Act("/vms/v-move", "Move", "o", ("vm-moved",), {"To host": "other"}),
    Act("/vms/spot_0", "Evict", "o", ("announced",)),
    Act("/vms?search=v-bulk", "Restart", "ow", ("announced", "announced"), {"v-bulk-1": "", "v-bulk-2": ""}),
    Act("/vms?search=v-bulk", "Redeploy", "ow", ("announced",), {"v-bulk-1": ""}),
    Act("/vms?search=v-bulk", "Freeze", "o", ("announced",), {"v-bulk-1": ""}),
    Act("/vms?search=spot_1", "Evict", "o", ("announced",), {"spot_1": ""}),
    Act("/vms?search=spot_2", "Delete", "ow", ("started-at-once",), {"spot_2": ""}),
    Act("/hosts/h-cordon", "Cordon", "o", ("host-cordon-set",)),
    Act("/hosts/h-cordon", "Uncordon", "o", ("host-cordon-set",)),
    Act("/hosts/h-drain", "Drain", "o", ("host-cordon-set",)),
    Act("/hosts/h-freeze", "Freeze", "o", ("announced",)),
    Act("/hosts/h-reboot", "Reboot", "o", ("announced",)),
    Act("/hosts/h-redeploy", "Redeploy", "o", ("announced",)),
    Act("/hosts/h-degrade", "Degrade", "o", ("host-state-set", "announced")),
    Act("/hosts/h-fail", "Fail", "o", ("host-state-set", "started-at-once")),
    Act("/hosts/h-fail", "Repaired", "o", ("host-state-set",)),
    Act("/groups/web", "Save", "o", ("group-set",), {"Postponement in minutes": "30"}),
    Act("/events/{approve}", "Approve", "ow", ("approved",)),
    Act("/events/{late}", "Postpone", "ow", ("postponed",)),
    Act("/events/{cancel}", "Cancel the event", "o", ("canceled",)),
    Act(
        "/rollouts",
        "Start",
        "o",
        ("rollout-started",),
        {"Name": "mine", "Operation": "reboot", "Hosts: names": "r-6"},
    ),
    Act("/rollouts/one", "Skip", "o", ("canceled",)),
    Act("/rollouts/one", "Retry", "o", ("rollout-host-changed",)),
    Act("/rollouts/five", "Retry failed hosts", "o", ("rollout-host-changed",)),
    Act("/rollouts/two", "Pause", "o", ("rollout-paused",)),
    Act("/rollouts/two", "Withdraw", "o", ("canceled",)),
    Act("/rollouts/two", "Resume", "o", ("rollout-resumed",)),
    Act("/rollouts/three", "Pause and withdraw", "o", ("rollout-paused",)),
    Act("/rollouts/four", "Cancel the rollout", "o", ("rollout-stopping",)),
    Act("/", "Pause all rollouts", "o", ("rollout-paused",)),
    Act("/", "Pause all and withdraw", "o", ("canceled",)),
    Act("/hosts/h-freeze", "Cancel its Scheduled events", "o", ("canceled",)),
    Act("/groups/late", "Cancel its Scheduled events", "o", ("canceled",)),
    Act("/", "Pause all and cancel every event", "o", ("canceled",)),
    Act("/access", "Create", "o", ("token-created",), {"Name": "a-new"}),
    Act("/access", "Rotate", "o", ("token-revoked", "token-created")),
    Act("/access", "Revoke", "o", ("token-revoked",)),
    Act("/notifications", "Create", "o", ("subscription-set",), {"Name": "ops", "Target": "https://example.org/"}),
    Act("/notifications", "Send a test", "o", ()),
    Act("/notifications", "Remove", "o", ("subscription-removed",)),
)


class _Deliveries:
    """Delivers everything."""

    def check(self, subscription: Subscription) -> None:
        pass

    def delivery_of(self, subscription: str) -> DeliveryStatus:
        return DeliveryStatus()

    async def send_test(self, subscription: Subscription) -> DeliveryReceipt:
        return DeliveryReceipt(detail="delivered")


@pytest.fixture
def prepared(harness: ApiHarness) -> tuple[ApiHarness, dict[str, str]]:
    """Return a service in which each action can be taken, and the ids of events by name."""
    harness.declare(FLEET)
    harness.context.deliveries = _Deliveries()
    for group, vm in (("web", "v-restart"), ("pool", "spot_0"), ("late", "v-late")):
        harness.enrol(group, vm)
    events = {}
    for name in ("approve", "late", "cancel"):
        facts = harness.do(make(OperateVm, operation=VmOperation.FREEZE, vm=f"v-{name}"))
        events[name] = next(fact.event.id for fact in facts if isinstance(fact, Announced))
    for number, name in enumerate(("one", "two", "three", "four", "five", "six")):
        terms = RolloutTerms(operation=RolloutOperation.REBOOT, hosts=(f"r-{number}",))
        harness.do(make(StartRollout, name=name, terms=terms))
    harness.advance_rollouts()
    canceled = next(id_ for id_, event in harness.node.replica.fleet.events.items() if event.rollout == "five")
    harness.do(make(CancelEvent, event=canceled))
    harness.advance_rollouts()
    return harness, events


def make(kind: Callable[..., Command], **more: object) -> Command:
    return kind(id=uuid4().hex, by=ANN, **more)


def take(page: Page, act: Act) -> None:
    """Enter what it needs, click it, and carry it out."""
    for label, text in act.fill.items():
        field = page.get_by_label(label).first
        if field.evaluate("each => each.tagName") == "SELECT":
            field.select_option(text)
        else:
            field.fill(text) if text else field.check()
    button_of(page, act).click()
    dialog = page.locator("dialog")
    dialog.get_by_role("button", name="Carry out").click()
    expect(dialog.get_by_text("Done:").first).to_be_visible()
    dialog.get_by_role("button", name="Close").click()


def section_of(path: str) -> str:
    """Return the first part of a path, such as ``vms`` of the list and of each VM."""
    return path.removeprefix("/").partition("?")[0].partition("/")[0]


def offered(page: Page) -> set[str]:
    """Return all actions that the page holds, also those that are shown after a selection only."""
    buttons = page.locator("main").locator("button[data-method], button[data-bulk], button[data-pause]")
    labels = [*buttons.all_text_contents(), *page.locator("main form[data-path] button").all_text_contents()]
    return {label.partition(" (")[0].strip() for label in labels}


def button_of(page: Page, act: Act) -> Locator:
    return page.locator("main").get_by_role("button", name=act.button, exact="all" not in act.button).first


@pytest.mark.parametrize("role", list(Role))
def test_each_action_has_its_effect_or_is_not_offered(
    chromium: Browser, prepared: tuple[ApiHarness, dict[str, str]], role: Role
) -> None:
    """One after another, as the buttons of the pages lead through them; a page holds no action beside these."""
    harness, events = prepared
    letter = {Role.OPERATOR: "o", Role.OWNER: "w", Role.VIEWER: "v"}[role]
    token = harness.token("acting", str(role), *OWN[role])
    with opened(chromium, harness, token=token) as page:
        for act in ACTS:
            path = act.path.format(**events)
            page.goto(path)
            section = section_of(path)
            permitted = {each.button for each in ACTS if letter in each.roles and section_of(each.path) == section}
            assert offered(page) <= permitted, act
            if letter not in act.roles:
                assert button_of(page, act).count() == 0, act
                continue
            before = len(harness.recorded())
            take(page, act)
            caused = [fact.__struct_config__.tag for fact in harness.recorded()[before:]]
            assert set(act.facts) <= set(caused), (act, caused)


def test_a_dialog_says_what_will_happen(chromium: Browser, prepared: tuple[ApiHarness, dict[str, str]]) -> None:
    """In words, with the name of what it is done to; every button of every page has its sentence."""
    harness, events = prepared
    paths = [f"/events/{events['late']}", "/vms/v-restart", "/hosts/home", "/groups/web", "/access", "/notifications"]
    with opened(chromium, harness) as page:
        for path in (*paths, "/", "/vms", "/rollouts", "/rollouts/one", "/rollouts/five"):
            page.goto(path)
            acting = page.locator("main :is([data-method], [data-bulk], [data-pause])")
            assert acting.count() > 0, path
            for note in acting.evaluate_all("all => all.map((each) => each.dataset.note ?? '')"):
                assert note.endswith("."), path
        page.goto("/rollouts/one")
        page.get_by_role("button", name="Pause", exact=True).click()
        dialog = page.locator("dialog")
        expect(dialog).to_contain_text("No further host begins")
        expect(dialog.get_by_role("listitem")).to_have_text("one")
        expect(dialog).not_to_contain_text("/v1/")
        expect(dialog).not_to_contain_text("{")
        expect(dialog.get_by_role("button")).to_have_text(["Carry out", "Back"])
        dialog.get_by_role("button", name="Carry out").click()
        expect(dialog.get_by_role("button", name="Close")).to_be_visible()


def test_a_postponement_is_previewed(chromium: Browser, prepared: tuple[ApiHarness, dict[str, str]]) -> None:
    """The dialog says what the group does not permit, before anything is asked of the service."""
    harness, events = prepared
    with opened(chromium, harness, f"/events/{events['late']}") as page:
        page.get_by_label("Minutes").fill("600")
        page.get_by_role("button", name="Postpone").click()
        expect(page.locator("dialog")).to_contain_text("It would be refused")
        expect(page.locator("dialog").get_by_role("listitem")).to_have_text("Freeze v-late")


IRREVERSIBLE = {
    "/events/{cancel}": {"Approve", "Cancel the event"},
    "/rollouts/two": {"Cancel the rollout"},
    "/access": {"Rotate", "Revoke"},
    "/notifications": {"Remove"},
    "/hosts/home": {"Fail", "Cancel its Scheduled events"},
    "/vms/spot_0": {"Evict", "Delete"},
    "/vms": {"Evict", "Delete"},
    "/": {"Pause all and cancel every event"},
}
"""The buttons whose question says that it cannot be undone."""


def test_what_cannot_be_undone_is_marked(chromium: Browser, prepared: tuple[ApiHarness, dict[str, str]]) -> None:
    """And nothing else is."""
    harness, events = prepared
    hook = Subscription("s1", "ops", SubscriptionKind.WEBHOOK, "https://example.org/", "c2VjcmV0")
    harness.do(make(SetSubscription, subscription=hook))
    with opened(chromium, harness) as page:
        for path, expected in IRREVERSIBLE.items():
            page.goto(path.format(**events))
            marked = page.locator("main [data-irreversible]").all_text_contents()
            assert {each.partition(" (")[0].strip() for each in marked} == expected, path
        page.goto("/notifications")
        page.get_by_role("button", name="Remove").click()
        expect(page.locator("dialog").get_by_role("listitem")).to_have_text("ops")


def test_a_rollout_names_its_hosts(chromium: Browser, prepared: tuple[ApiHarness, dict[str, str]]) -> None:
    """Nothing is chosen beforehand: neither an operation nor hosts; all hosts are a box of its own."""
    harness, _ = prepared
    with opened(chromium, harness, "/rollouts") as page:
        start = page.get_by_role("button", name="Start")
        expect(page.locator("#plan")).to_have_text("Choose an operation and hosts: the plan is then shown here.")
        page.get_by_role("textbox", name="Name", exact=True).fill("mine")
        start.click()
        expect(page.locator("dialog")).to_be_hidden()
        page.get_by_label("Operation").first.select_option("reboot")
        start.click()
        expect(page.locator("dialog")).to_be_hidden()
        assert page.get_by_label("Hosts: names").evaluate("each => each.validationMessage").startswith("Name hosts")
        page.get_by_label("All hosts").check()
        expect(page.locator("#plan")).to_contain_text("It cannot start")
        page.get_by_label("All hosts").uncheck()
        page.get_by_label("Hosts: names").fill("r-6")
        expect(page.locator("#plan svg")).to_be_visible()
        start.click()
        expect(page.locator("dialog svg")).to_be_visible()
        expect(page.locator("dialog").get_by_role("button", name="Carry out")).to_be_enabled()


def test_a_rollout_with_problems_cannot_be_started(
    chromium: Browser, prepared: tuple[ApiHarness, dict[str, str]]
) -> None:
    """The dialog names them."""
    harness, _ = prepared
    with opened(chromium, harness, "/rollouts") as page:
        page.get_by_role("textbox", name="Name", exact=True).fill("mine")
        page.get_by_label("Operation").first.select_option("reboot")
        page.get_by_label("Hosts: names").fill("r-0")
        page.get_by_role("button", name="Start").click()
        expect(page.locator("dialog")).to_contain_text("rollout one")
        expect(page.locator("dialog").get_by_role("button", name="Carry out")).to_be_disabled()


def test_terms_that_others_changed_meanwhile_stay(
    chromium: Browser, prepared: tuple[ApiHarness, dict[str, str]]
) -> None:
    """Only what was changed in the form is sent, and the question names it."""
    harness, _ = prepared
    with opened(chromium, harness, "/groups/web") as page:
        harness.do(make(SetGroup, group="web", approve_user_reboot=True))
        page.get_by_label("Postponement in minutes").fill("30")
        for text, limit in (("30", 1800), ("0", 0)):
            page.get_by_label("Postponement in minutes").fill(text)
            page.get_by_role("button", name="Save").click()
            dialog = page.locator("dialog")
            expect(dialog.get_by_role("listitem")).to_have_text(f"Postponement in minutes: {text}")
            dialog.get_by_role("button", name="Carry out").click()
            dialog.get_by_role("button", name="Close").click()
            policy = harness.node.replica.fleet.groups["web"].terms.policy
            assert (policy.postpone_limit, policy.approve_user_reboot) == (limit, True)
        page.get_by_role("button", name="Save").click()
        expect(page.locator("dialog").get_by_role("button", name="Carry out")).to_be_disabled()


def test_everything_is_stopped_at_once(chromium: Browser, prepared: tuple[ApiHarness, dict[str, str]]) -> None:
    """Rollouts are paused and every Scheduled event is canceled, also where no rollout runs."""
    harness, _ = prepared
    scheduled = len(harness.node.replica.fleet.events)
    with opened(chromium, harness) as page:
        page.get_by_role("button", name=f"Pause all and cancel every event ({scheduled})").click()
        dialog = page.locator("dialog")
        expect(dialog).to_contain_text(f"canceled: {scheduled}")
        expect(dialog).to_contain_text("Freeze v-late")
        expect(dialog.get_by_text("Freeze v-late")).to_have_count(1)
        dialog.get_by_role("button", name="Carry out").click()
        expect(dialog.get_by_role("button", name="Close")).to_be_visible()
        fleet = harness.node.replica.fleet
        assert not fleet.events
        assert {each.state for each in fleet.rollouts.values()} == {"paused"}
        page.reload()
        expect(page.get_by_role("button", name="cancel every event")).to_have_count(0)
        harness.do(make(OperateVm, operation=VmOperation.FREEZE, vm="v-late"))
        page.get_by_role("button", name="cancel every event (1)").click()
        dialog.get_by_role("button", name="Carry out").click()
        expect(dialog.get_by_role("button", name="Close")).to_be_visible()
        assert not harness.node.replica.fleet.events
