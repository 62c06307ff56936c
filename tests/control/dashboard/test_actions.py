"""Every action under every role, by clicks: it has its effect, or it is not offered."""

from collections.abc import Callable
from uuid import uuid4

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from forewarn.control.bodies import DeliveryReceipt
from forewarn.control.notifications.worker import DeliveryStatus
from forewarn.core.commands import Command, OperateVm, StartRollout, VmOperation
from forewarn.core.facts import Announced
from forewarn.core.model import Caller, CallerKind, Role, Subscription
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
    + "".join(f'[[host]]\nname = "r-{number}"\n' for number in range(6))
    + "".join(f'[[vm]]\nname = "v-{name}"\ngroup = "web"\nhost = "home"\n' for name in VM_ACTIONS)
    + "".join(f'[[vm]]\nname = "on-{name}"\ngroup = "web"\nhost = "h-{name}"\n' for name in HOST_ACTIONS)
    + "".join(f'[[vm]]\nname = "on-r-{number}"\ngroup = "web"\nhost = "r-{number}"\n' for number in range(6))
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
    Act("/events/{cancel}", "Cancel", "o", ("canceled",)),
    Act("/rollouts", "Start", "o", ("rollout-started",), {"Name": "mine", "Hosts: names": "r-5"}),
    Act("/rollouts/one", "Skip", "o", ("canceled",)),
    Act("/rollouts/two", "Pause", "o", ("rollout-paused",)),
    Act("/rollouts/two", "Withdraw", "o", ("canceled",)),
    Act("/rollouts/two", "Resume", "o", ("rollout-resumed",)),
    Act("/rollouts/three", "Pause and withdraw", "o", ("rollout-paused",)),
    Act("/rollouts/four", "Cancel", "o", ("rollout-stopping",)),
    Act("/", "Pause all rollouts", "o", ("rollout-paused",)),
    Act("/", "Pause all and withdraw", "o", ("canceled",)),
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
    for number, name in enumerate(("one", "two", "three", "four", "five")):
        terms = RolloutTerms(operation=RolloutOperation.REBOOT, hosts=(f"r-{number}",))
        harness.do(make(StartRollout, name=name, terms=terms))
    harness.advance_rollouts()
    return harness, events


def make(kind: Callable[..., Command], **more: object) -> Command:
    return kind(id=uuid4().hex, by=ANN, **more)


def take(page: Page, act: Act) -> None:
    """Enter what it needs, click it, and carry it out."""
    for label, text in act.fill.items():
        field = page.get_by_label(label).first
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
