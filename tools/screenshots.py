"""``make screenshots``: run a service with a demo fleet, cause some events, and take pictures of the dashboard."""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

_ROOT = Path(__file__).parents[1]
_IMAGES = _ROOT / "docs" / "images"
_METADATA, _CONTROL = "127.0.0.1:18354", "127.0.0.1:18355"
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
_PICTURES = {
    "tonight": ("/", "light", 1280),
    "fleet": ("/fleet?by=group", "light", 1280),
    "timeline": ("/timeline", "dark", 1280),
    "rollout": ("/rollouts/kernel", "light", 1280),
    "tonight-phone": ("/", "dark", 390),
}
"""Name of the picture: path, colour scheme, width."""
_COMMANDS = (
    ("vm", "restart", "web-0", "--not-before", "+200m"),
    ("host", "reboot", "host-2", "--not-before", "+90m"),
    ("vm", "redeploy", "workers_0", "--not-before", "+30m"),
    ("event", "approve", "last"),
    ("vm", "freeze", "db", "--duration", "72000"),
    ("event", "approve", "last"),
    ("rollout", "start", "kernel", "--operation", "reboot", "--all", "--settle", "4h", "--canary", "1"),
)


def main() -> None:
    _IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, _serving(directory), sync_playwright() as playwright:
        for address in ("127.0.0.11", "127.0.0.22", "127.0.0.31"):
            _ask_as(address)
        for command in _COMMANDS:
            _forewarn(directory, *command)
        _ask_as("127.0.0.11")
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=_FLAGS)
        for name, (path, scheme, width) in _PICTURES.items():
            link = json.loads(_forewarn(directory, "dashboard", "--no-browser", "--json"))["url"]
            context = browser.new_context(viewport={"width": width, "height": 760}, color_scheme=scheme)  # type: ignore[arg-type]
            page = context.new_page()
            page.goto(link)
            page.wait_for_url("**/")
            page.goto(f"http://{_CONTROL}{path}")
            page.wait_for_selector("#connection:not(.lost)")
            page.screenshot(path=_IMAGES / f"{name}.png")
            print(f"docs/images/{name}.png")
            context.close()
        browser.close()


@contextmanager
def _serving(directory: str) -> Iterator[None]:
    command = [sys.executable, "-m", "forewarn", "demo", "--data", directory, "--metadata", _METADATA]
    with subprocess.Popen([*command, "--control", _CONTROL], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as it:
        try:
            until = time.monotonic() + 60
            while "http" not in _forewarn(directory, "dashboard", "--no-browser", check=False):
                if time.monotonic() > until or it.poll() is not None:
                    raise SystemExit("The service did not begin to answer.")
                time.sleep(0.2)
            yield
        finally:
            it.terminate()


def _forewarn(directory: str, *words: str, check: bool = True) -> str:
    environment = {**os.environ, "FOREWARN_DATA": directory}
    command = [sys.executable, "-m", "forewarn", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=check).stdout


def _ask_as(address: str) -> None:
    request = urllib.request.Request(
        f"http://{_METADATA}/metadata/scheduledevents?api-version=2020-07-01", headers={"Metadata": "true"}
    )
    opener = urllib.request.build_opener(_Bound(address))
    opener.open(request, timeout=10).read()


class _Bound(urllib.request.HTTPHandler):
    """Sends requests from a given address of this machine."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        def connect(host: str, **more: object) -> http.client.HTTPConnection:
            return http.client.HTTPConnection(host, source_address=(self._address, 0), **more)  # type: ignore[arg-type]

        return self.do_open(connect, req)


if __name__ == "__main__":
    main()
