"""What is watched is shown again when the service has been away."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from forewarn.cli import watching
from forewarn.control.client import ControlClient
from forewarn.control.rollout_views import RolloutDetail
from forewarn.journal.memory import MemoryJournal
from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness, open_harness


class RestartedService:
    """A service that is stopped, and started again when it was asked in vain a few times."""

    def __init__(self, directory: Path) -> None:
        self.asked_in_vain = 0
        self._directory = directory
        self._journal = MemoryJournal()
        self._running = ExitStack()
        self.start()

    def start(self) -> None:
        self.harness: ApiHarness = self._running.enter_context(open_harness(self._directory, journal=self._journal))

    def stop(self) -> None:
        self._running.close()

    def start_after_three(self, _: float) -> None:
        """Stand in for the pause between two attempts."""
        self.asked_in_vain += 1
        if self.asked_in_vain == 3:
            self.start()


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RestartedService:
    service = RestartedService(tmp_path)
    monkeypatch.setattr(watching, "SETTLE", 0.01)
    monkeypatch.setattr(watching, "sleep", service.start_after_three)
    return service


def test_a_rollout_is_shown_again_when_the_service_is_back(
    service: RestartedService, forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said once that no service answers, and that it answers again; the command ends with the rollout."""
    forewarn("rollout", "start", "kernel", "--operation", "reboot", "--all")
    look = ControlClient.rollout

    def look_and_change(client: ControlClient, name: str) -> RolloutDetail:
        found = look(client, name)
        if not service.asked_in_vain:
            service.stop()
        elif found.state == "running":
            service.harness.ask("POST", f"/v1/rollouts/{name}/cancel")
            service.harness.advance_rollouts()
        return found

    monkeypatch.setattr(ControlClient, "rollout", look_and_change)
    shown = forewarn("rollout", "show", "kernel", "--watch")
    service.stop()

    assert shown.code == 0
    assert shown.out.count("rollout kernel (reboot) is running") == 2
    assert "is canceled: canceled by" in shown.out
    assert shown.err.splitlines() == [
        "forewarn: the service closed the connection; trying again until Ctrl-C",
        "forewarn: the service answers again",
    ]
    assert service.asked_in_vain == 3


@pytest.mark.parametrize(
    ("command", "requests"),
    [
        (("vm", "list"), 1),
        (("host", "list"), 1),
        (("group", "list"), 1),
        (("event", "list"), 1),
        (("event", "show", "last"), 2),  # the first one asks which event is the last
        (("rollout", "list"), 1),
    ],
)
def test_everything_that_is_watched_survives_a_restart(
    service: RestartedService,
    forewarn: Forewarn,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    requests: int,
) -> None:
    """It is asked for again when the service is back; Ctrl-C ends the command."""
    forewarn("vm", "freeze", "web-0")
    get = ControlClient.get
    asked: list[str] = []

    def get_and_stop(client: ControlClient, path: str, view: type[object]) -> object:
        asked.append(path)
        if service.asked_in_vain:
            raise KeyboardInterrupt
        found = get(client, path, view)
        if len(asked) == requests:
            service.stop()
        return found

    monkeypatch.setattr(ControlClient, "get", get_and_stop)
    shown = forewarn(*command, "--watch")
    service.stop()

    assert (shown.code, len(asked)) == (130, requests + 1)
    assert "trying again until Ctrl-C" in shown.err


def test_a_service_that_never_answered_is_an_error(forewarn: Forewarn) -> None:
    """The name of a directory may be wrong; nothing is waited for."""
    shown = forewarn("vm", "list", "--watch")

    assert shown.code == 3
    assert shown.err.startswith("forewarn: no service answers in ")
