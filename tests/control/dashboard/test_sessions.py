"""Sessions: the cookie holds a token, links work once, and other sites can change nothing."""

import pytest

from forewarn.control.dashboard.sessions import (
    LINK_LIFETIME,
    LoginLinks,
    bearer_of,
    csrf_token,
)
from forewarn.control.problems import InvalidSession
from forewarn.core.errors import NotAllowed


def test_a_cookie_stands_for_its_token() -> None:
    """Where there is no cookie, nothing does."""
    assert bearer_of("fw_x", "GET", "") == "Bearer fw_x"
    assert bearer_of("", "POST", "") == ""


def test_a_change_needs_the_csrf_token_of_the_session() -> None:
    """The token of another session is refused, and so is none."""
    assert bearer_of("fw_x", "POST", csrf_token("fw_x")) == "Bearer fw_x"
    for given in ("", csrf_token("fw_y"), "ä"):
        with pytest.raises(InvalidSession):
            bearer_of("fw_x", "DELETE", given)


def test_a_link_works_once() -> None:
    """The second browser is refused."""
    links = LoginLinks(lambda: 0.0)
    code = links.create("fw_x")

    assert links.redeem(code) == "fw_x"
    with pytest.raises(NotAllowed, match="used already"):
        links.redeem(code)


def test_a_link_works_for_five_minutes() -> None:
    """Then it is as if it had never been."""
    now = [0.0]
    links = LoginLinks(lambda: now[0])
    early, late = links.create("fw_x"), links.create("fw_y")
    now[0] = LINK_LIFETIME - 1
    assert links.redeem(early) == "fw_x"
    now[0] = LINK_LIFETIME
    with pytest.raises(NotAllowed):
        links.redeem(late)


def test_a_code_that_was_never_given_is_refused() -> None:
    """Also the empty one."""
    for code in ("", "guess"):
        with pytest.raises(NotAllowed):
            LoginLinks(lambda: 0.0).redeem(code)
