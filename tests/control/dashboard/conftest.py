"""A service with a control plane, and a browser's session with it."""

from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import sync_playwright

from forewarn.control.dashboard.sessions import csrf_token, login_cookie, session_cookie
from tests.control.dashboard.browsing import FLAGS
from tests.harness import ApiHarness, ApiResponse, open_harness


class Browser:
    """Keeps cookies, and sends forms."""

    def __init__(self, harness: ApiHarness) -> None:
        self.harness = harness
        self.cookies: dict[str, str] = {}

    @property
    def port(self) -> int:
        return self.harness.control_plane.port

    def get(self, path: str) -> ApiResponse:
        return self._ask("GET", path, None, {})

    def post(self, path: str, **form: str) -> ApiResponse:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._ask("POST", path, urlencode(form).encode(), kind)

    def send(self, method: str, path: str, body: bytes, **headers: str) -> ApiResponse:
        """Send a request of a script."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._ask(method, path, body, {"Content-Type": "application/json", **named})

    def log_in(self, token: str = "", code: str = "") -> ApiResponse:
        self.get("/login")
        return self.post("/login", token=token, code=code, csrf=csrf_token(self.cookies[login_cookie(self.port)]))

    @property
    def csrf(self) -> str:
        return csrf_token(self.cookies[session_cookie(self.port)])

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> ApiResponse:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        said = self.harness.ask(method, path, body, token="", headers={**headers, "Cookie": cookies})
        for name, morsel in SimpleCookie(said.headers.get("set-cookie", "")).items():
            self.cookies[name] = morsel.value
        return said


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ApiHarness]:
    with open_harness(tmp_path) as harness:
        yield harness


@pytest.fixture
def browser(harness: ApiHarness) -> Browser:
    return Browser(harness)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        browser.close()
