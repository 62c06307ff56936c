"""A real Chromium, and pages in it that are logged in."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.harness import ApiHarness

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
_EXPECTED = (
    "ERR_INCOMPLETE_CHUNKED_ENCODING",
    "409 (Conflict)",
    "401 (Unauthorized)",
    "403 (Forbidden)",
    "404 (Not Found)",
    "ERR_CONNECTION_REFUSED",
)


@contextmanager
def opened(
    chromium: Browser, harness: ApiHarness, path: str = "/", token: str = "", **context: object
) -> Iterator[Page]:
    """Open a page, logged in by a link; a message of the browser about an error fails the test."""
    problems: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        is_expected = any(each in message.text for each in _EXPECTED)
        if message.type == "error" and not is_expected:
            problems.append(message.text)

    session = chromium.new_context(base_url=f"http://127.0.0.1:{harness.control_plane.port}", **context)  # type: ignore[arg-type]
    page = session.new_page()
    page.on("console", hear)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    link = harness.ask("POST", "/v1/dashboard/links", {"token": token or harness.token(f"browser-{uuid4().hex[:8]}")})
    page.goto(link.json["path"])
    page.wait_for_url("**/")
    page.goto(path)
    yield page
    session.close()
    assert problems == [], problems
