"""The haproxy handler with a real HAProxy, and real requests through it."""

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, HandlerResult
from forewarn.agent.handlers.haproxy import HaproxyHandler, HaproxySettings
from forewarn.agent.handlers.haproxy_socket import HaproxyServerState
from forewarn.core.errors import BadInput
from forewarn.testing.handler_contract import HandlerContract, HandlerTrial
from tests.agent.handlers.balancer import Balancer, wait_until
from tests.agent.handlers.pages import HandlerPage

pytestmark = pytest.mark.end_to_end


class HaproxyTrial(HandlerTrial):
    """Server ``web/a`` is drained."""

    def __init__(self, directory: Path, balancer: Balancer) -> None:
        super().__init__(directory)
        self.balancer = balancer

    def make(self, **more: object) -> HaproxyHandler:
        settings = {"socket": str(self.balancer.admin), "servers": ["web/a"], "poll": "0.05s"}
        return HaproxyHandler.from_settings(settings | more, self.directory)

    def is_ready(self) -> bool:
        return self.balancer.state("a") is HaproxyServerState.DRAIN

    def hang(self) -> bool:
        self.balancer.begin_slow("a")
        return True

    def get_ready_by_hand(self) -> bool:
        self.balancer.set_state("a", HaproxyServerState.DRAIN)
        return True

    def do(self, *, seconds: float | None = None, **more: object) -> HandlerResult:
        return self.make(**more).do(self.task(Direction.DO, seconds=seconds))

    def undo(
        self, *, seconds: float | None = None, kept: dict[str, str] | None = None, **more: object
    ) -> HandlerResult:
        return self.make(**more).undo(self.task(Direction.UNDO, seconds=seconds, kept=kept))

    def begin_to_do(self) -> Future[HandlerResult]:
        """Begin to drain in a thread; return when HAProxy knows of it."""
        answer: Future[HandlerResult] = Future()
        threading.Thread(target=lambda: answer.set_result(self.do()), daemon=True).start()
        wait_until(self.is_ready)
        return answer


@pytest.fixture
def balancer(tmp_path: Path) -> Iterator[Balancer]:
    balancer = Balancer(tmp_path)
    yield balancer
    balancer.close()


@pytest.fixture
def trial(tmp_path: Path, balancer: Balancer) -> HaproxyTrial:
    return HaproxyTrial(tmp_path / "kept", balancer)


class TestHaproxyHandler(HandlerContract):
    """It keeps the contract."""

    @pytest.fixture
    def trial(self, tmp_path: Path, balancer: Balancer) -> HandlerTrial:
        return HaproxyTrial(tmp_path / "kept", balancer)


def reason(answer: HandlerResult) -> str:
    assert isinstance(answer, HandlerFailed), answer
    return answer.reason


def test_a_drain_waits_for_the_last_session(trial: HaproxyTrial) -> None:
    """Who is being served is served to the end, and only then is the server free; new requests go to the other."""
    balancer = trial.balancer
    slow = balancer.begin_slow("a")
    answer = trial.begin_to_do()

    assert {balancer.get() for _ in range(6)} == {"b"}
    assert not answer.done()
    balancer.servers["a"].go_on.set()
    assert slow.result(20) == "a"
    done = answer.result(20)
    assert done == HandlerDone({"web/a": "ready"}, "0 sessions left (0 on web/a)")

    assert trial.undo(kept=done.kept) == HandlerDone(detail="ready again: web/a")
    assert {balancer.get() for _ in range(6)} == {"a", "b"}


def test_some_sessions_may_be_left(trial: HaproxyTrial) -> None:
    """With ``until_sessions`` the long-lived ones are not waited for, of all servers together."""
    trial.balancer.begin_slow("a")
    trial.balancer.begin_slow("b")

    answer = trial.do(servers=["web/a", "web/b"], until_sessions=2)
    assert isinstance(answer, HandlerDone)
    assert answer.detail == "2 sessions left (1 on web/a, 1 on web/b)"
    answer = trial.do(servers=["web/a", "web/b"], until_sessions=1, seconds=2)
    assert reason(answer).startswith("the deadline passed with 2 sessions left (1 on web/a, 1 on web/b); ")


def test_left_sessions_need_not_be_a_failure(trial: HaproxyTrial) -> None:
    """With ``on_deadline = "go-on"`` the drain is done when the time is over, and says what was left."""
    trial.balancer.begin_slow("a")

    answer = trial.do(on_deadline="go-on", seconds=2)
    assert answer == HandlerDone({"web/a": "ready"}, "the deadline passed with 1 sessions left (1 on web/a)")


@pytest.mark.parametrize("before", [HaproxyServerState.DRAIN, HaproxyServerState.MAINTENANCE])
def test_a_server_that_others_took_out_stays_out(trial: HaproxyTrial, before: HaproxyServerState) -> None:
    """It is waited for as well, but neither drained nor made ready."""
    trial.balancer.set_state("a", before)

    answer = trial.do(servers=["web/a", "web/b"])
    assert isinstance(answer, HandlerDone)
    assert answer.kept == {"web/b": "ready"}
    assert trial.undo(kept=answer.kept) == HandlerDone(detail="ready again: web/b")
    assert trial.balancer.state("a") is before


def test_maintenance_begun_meanwhile_stays(trial: HaproxyTrial) -> None:
    """An administrator who took the drained server into maintenance keeps it there."""
    answer = trial.do()
    trial.balancer.set_state("a", HaproxyServerState.MAINTENANCE)

    assert isinstance(answer, HandlerDone)
    assert trial.undo(kept=answer.kept) == HandlerDone()
    assert trial.balancer.state("a") is HaproxyServerState.MAINTENANCE


def test_what_was_drained_by_hand_after_the_event_stays(trial: HaproxyTrial) -> None:
    """Once put back, a server is nobody's claim: a later undo without anything kept leaves it alone."""
    trial.do()
    trial.undo()
    trial.balancer.set_state("a", HaproxyServerState.DRAIN)

    assert trial.undo() == HandlerDone()
    assert trial.is_ready()


def test_a_restarted_haproxy_has_forgotten_the_drain(trial: HaproxyTrial) -> None:
    """Undo has nothing to do then, and doing it again drains again."""
    answer = trial.do()
    assert isinstance(answer, HandlerDone)
    trial.balancer.stop()
    trial.balancer.start()

    assert trial.undo(kept=answer.kept) == HandlerDone()
    assert isinstance(trial.do(), HandlerDone)
    assert trial.is_ready()


def test_a_server_that_is_made_ready_meanwhile_is_no_success(trial: HaproxyTrial) -> None:
    """Nobody is told that the server is free while it takes new sessions."""
    trial.balancer.begin_slow("a")
    answer = trial.begin_to_do()
    trial.balancer.set_state("a", HaproxyServerState.READY)

    assert reason(answer.result(20)) == (
        "web/a accepts new sessions again: HAProxy was reloaded, or the server was made ready"
    )


def test_undo_waits_for_haproxy_to_start(trial: HaproxyTrial) -> None:
    """After a reboot the agent may be earlier than HAProxy."""
    kept = {"web/a": "ready"}
    trial.balancer.stop()
    starting = threading.Timer(0.3, trial.balancer.start)
    starting.start()

    assert trial.undo(kept=kept) == HandlerDone()
    starting.join()


def test_undo_of_a_server_that_is_gone_is_done(trial: HaproxyTrial) -> None:
    """Nothing is drained that is not there any more."""
    kept = {"web/gone": "ready", "gone/a": "ready"}

    assert trial.undo(kept=kept) == HandlerDone()


def test_the_socket_may_be_an_address(trial: HaproxyTrial) -> None:
    """An HAProxy on another machine is reached over TCP."""
    assert isinstance(trial.do(socket=trial.balancer.tcp), HandlerDone)
    assert trial.is_ready()


@pytest.mark.parametrize(
    ("servers", "sentence"),
    [
        (["web/a", "nope/a"], 'says "Can\'t find backend" about nope/a; '),
        (["web/a", "web/aa"], "has no server 'aa' in backend 'web' (it has a, b); did you mean 'a'?"),
    ],
)
def test_a_wrong_name_drains_nothing(trial: HaproxyTrial, servers: list[str], sentence: str) -> None:
    """One sentence names it, and the servers that are right stay as they were."""
    assert sentence in reason(trial.do(servers=servers))
    assert not trial.is_ready()


def test_a_socket_without_rights_is_told(trial: HaproxyTrial) -> None:
    """The remedy is HAProxy's own word for it."""
    assert "its 'stats socket' needs 'level admin'" in reason(trial.do(socket=str(trial.balancer.user)))


def test_a_missing_socket_is_told(trial: HaproxyTrial) -> None:
    """Both directions name the path."""
    assert reason(trial.do(socket="/no/such.sock")).startswith("there is no admin socket /no/such.sock; ")
    answer = trial.undo(socket="/no/such.sock", kept={"web/a": "ready"}, seconds=2)
    assert reason(answer).startswith("there is no admin socket /no/such.sock; ")


def test_a_socket_that_may_not_be_opened_is_told(trial: HaproxyTrial) -> None:
    """The remedy stands in HAProxy's configuration."""
    trial.balancer.admin.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65_534)  # nothing is forbidden to root
    try:
        answer = trial.do()
    finally:
        os.seteuid(user)

    assert reason(answer).endswith(
        "give the agent's user access with 'user', 'group' or 'mode' of HAProxy's 'stats socket'"
    )


def test_an_haproxy_that_is_gone_is_told(trial: HaproxyTrial) -> None:
    """A socket that was left behind has nobody behind it."""
    trial.balancer.stop()

    assert reason(trial.do()).endswith("cannot be reached: Connection refused; check that it runs")


def test_a_program_that_hangs_is_not_waited_for(trial: HaproxyTrial, tmp_path: Path) -> None:
    """Whatever listens there, the call ends by its deadline."""
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "deaf.sock"))
        deaf.listen()

        assert " did not answer within " in reason(trial.do(socket=str(tmp_path / "deaf.sock"), seconds=2))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "handler 'haproxy' needs the setting 'servers'"),
        ({"servers": []}, "setting 'servers' of handler 'haproxy': expected `array` of length >= 1"),
        ({"servers": ["vm-0"]}, "'vm-0' is not a valid server; write backend/server"),
        ({"servers": ["web/a; shutdown"]}, "'web/a; shutdown' is not a valid server"),
        ({"servers": ["web/a"], "socket": "admin.sock"}, "'admin.sock' is neither a path with a slash nor host:port"),
        ({"servers": ["web/a"], "socket": "::1:0"}, "'::1:0' is neither"),
        ({"servers": ["web/a"], "poll": "0s"}, "setting 'poll' of handler 'haproxy' is too short"),
        ({"servers": ["web/a"], "until_sessions": -1}, "setting 'until_sessions' of handler 'haproxy': expected "),
        ({"servers": ["web/a"], "on_deadline": "stop"}, "expected one of fail, go-on, got 'stop'"),
        ({"servers": ["web/a"], "sock": "x"}, "did you mean 'socket'?"),
    ],
)
def test_a_wrong_setting_is_refused(tmp_path: Path, settings: dict[str, object], sentence: str) -> None:
    """Each mistake is one sentence with its remedy, and no HAProxy is asked for it."""
    with pytest.raises(BadInput) as refused:
        HaproxyHandler.from_settings(settings, tmp_path)

    assert sentence in str(refused.value)


def test_its_page_tells_every_setting(tmp_path: Path) -> None:
    """And its example can be used."""
    page = HandlerPage("haproxy")

    page.assert_names_settings(HaproxySettings)
    page.assert_examples_are_understood(HaproxyHandler, tmp_path)
