"""What a new type of event takes: its rows are added to a copy of the package, and its whole path is walked."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from forewarn.client.client import Client
from forewarn.wire.versions import API_VERSIONS, NEWEST
from tests.ports import free_port

SOURCE = Path(__file__).parents[1] / "src" / "forewarn"
POLISHING = "Announcement(EventType.POLISH, EventSource.PLATFORM, 'It shines.', 7, 'Polish a VM.')"
ROWS = {
    "core/model.py": [
        ('    TERMINATE = "terminate"\n', '    POLISH = "polish"\n'),
        ('    """One machine crashed; observed, never requested."""\n', '    VM_POLISH = "vm polish"\n'),
    ],
    "core/commands.py": [('    DELETE = "delete"\n', '    POLISH = "polish"\n')],
    "core/access.py": [('    DELETE = "delete VMs"\n', '    POLISH = "polish VMs"\n')],
    "core/event_types.py": [
        ("EVENT_TYPES = {\n", '    EventType.POLISH: EventTypeTraits("be polished", timedelta(minutes=3)),\n'),
        (
            "ANNOUNCEMENTS = {\n",
            f"    Operation.VM_POLISH: {POLISHING},\n",
        ),
    ],
    "wire/azure_names.py": [("TYPES_SHOWN = {\n", f'    EventType.POLISH: ("Polish", "{NEWEST.name}"),\n')],
    "drivers/simulated.py": [("    reboot: Seconds = 30.0\n", "    polish: Seconds = 0.1\n")],
}
"""The lines that are added, each behind one that is there."""
LONGEST = 60.0


class PolishingService:
    """A service whose package knows one more type, and its command line."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._environment = os.environ | {"PYTHONPATH": str(directory / "src")}
        package = directory / "src" / "forewarn"
        shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
        for name, rows in ROWS.items():
            text = (package / name).read_text(encoding="utf-8")
            for line, added in rows:
                assert text.count(line) == 1, f"{name} has no single line {line!r}"
                text = text.replace(line, line + added)
            (package / name).write_text(text, encoding="utf-8")
        self.url = f"http://127.0.0.1:{free_port()}"
        settings = f'metadata = "{self.url.removeprefix("http://")}"\ncontrol = "off"\nfleet = "fleet.toml"\n'
        (directory / "forewarn.toml").write_text(f'{settings}[notice]\npolish = "20m"\n', encoding="utf-8")
        (directory / "fleet.toml").write_text('[[vm]]\nname = "web-0"\naddress = "127.0.0.1"\n', encoding="utf-8")
        self.process = subprocess.Popen(self._words("serve"), cwd=directory, env=self._environment)

    def _words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "forewarn", *words]

    def run(self, *words: str) -> str:
        ran = subprocess.run(
            self._words(*words),
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def history(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("history", "--oldest-first", "--json").splitlines()]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[PolishingService]:
    found = PolishingService(tmp_path)
    try:
        until = monotonic() + LONGEST
        while not (tmp_path / "forewarn-data" / "control.sock").exists():
            assert found.process.poll() is None, "the service ended"
            assert monotonic() < until
            sleep(0.1)
        yield found
    finally:
        found.process.kill()
        found.process.wait()


@pytest.mark.end_to_end
def test_a_new_type_takes_its_rows_and_its_impact(service: PolishingService) -> None:
    """It is announced from the command line, shown, approved, carried out by the driver, and recorded."""
    result = service.run("vm", "polish", "web-0")
    (shown,) = json.loads(service.run("events", "--url", service.url, "--json"))
    with Client(service.url, api_version=API_VERSIONS[-2].name) as older:
        hidden = older.document().events
    service.run("approve", "--all", "--wait", "--url", service.url)
    until = monotonic() + LONGEST
    while (lines := service.history())[-1]["fact"] != "completed":
        assert monotonic() < until, lines
        sleep(0.2)

    assert result.startswith("web-0 will be polished at ")
    assert "Polish a VM." in service.run("vm", "--help")
    assert (shown["type"], shown["duration"], shown["description"]) == ("Polish", 7, "It shines.")
    assert hidden == ()
    assert {line["type"] for line in lines if line["event"]} == {"Polish"}
    announced = datetime.fromisoformat(lines[2]["at"])
    assert datetime.fromisoformat(shown["not_before"]) - announced >= timedelta(minutes=20)
    assert [line["fact"] for line in lines if line["event"] and line["fact"] != "fetched"] == [
        "announced",
        "approved",
        "started",
        "attempted",
        "completed",
    ]
