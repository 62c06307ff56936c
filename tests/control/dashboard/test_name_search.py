"""Search for VMs by a part of their name."""

import pytest

from forewarn.control.dashboard.name_search import NameSearch
from forewarn.core.commands import ChangeFleet
from forewarn.core.model import Caller, CallerKind
from tests.control.dashboard.conftest import Browser
from tests.control.dashboard.test_login import token_of
from tests.harness import ApiHarness

ANN = Caller(CallerKind.OPERATOR, "ann")
NAMES = ("web-0", "web-1", "WEB-10", "a", "aa", "aaa", "x.web", "b_web-0_c")


@pytest.fixture
def search(harness: ApiHarness) -> NameSearch:
    harness.declare("")
    harness.declare("".join(f'[[vm]]\nname = "{name}"\n' for name in NAMES))
    return harness.context.search


@pytest.mark.parametrize(
    "wanted", ["web", "WEB-1", "a", "aa", "0", "-0", "c", "web-0", "nothing", "b-", "\nweb", "0\n"]
)
def test_a_search_finds_each_name_that_contains_the_text_once(search: NameSearch, wanted: str) -> None:
    """In any case, in the order of the fleet; nothing is found across two names."""
    assert list(search.find(wanted)) == [name for name in NAMES if wanted.lower() in name.lower()]


def test_an_empty_text_finds_nothing(search: NameSearch) -> None:
    """Who searches for nothing wants a list, and not a search."""
    assert list(search.find("")) == []


def test_a_search_follows_the_fleet(harness: ApiHarness, search: NameSearch) -> None:
    """Of VMs that were added and removed since."""
    assert list(search.find("aaa")) == ["aaa"]
    harness.do(ChangeFleet(id="1" * 32, by=ANN, removed_vms=("aaa",)))
    assert list(search.find("aaa")) == []
    harness.declare("")
    assert list(search.find("a")) == []


@pytest.mark.usefixtures("search")
def test_pages_find_the_same(harness: ApiHarness, browser: Browser) -> None:
    """The list, in order, and the map of the fleet."""
    browser.log_in(token_of(harness))

    body = browser.get("/vms?search=WEB").body.decode()
    shown = [name for name in sorted(NAMES) if f'aria-label="{name}"' in body]
    assert shown == sorted(name for name in NAMES if "web" in name.lower())
    assert [body.index(f'aria-label="{name}"') for name in shown] == sorted(
        body.index(f'aria-label="{name}"') for name in shown
    )
    fleet = browser.get("/fleet?search=WEB").body.decode()
    assert [name for name in sorted(NAMES) if f'href="/vms/{name}"' in fleet] == shown
