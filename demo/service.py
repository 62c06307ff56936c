"""The service, run in the network of a site, on 169.254.169.254, with the site's machines under its qemu driver."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from demo.site import METADATA, Site
from forewarn.control.client import ControlClient

_PATIENCE = 180.0
_ENDED = {"Completed", "Failed", "Canceled"}


class Service:
    """One running service; it can be killed and begun again on what it left."""

    def __init__(self, site: Site, directory: Path, fleet: str, **settings: Any) -> None:  # noqa: ANN401 any setting
        self._site = site
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._begun = 0
        directory.mkdir(parents=True, exist_ok=True)
        tomllib.loads(fleet)
        (directory / "fleet.toml").write_text(fleet, encoding="utf-8")
        drivers = settings.pop("drivers")
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        for driver, table in drivers.items():
            lines += [f"[drivers.{driver}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
        (directory / "forewarn.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def begin(self) -> ControlClient:
        """Start it; return a client of its control socket once it answers."""
        self._begun += 1
        with (self._directory / "log").open("ab") as log:
            self._process = self._site.begin(
                Path(sys.executable).with_name("forewarn"),
                *("serve", "--data", "data", "--metadata", f"{METADATA}:80", "--control", "off"),
                *("--fleet", "fleet.toml"),
                cwd=self._directory,
                stdout=log,
                stderr=log,
            )
        wait_for("the service to answer", self._answers)
        return ControlClient.local(self._directory / "data")

    def kill(self) -> None:
        """End it without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def log(self) -> str:
        return (self._directory / "log").read_text(encoding="utf-8")

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"the service did not start: {self.log}")
        return self.log.count(" serving metadata=") == self._begun


def wait_for(what: str, is_so: Callable[[], bool], seconds: float = _PATIENCE) -> None:
    ending = monotonic() + seconds
    while not is_so():
        if monotonic() > ending:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        sleep(0.02)


def ended(client: ControlClient, event: str) -> str:
    """Wait for the end of an event; return how it ended, and what was said then."""
    wait_for(f"the end of event {event}", lambda: client.timeline(event).status in _ENDED)
    story = client.timeline(event)
    return f"{story.status}: {story.steps[-1].detail}"
