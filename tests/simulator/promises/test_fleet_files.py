"""Fleet files that operators apply: what keeps the promises is accepted, and what breaks them is reported."""

from typing import Any

import msgspec
import pytest

from forewarn.simulator.actions.fleet_requests import EditFleetFile, RequestFleetApply
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.exchanges import ControlExchange, Exchange
from tests.simulator.promises.test_checker import asked, first, groups, problems_of, terms, timeline

DECLARATION = "/v1/fleet/declaration"
HELD = ["VM web-0: removal waits until event 1234 ends"]


def declared(revision: int, at: float, digest: str = "ab") -> ControlExchange:
    return asked("GET", DECLARATION, answer={"revision": revision, "digest": digest}, at=at)


def applied(at: float = 5.0, held: list[str] | None = None, key: str = "a1", **file: Any) -> ControlExchange:
    return asked("POST", DECLARATION, {"seen": 1, **file}, {"held": held or []}, at=at, key=key, status=201)


def removed(at: float = 5.0, held: list[str] | None = None) -> ControlExchange:
    return applied(at, held, removed_vms=["web-0"])


def listed(path: str, at: float, *names: str) -> ControlExchange:
    items = [
        {"name": name, "group": "web", "host": "h1", "deallocated": False, "state": "up", "cordoned": False}
        for name in names
    ]
    return asked("GET", path, answer={"items": items}, at=at)


def labelled(path: str, at: float) -> ControlExchange:
    return asked("PATCH", path, {"labels": {"tier": "front"}}, at=at)


def shown_with_label(path: str, name: str, at: float) -> ControlExchange:
    item = {"name": name, "group": "web", "host": "h1", "deallocated": False, "state": "up", "cordoned": False}
    return asked("GET", path, answer={"items": [{**item, "labels": {"tier": "front"}}]}, at=at)


NEW_VM = {"name": "more-4", "group": "web", "host": "h1", "address": "10.1.0.4"}
CANCELED = timeline("Canceled", (4.9, "Canceled"), at=50.0)
LATE = timeline("Completed", (21.0, "Started"), (25.0, "Completed"), at=50.0)
EXACT = applied(exact=True)
BROKEN: dict[str, tuple[tuple[Exchange, ...], str]] = {
    "revision falls": ((declared(3, 2.0), declared(2, 4.0)), "fell from revision 3 to 2"),
    "two files": ((declared(3, 2.0), declared(3, 4.0, "cd")), "revision 3 of the declaration is of two files"),
    "stale": ((declared(2, 2.0), applied()), "by revision 1 of the declaration, which had 2"),
    "removed VM": ((removed(), listed("/v1/vms", 9.0, "web-0")), "web-0 was removed by a fleet file, and is shown"),
    "added VM": ((applied(vms=[NEW_VM]), listed("/v1/vms", 9.0)), "more-4 was added by a fleet file, and is not"),
    "added host": ((applied(hosts=[{"name": "h5"}]), listed("/v1/hosts", 9.0)), "h5 was added by a fleet file"),
    "unfinished event": ((first(at=0.5), removed(), LATE), "and Reboot 11111111 of web was not over"),
    "held without an event": (
        (removed(held=HELD), LATE, listed("/v1/vms", 150.0, "web-0")),
        "the removal of web-0 waited for an event, and web-0 is still there without one",
    ),
    "group after exact": (
        (asked("POST", "/v1/groups", {"name": "g8"}, at=2.0), EXACT, groups(9.0, "g8")),
        "group g8 is shown, and was removed",
    ),
    "host after exact": (
        (asked("POST", "/v1/hosts", {"name": "h8"}, at=2.0), EXACT, listed("/v1/hosts", 9.0, "h8")),
        "host h8 is shown, and was removed",
    ),
    "label after exact": (
        (labelled("/v1/vms/web-0", 2.0), EXACT, shown_with_label("/v1/vms", "web-0", 9.0)),
        "web-0 is shown with label front, and none was set",
    ),
    "label of a host after exact": (
        (labelled("/v1/hosts/h1", 2.0), EXACT, shown_with_label("/v1/hosts", "h1", 9.0)),
        "host h1 is shown with label front, and none was set",
    ),
}
KEPT: dict[str, tuple[Exchange, ...]] = {
    "next revision": (declared(2, 2.0), declared(2, 3.0), declared(3, 4.0, "cd")),
    "read beside each other": (declared(3, 4.0), msgspec.structs.replace(declared(2, 4.1), sent_at=1.0)),
    "compared with the last": (declared(1, 2.0), applied(), declared(2, 9.0, "cd")),
    "a repetition": (declared(1, 2.0), applied(), declared(2, 9.0, "cd"), applied(10.0)),
    "removal that is held": (removed(held=HELD), listed("/v1/vms", 9.0, "web-0"), LATE),
    "held by an event": (
        removed(held=HELD),
        timeline("Started", (21.0, "Started"), at=50.0),
        listed("/v1/vms", 150.0, "web-0"),
    ),
    "held and gone": (removed(held=HELD), LATE, listed("/v1/vms", 150.0)),
    "event that was canceled": (removed(), CANCELED),
    "listed before": (listed("/v1/vms", 4.5, "web-0"), removed()),
    "added": (applied(vms=[NEW_VM], hosts=[{"name": "h5"}]), listed("/v1/vms", 9.0, "more-4")),
    "group that is held": (
        asked("POST", "/v1/groups", {"name": "g8"}, at=2.0),
        applied(exact=True, held=["group g8: removal waits: it has VMs"]),
        groups(9.0, "g8"),
    ),
    "label without exact": (
        labelled("/v1/vms/web-0", 2.0),
        applied(),
        shown_with_label("/v1/vms", "web-0", 9.0),
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_promise_is_reported(fault: str) -> None:
    """Each promise is broken once; nothing else is."""
    story, words = BROKEN[fault]
    problems = problems_of(*story, now=60.0)
    assert len(problems) == 1
    assert words in problems[0]


@pytest.mark.parametrize("story", KEPT)
def test_a_kept_promise_is_not_reported(story: str) -> None:
    """What looks like a broken promise, and is none."""
    assert problems_of(*KEPT[story], now=60.0) == []


@pytest.mark.parametrize(
    ("story", "action"),
    [
        (BROKEN["added host"][0], EditFleetFile(at=6.0, edit="remove-host", subject="h5", value="-")),
        (BROKEN["added VM"][0], RequestFleetApply(at=6.0, who="ann", how="with-exact", key="a2")),
        (BROKEN["label after exact"][0], EditFleetFile(at=1.0, edit="set-spot", subject="web-0", value="true")),
    ],
)
def test_the_plan_explains(story: tuple[Exchange, ...], action: PlannedAction) -> None:
    """What the plan does besides may have changed it again."""
    assert problems_of(*story, actions=(action,), now=60.0) == []


def test_an_exact_file_takes_terms_back() -> None:
    """Terms that were set at run time hold no longer once a file is applied exactly."""
    policy = terms(approve_user_reboot=True)
    asked_for = asked(
        "POST",
        "/v1/vms/web-0/operations",
        {"operation": "restart"},
        {
            "operation": "OP-1",
            "announcements": [
                {
                    "event": {
                        "id": "11111111-1111-4111-8111-111111111111",
                        "type": "Reboot",
                        "status": "Started",
                        "resources": ["web-0"],
                    },
                    "group": "web",
                    "without_notice": "approved automatically by the group's policy",
                }
            ],
        },
        at=12.0,
        key="k1",
        status=201,
    )

    assert problems_of(first(at=0.1), policy, asked_for, now=20.0) == []
    assert "no policy says so" in problems_of(first(at=0.1), policy, EXACT, asked_for, now=20.0)[0]
