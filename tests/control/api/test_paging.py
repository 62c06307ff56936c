"""Lists: pages that hold everything once, filters, and cursors that stay good."""

import pytest

from forewarn.control.api.paging import make_page, read_cursor, write_cursor
from forewarn.control.api.problems import InvalidRequest
from tests.harness import FLEET, ApiHarness

MANY = "".join(f'[[vm]]\nname = "vm-{number:02}"\n' for number in range(30))


def names(harness: ApiHarness, path: str) -> list[str]:
    """Return what a list holds, page by page."""
    found: list[str] = []
    cursor = ""
    while True:
        page = harness.ask("GET", f"{path}{'&' if '?' in path else '?'}limit=4{cursor}").json
        assert len(page["items"]) <= 4
        found += [each.get("name", each.get("id")) for each in page["items"]]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


@pytest.mark.parametrize("path", ["/v1/vms", "/v1/groups"])
def test_pages_hold_everything_once_and_in_order(harness: ApiHarness, path: str) -> None:
    """Whatever the size of a page."""
    harness.declare(MANY)

    assert names(harness, path) == [f"vm-{number:02}" for number in range(30)]


def test_what_comes_and_goes_between_pages_shifts_nothing(harness: ApiHarness) -> None:
    """Everything that was there all the time is told once."""
    harness.declare(MANY)
    first = harness.ask("GET", "/v1/vms?limit=10").json
    kept = [vm for vm in MANY.split("[[vm]]")[1:] if "vm-03" not in vm and "vm-09" not in vm]
    harness.declare("".join("[[vm]]" + vm for vm in kept) + '[[vm]]\nname = "aaa"\n[[vm]]\nname = "vm-095"\n')
    rest = harness.ask("GET", f"/v1/vms?limit=100&cursor={first['next']}").json

    assert [vm["name"] for vm in rest["items"]] == ["vm-095", *(f"vm-{number}" for number in range(10, 30))]


def test_vms_are_filtered(harness: ApiHarness) -> None:
    """By group, host, spot and state, one at a time and together."""
    harness.ask("POST", "/v1/vms/web-1/operations", {"operation": "deallocate"})

    assert names(harness, "/v1/vms?group=web") == ["web-0", "web-1"]
    assert names(harness, "/v1/vms?host=h1") == ["pool_0", "web-0"]
    assert names(harness, "/v1/vms?spot=true") == ["pool_0"]
    assert names(harness, "/v1/vms?deallocated=true") == ["web-1"]
    assert names(harness, "/v1/vms?group=web&host=h1&spot=false") == ["web-0"]
    assert names(harness, "/v1/groups?kind=scale-set") == ["pool"]


def test_an_owner_lists_its_own_by_the_same_filters(harness: ApiHarness) -> None:
    """And pages through them."""
    token = harness.token("ada", "owner", "web", "db")

    def listed(path: str) -> list[str]:
        return [each["name"] for each in harness.ask("GET", path, token=token).json["items"]]

    assert listed("/v1/vms") == ["db", "web-0", "web-1"]
    assert listed("/v1/vms?host=h1") == ["web-0"]
    assert listed("/v1/groups") == ["db", "web"]
    page = harness.ask("GET", "/v1/vms?limit=1", token=token).json
    assert listed(f"/v1/vms?cursor={page['next']}") == ["web-0", "web-1"]


def test_a_filter_that_names_nothing_known_says_so(harness: ApiHarness) -> None:
    """With the nearest name, as everywhere."""
    said = harness.ask("GET", "/v1/vms?group=wob")

    assert said.status == 404
    assert said.json["detail"] == "there is no group 'wob'; did you mean 'web'?"


def test_events_are_listed_by_announcement_and_filtered(harness: ApiHarness) -> None:
    """The newest finished ones first, where asked for."""
    for vm in ("web-0", "web-1", "db", "pool_0"):
        harness.ask("POST", f"/v1/vms/{vm}/operations", {"operation": "freeze"})
    ids = [event.upper() for event in harness.node.replica.fleet.events]
    harness.ask("POST", f"/v1/events/{ids[1]}/cancel")

    assert sorted(names(harness, "/v1/events")) == sorted([ids[0], *ids[2:]])
    assert names(harness, "/v1/events?finished=5")[0] == ids[1]
    assert names(harness, "/v1/events?group=web&finished=5") == [ids[1], ids[0]]
    assert names(harness, "/v1/events?vm=db") == [ids[2]]
    assert names(harness, "/v1/events?type=Reboot") == []
    assert names(harness, "/v1/events?status=Canceled&finished=5") == [ids[1]]


def test_pages_of_events_announced_together_hold_each_once(harness: ApiHarness) -> None:
    """Though they bear the same time."""
    harness.declare(FLEET + "".join(f'[[vm]]\nname = "alone-{n}"\nhost = "h1"\n' for n in range(9)))
    harness.ask("POST", "/v1/hosts/h1/operations", {"operation": "freeze"})
    found = names(harness, "/v1/events")

    assert len(found) == 11
    assert set(found) == {event.upper() for event in harness.node.replica.fleet.events}


@pytest.mark.end_to_end
@pytest.mark.parametrize("cursor", ["!", "%ff", "d2Vi=x=", "_w", "garbage", "hello", "d2ViLTA", "AAAA", "a" * 999])
@pytest.mark.parametrize(
    "path",
    [
        "vms",
        "groups",
        "hosts",
        "events",
        "tokens",
        "subscriptions",
        "fleet",
        "history",
        "vms?group=web&",
        "events?vm=db&",
    ],
)
def test_a_cursor_that_was_made_up_is_refused(harness: ApiHarness, path: str, cursor: str) -> None:
    """By every list, with 400 and the place; it never stands for the first page, or any other."""
    said = harness.ask("GET", f"/v1/{path}{'' if '?' in path else '?'}cursor={cursor}")

    assert said.status == 400
    assert said.json["errors"][0]["place"] == "query.cursor"


def test_a_cursor_holds_the_last_key() -> None:
    """And nothing else."""
    assert read_cursor(write_cursor("web-0/ü")) == "web-0/ü"
    assert read_cursor(None) == ""
    with pytest.raises(InvalidRequest):
        read_cursor("_w")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "limt=1", "limit=1&limit=2", "plane=1", "data=1"]
)
def test_parameters_that_mean_nothing_are_refused_with_their_place(harness: ApiHarness, query: str) -> None:
    """No typing error goes unnoticed."""
    said = harness.ask("GET", f"/v1/vms?{query}")

    assert said.status == 400
    assert said.json["errors"][0]["place"] == "query." + query.split("=", maxsplit=1)[0]


def test_a_page_ends_where_few_fit() -> None:
    """A filter that lets nothing through does not hold up the service; the list goes on."""
    page = make_page(((f"vm-{number}", None) for number in range(30)), 100, str, most_checked=5)

    assert page.items == ()
    assert read_cursor(page.next) == "vm-4"
