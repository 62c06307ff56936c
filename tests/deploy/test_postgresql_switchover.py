"""The recipe for a PostgreSQL switchover, with two real servers."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, HandlerResult
from forewarn.agent.handlers.command import CommandHandler
from forewarn.testing.handler_contract import HandlerTrial
from tests.cleaning import closed_on_failure
from tests.deploy.postgresql_pair import AS_POSTGRES, PROGRAMS, Pair, Server

pytestmark = pytest.mark.end_to_end

RECIPE = Path(__file__).parents[2] / "deploy" / "agent" / "recipes" / "postgresql-switchover"


class SwitchoverTrial(HandlerTrial):
    """The recipe as the command handler on ``left`` calls it."""

    def __init__(self, directory: Path, pair: Pair) -> None:
        super().__init__(directory)
        self.pair = pair

    def make(self, **more: object) -> CommandHandler:
        environment = {
            "PGDATA": str(self.pair.left.data),
            "PGBIN": str(PROGRAMS),
            "LOCAL": self.pair.left.connection,
            "PEER": self.pair.right.connection,
            "START": self.pair.left.start_command,
            "STOP": self.pair.left.stop_command,
            **{name: str(value) for name, value in more.items()},
        }
        settings: dict[str, object] = {
            "do": [str(RECIPE), "do"],
            "undo": [str(RECIPE), "undo"],
            "environment": environment,
        }
        return CommandHandler.from_settings(settings, self.directory)

    def is_ready(self) -> bool:
        return self.pair.right.is_primary() and not self.pair.left.is_primary()

    def hang(self) -> bool:
        return False

    def do(self, *, seconds: float = 60, **more: object) -> HandlerResult:
        return self.make(**more).do(self.task(Direction.DO, seconds=seconds))

    def undo(self, kept: dict[str, str] | None = None) -> HandlerResult:
        return self.make().undo(self.task(Direction.UNDO, kept=kept))


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


@pytest.fixture
def trial(tmp_path: Path, pair: Pair) -> Iterator[SwitchoverTrial]:
    pair.start()
    wait_until(lambda: follows(pair.right))
    yield SwitchoverTrial(tmp_path / "kept", pair)
    pair.stop()


def follows(server: Server) -> bool:
    return server.ask("select status from pg_stat_wal_receiver") == "streaming"


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(1200):
        if holds():
            return
        threading.Event().wait(0.1)
    raise AssertionError("it never became so")


def reason(answer: HandlerResult) -> str:
    assert isinstance(answer, HandlerFailed), answer
    return answer.reason


class Writer:
    """Writes rows one by one until the server goes away, and notes those that were acknowledged."""

    def __init__(self, server: Server) -> None:
        self.acknowledged: list[int] = []
        self._wrote = threading.Event()
        self._process = subprocess.Popen(
            [*AS_POSTGRES, "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", server.connection],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd="/",
        )
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()
        with closed_on_failure(self._process.kill):
            assert self._wrote.wait(90)

    def _write(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            for number in range(1_000_000):
                self._process.stdin.write(f"insert into rows values ({number}) returning n;\n")  # noqa: S608 a number
                self._process.stdin.flush()
                if not (line := self._process.stdout.readline()):
                    return
                self.acknowledged.append(int(line))
                if number == 100:
                    self._wrote.set()
        except BrokenPipeError:
            return

    def wait(self) -> None:
        self._thread.join(90)
        assert not self._thread.is_alive()
        with self._process:
            pass


def test_no_committed_row_is_lost(trial: SwitchoverTrial) -> None:
    """While rows are written the roles change; every acknowledged row is there, and the old primary follows."""
    pair = trial.pair
    writer = Writer(pair.left)
    answer = trial.do()
    writer.wait()

    assert answer == HandlerDone({"role": "standby"})
    there = {int(line) for line in pair.right.ask("select n from rows").split()}
    assert len(writer.acknowledged) > 100
    assert set(writer.acknowledged) <= there
    assert trial.is_ready()

    assert isinstance(trial.undo(answer.kept), HandlerDone)
    pair.right.ask("insert into rows values (-1)")
    wait_until(lambda: pair.left.ask("select count(*) from rows where n = -1") == "1")
    assert trial.is_ready()


def test_the_roles_change_back_at_the_other_vms_event(trial: SwitchoverTrial) -> None:
    """The recipe is the same on both: what was the standby hands over to what was the primary."""
    trial.do()
    pair = trial.pair
    wait_until(lambda: follows(pair.left))
    pair.left, pair.right = pair.right, pair.left

    assert trial.do() == HandlerDone({"role": "standby"})
    assert trial.is_ready()


def test_on_a_standby_nothing_is_done(trial: SwitchoverTrial) -> None:
    """Its VM may go; the primary is elsewhere."""
    pair = trial.pair
    pair.left, pair.right = pair.right, pair.left

    assert trial.do() == HandlerDone(detail="this server is a standby already")
    assert trial.undo() == HandlerDone()
    assert trial.is_ready()


def test_without_a_standby_the_primary_stays(trial: SwitchoverTrial) -> None:
    """A server that nobody follows is not stopped."""
    trial.pair.right.stop()

    assert "the other server is down, not a standby; nothing was done" in reason(trial.do())
    assert trial.pair.left.is_primary()


def test_a_standby_that_lags_is_not_promoted(trial: SwitchoverTrial) -> None:
    """If the last records do not arrive, the old primary is primary again, and the failure says why."""
    stop = f"{trial.pair.right.stop_command}; {trial.pair.left.stop_command}; {trial.pair.right.start_command}"
    # A standby that has not received the shutdown record can never replay it.
    answer = trial.do(STOP=stop, PATIENCE=1)

    assert reason(answer).endswith("the other server lacks the last records of this one, which is made primary again")
    assert trial.pair.left.is_primary()
    assert not trial.pair.right.is_primary()


def test_too_little_time_is_refused(trial: SwitchoverTrial) -> None:
    """A Preempt leaves no time for half a switchover."""
    assert "less than ten seconds are too few" in reason(trial.do(seconds=8))
    assert trial.pair.left.is_primary()


def test_done_again_after_a_kill_it_goes_on(trial: SwitchoverTrial) -> None:
    """Killed between stop and promotion, the next call promotes."""
    reason(trial.do(STOP=f"{trial.pair.left.stop_command}; kill -9 $PPID"))
    assert not trial.pair.left.runs()

    assert trial.do() == HandlerDone({"role": "standby"})
    assert trial.is_ready()


def test_undone_after_a_kill_the_primary_is_back(trial: SwitchoverTrial) -> None:
    """Killed between stop and promotion, undo starts the old primary."""
    reason(trial.do(STOP=f"{trial.pair.left.stop_command}; kill -9 $PPID"))

    assert isinstance(trial.undo(), HandlerDone)
    assert trial.pair.left.is_primary()
    assert not trial.pair.right.is_primary()


def test_killed_after_the_promotion_it_becomes_a_standby(trial: SwitchoverTrial) -> None:
    """There is no second primary, whether it is done again or undone."""
    reason(trial.do(START="kill -9 $PPID"))
    assert trial.pair.right.is_primary()

    assert isinstance(trial.undo(), HandlerDone)
    assert trial.is_ready()


def test_a_reboot_half_way_leaves_one_primary(trial: SwitchoverTrial) -> None:
    """Started at boot as a standby of a standby, the old primary is promoted by undo."""
    left = trial.pair.left
    reason(trial.do(STOP=f"{left.stop_command}; touch {left.data}/standby.signal; kill -9 $PPID"))
    left.start()
    assert not left.is_primary()

    assert isinstance(trial.undo(), HandlerDone)
    assert left.is_primary()
    assert not trial.pair.right.is_primary()


def test_killed_before_the_stop_it_begins_anew(trial: SwitchoverTrial) -> None:
    """Nothing has happened to the primary yet."""
    reason(trial.do(STOP="kill -9 $PPID"))
    assert trial.pair.left.is_primary()

    assert trial.do() == HandlerDone({"role": "standby"})
    assert trial.is_ready()


def test_cut_off_during_the_promotion_it_never_guesses(trial: SwitchoverTrial) -> None:
    """The other server may become primary yet, so this one does not; when a person has decided, it follows."""
    left, right = trial.pair.left, trial.pair.right
    reason(trial.do(STOP=f"{left.stop_command}; touch {left.data}/standby.signal; kill -9 $PPID"))
    (left.data / "forewarn-switchover").write_text("promoting\n")

    for answer in (trial.do(), trial.undo()):
        assert reason(answer).endswith("and it is standby; promote one of them by hand")
    assert not left.runs()
    right.ask("select pg_promote()")
    assert isinstance(trial.undo(), HandlerDone)
    assert trial.is_ready()
