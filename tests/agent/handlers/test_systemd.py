"""The systemd handler with a real systemd, in namespaces of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, HandlerResult
from forewarn.agent.handlers.systemd import SystemdHandler, SystemdSettings
from forewarn.core.errors import BadInput
from forewarn.testing.handler_contract import HandlerContract, HandlerTrial
from tests.agent.handlers.pages import HandlerPage
from tests.agent.handlers.systemd_machine import SystemdMachine

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdMachine]:
    units = {
        # It counts as started when it hears what it is to do about SIGTERM.
        "app": """ExecStartPre=/bin/rm -f /run/hears
ExecStart=/bin/sh -c "trap 'test -e /run/hang || exit 0' TERM; touch /run/hears; while :; do sleep 0.05; done"
ExecStartPost=/bin/sh -c 'until test -e /run/hears; do sleep 0.01; done'
TimeoutStopSec=60""",
        "idle": "ExecStart=/bin/sleep infinity",
        "refusing": "Type=oneshot\nExecStart=/bin/sh -c 'test ! -e /run/broken'\nRemainAfterExit=yes",
        "slow": "Type=oneshot\nExecStart=/bin/sh -c 'test ! -e /run/slow || sleep 60'\nRemainAfterExit=yes",
    }
    with SystemdMachine(tmp_path_factory.mktemp("systemd") / "units", **units) as machine:
        yield machine


class SystemdTrial(HandlerTrial):
    """The unit ``app`` is stopped."""

    def __init__(self, directory: Path, machine: SystemdMachine) -> None:
        super().__init__(directory)
        self.machine = machine
        machine.call("start", "app")

    def make(self, **more: object) -> SystemdHandler:
        settings: dict[str, object] = {"units": ["app"], "systemctl": self.machine.systemctl, "poll": "0.1s"}
        return SystemdHandler.from_settings(settings | more, self.directory)

    def is_ready(self) -> bool:
        return self.machine.state("app") == "inactive"

    def hang(self) -> bool:
        self.machine.run("touch", "/run/hang")
        return True

    def get_ready_by_hand(self) -> bool:
        self.machine.call("stop", "app")
        return True

    def do(self, **more: object) -> HandlerResult:
        return self.make(**more).do(self.task(Direction.DO))

    def undo(self, **more: object) -> HandlerResult:
        return self.make(**more).undo(self.task(Direction.UNDO))


@pytest.fixture
def trial(tmp_path: Path, machine: SystemdMachine) -> Iterator[SystemdTrial]:
    yield SystemdTrial(tmp_path / "kept", machine)
    machine.run("rm", "-f", "/run/hang")
    machine.run("sh", "-c", "systemctl kill --signal=KILL app || true")
    machine.call("stop", "app")


class TestSystemdHandler(HandlerContract):
    """It keeps the contract."""

    @pytest.fixture
    def trial(self, trial: SystemdTrial) -> HandlerTrial:
        return trial


def test_only_what_ran_is_started_again(trial: SystemdTrial) -> None:
    """A unit that was at rest before stays so."""
    units = ["app", "idle"]
    assert trial.do(units=units) == HandlerDone({"app.service": "active"}, "stopped: app.service")
    assert trial.undo(units=units) == HandlerDone(detail="started: app.service")

    assert trial.machine.state("app") == "active"
    assert trial.machine.state("idle") == "inactive"


def test_one_wrong_name_stops_nothing(trial: SystemdTrial) -> None:
    """All names are looked at first."""
    answer = trial.do(units=["app", "nosuch.service"])

    assert answer == HandlerFailed(
        "there is no systemd unit nosuch.service; check 'units' of the handler", final=True
    )
    assert trial.is_back()


def test_a_unit_that_does_not_stop_is_named(trial: SystemdTrial) -> None:
    """With what it is doing."""
    trial.hang()
    answer = trial.make().do(trial.task(Direction.DO, seconds=8))

    assert answer == HandlerFailed(
        "the deadline passed while app.service was still deactivating; see its TimeoutStopSec"
    )


def test_a_unit_that_fails_to_start_again_is_named(trial: SystemdTrial) -> None:
    """And undo can be tried again."""
    trial.machine.call("start", "refusing")
    assert isinstance(trial.do(units=["refusing"]), HandlerDone)
    trial.machine.run("touch", "/run/broken")
    failed = trial.undo(units=["refusing"])
    trial.machine.run("rm", "/run/broken")

    assert failed == HandlerFailed("refusing.service failed to start again; see: systemctl status refusing.service")
    assert trial.undo(units=["refusing"]) == HandlerDone(detail="started: refusing.service")


def test_a_slow_start_is_not_waited_for_for_ever(trial: SystemdTrial) -> None:
    """Undo fails by its deadline, and systemd goes on."""
    trial.machine.call("start", "slow")
    assert isinstance(trial.do(units=["slow"]), HandlerDone)
    trial.machine.run("touch", "/run/slow")
    answer = trial.make(units=["slow"]).undo(trial.task(Direction.UNDO, seconds=8))
    trial.machine.run("rm", "/run/slow")
    trial.machine.call("stop", "slow")

    assert answer == HandlerFailed("slow.service is still starting; systemd continues with it")


def test_without_systemd_it_says_so(trial: SystemdTrial) -> None:
    """No program, or one that answers something else."""
    assert trial.do(systemctl=["/no/systemctl"]) == HandlerFailed(
        "/no/systemctl is not installed; this handler needs a machine with systemd"
    )
    assert trial.do(systemctl=["echo"]) == HandlerFailed(
        "the output of systemctl show cannot be read; check 'systemctl' of the handler"
    )
    answer = trial.do(systemctl=["sh", "-c", "echo 'Failed to connect to bus' >&2; exit 1"])
    assert answer == HandlerFailed("sh show ended with exit code 1: Failed to connect to bus")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"units": []}, "setting 'units' of handler 'systemd'"),
        ({"units": ["--all"]}, "'--all' is not a unit name"),
        ({"units": ["app*"]}, "'app[*]' is not a unit name"),
        ({"units": ["forewarn-agent"]}, "forewarn-agent.service is the agent itself"),
        ({"systemctl": []}, "setting 'systemctl' of handler 'systemd'"),
        ({"poll": "1ms"}, "setting 'poll' of handler 'systemd'"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, settings: dict[str, object], sentence: str) -> None:
    """Each in one sentence that names the setting."""
    with pytest.raises(BadInput, match=sentence):
        SystemdHandler.from_settings({"units": ["app"]} | settings, tmp_path)


def test_the_page_says_what_the_code_does(tmp_path: Path) -> None:
    """Its table is complete, its example understood."""
    page = HandlerPage("systemd")
    page.assert_names_settings(SystemdSettings)
    page.assert_examples_are_understood(SystemdHandler, tmp_path)
