"""Login with a token or a link, logout, and what other sites cannot do."""

import msgspec

from forewarn.control.bodies import ListenerView, TokenBody
from forewarn.control.client import ControlClient
from forewarn.control.dashboard.sessions import csrf_token, login_cookie, session_cookie
from forewarn.core.model import Role
from tests.control.dashboard.conftest import Browser
from tests.harness import ApiHarness


def token_of(harness: ApiHarness, role: Role = Role.OPERATOR, **more: object) -> str:
    with ControlClient.local(harness.directory) as client:
        return client.create_token(TokenBody(name=f"t-{role}", role=role, **more)).token  # type: ignore[arg-type]


def test_a_page_without_a_session_leads_to_the_login(browser: Browser) -> None:
    """And back to the page afterwards."""
    said = browser.get("/fleet?by=group")

    assert (said.status, said.headers["location"]) == (303, "/login?next=%2Ffleet%3Fby%3Dgroup")


def test_a_token_opens_a_session(harness: ApiHarness, browser: Browser) -> None:
    """The cookie is for this service alone, and no script can read it."""
    said = browser.log_in(token_of(harness))

    assert (said.status, said.headers["location"]) == (303, "/")
    assert "httponly" in said.headers["set-cookie"].lower()
    assert "samesite=lax" in said.headers["set-cookie"].lower()
    assert browser.get("/").status == 200


def test_a_wrong_token_is_refused(browser: Browser) -> None:
    """With a sentence in the form."""
    said = browser.log_in("fw_0000000000000000_" + "x" * 43)

    assert said.status == 401
    assert "does not accept this token" in said.body.decode()
    assert session_cookie(browser.port) not in browser.cookies


def test_a_login_from_another_site_is_refused(harness: ApiHarness, browser: Browser) -> None:
    """It cannot know the value that the form repeats."""
    browser.get("/login")

    assert browser.post("/login", token=token_of(harness), csrf="guess").status == 403


def test_a_session_ends_with_its_token(harness: ApiHarness, browser: Browser) -> None:
    """The next page leads to the login."""
    browser.log_in(token_of(harness))
    with ControlClient.local(harness.directory) as client:
        client.revoke_token("t-operator")

    assert browser.get("/").status == 303


def test_a_link_of_the_local_operator_opens_a_session(harness: ApiHarness, browser: Browser) -> None:
    """It has a token of its own, which ends by itself."""
    with ControlClient.local(harness.directory) as client:
        harness.context.listeners = lambda: (ListenerView(part="control", address="127.0.0.1:1", inode=1),)
        code = client.dashboard_link().partition("#code=")[2]

        assert browser.log_in(code=code).status == 303
        assert browser.get("/").status == 200
        (token,) = client.tokens()
    assert token.expires_at is not None
    assert browser.log_in(code=code).status == 403


def test_a_link_of_a_token_opens_its_session(harness: ApiHarness, browser: Browser) -> None:
    """With the rights of the token."""
    token = token_of(harness, Role.VIEWER)
    path = msgspec.json.decode(harness.ask("POST", "/v1/dashboard/links", {}, token=token).body)["path"]

    browser.log_in(code=path.partition("#code=")[2])
    assert browser.get("/").status == 200
    assert browser.get("/access").status == 403


def test_a_redirect_stays_on_this_service(harness: ApiHarness, browser: Browser) -> None:
    """Whatever the address of the login said."""
    token = token_of(harness)
    for target in ("//evil.example", "https://evil.example/", "/\\evil.example", "//[", "javascript:alert(1)"):
        browser.get("/login")
        said = browser.post(
            "/login", token=token, next=target, csrf=csrf_token(browser.cookies[login_cookie(browser.port)])
        )
        assert said.headers["location"] == "/"


def test_logging_out_needs_the_csrf_token(harness: ApiHarness, browser: Browser) -> None:
    """And then the cookie is gone."""
    browser.log_in(token_of(harness))

    assert browser.post("/logout", csrf="guess").status == 403
    assert browser.post("/logout", csrf=browser.csrf).status == 303
    assert browser.get("/").status == 303


def test_a_change_by_cookie_needs_the_csrf_token(harness: ApiHarness, browser: Browser) -> None:
    """A form of another site carries the cookie, and not the header."""
    browser.log_in(token_of(harness))
    path, body = "/v1/vms/web-0/operations", b'{"operation": "restart"}'

    assert browser.send("POST", path, body).status == 403
    assert browser.send("POST", path, body, X_CSRF_Token=browser.csrf).status == 201


def test_sessions_of_two_services_on_one_host_do_not_meet(harness: ApiHarness, browser: Browser) -> None:
    """Browsers send cookies to all ports of a host; so the name of the cookie has the port."""
    browser.log_in(token_of(harness))
    browser.cookies = {name.replace(str(browser.port), "1"): value for name, value in browser.cookies.items()}

    assert browser.get("/").status == 303


def test_logging_out_revokes_the_token_that_a_link_brought(harness: ApiHarness, browser: Browser) -> None:
    """It was made for this session; the token of a caller stays."""
    own = token_of(harness)
    path = harness.ask("POST", "/v1/dashboard/links", {"token": harness.token("made")}).json["path"]
    browser.log_in(code=path.partition("#code=")[2])
    browser.post("/logout", csrf=browser.csrf)
    assert {token.name for token in harness.node.replica.fleet.tokens.values()} == {"t-operator"}

    path = harness.ask("POST", "/v1/dashboard/links", {}, token=own).json["path"]
    browser.log_in(code=path.partition("#code=")[2])
    browser.post("/logout", csrf=browser.csrf)
    assert {token.name for token in harness.node.replica.fleet.tokens.values()} == {"t-operator"}


def test_a_login_with_a_strange_target_is_shown(browser: Browser) -> None:
    """An address that cannot be read leads to the start page."""
    assert browser.get("/login?next=//%5B").status == 200


def test_an_unknown_path_is_a_page_for_a_browser(harness: ApiHarness) -> None:
    """And a problem for any other client."""
    said = harness.ask("GET", "/nowhere", token="", headers={"Accept": "text/html,*/*"})
    assert (said.status, said.headers["content-type"].partition(";")[0]) == (404, "text/html")
    assert harness.ask("GET", "/nowhere", token="").headers["content-type"] == "application/problem+json"


def test_the_api_is_neither_guessed_nor_kept(harness: ApiHarness) -> None:
    """By a browser that a page led there."""
    said = harness.ask("GET", "/v1/vms")
    assert (said.headers["x-content-type-options"], said.headers["cache-control"]) == ("nosniff", "no-store")
