"""The signal handler with real processes: they checkpoint, end and start again."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, HandlerResult
from forewarn.agent.handlers.signal import SignalHandler, SignalSettings
from forewarn.agent.handlers.undo_log import UndoLog
from forewarn.core.errors import BadInput
from forewarn.testing.handler_contract import HandlerContract, HandlerTrial
from tests.agent.handlers.pages import HandlerPage

pytestmark = pytest.mark.end_to_end

# Writes its id; on SIGUSR1 a checkpoint, on SIGUSR2 that it goes on, on SIGTERM it ends, unless it hangs.
# What is asked it answers by taking the question away.
APPLICATION = """#!/bin/sh
cd "$(dirname "$0")"
trap 'test -e hanging || touch checkpoint' USR1
trap 'rm -f checkpoint' USR2
trap 'test -e hanging || { rm pid; exit 0; }' TERM
echo $$ > pid
while :; do sleep 0.02; rm -f question; done
"""


class SignalTrial(HandlerTrial):
    """The application has ended."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.place = directory.parent
        self.program = self.place / "application"
        self.program.write_text(APPLICATION)
        self.program.chmod(0o755)
        self.pid_file = self.place / "pid"
        detached = f"setsid {self.program} </dev/null >/dev/null 2>&1 &"
        self.starting = f"{detached} until [ -s {self.pid_file} ]; do sleep 0.01; done"
        self.start()

    def settings(self) -> dict[str, object]:
        return {"start": ["sh", "-c", self.starting]}

    def make(self, **more: object) -> SignalHandler:
        settings = {"pid_file": str(self.pid_file), "poll": "0.02s"} | self.settings() | more
        return SignalHandler.from_settings(settings, self.directory)

    def start(self) -> None:
        subprocess.run(["sh", "-c", self.starting], check=True, timeout=20)

    def end(self) -> None:
        """End the application, whatever it hangs on."""
        if self.pid_file.exists():
            os.kill(int(self.pid_file.read_text()), signal.SIGKILL)
            self.pid_file.unlink()

    def is_ready(self) -> bool:
        return not self.pid_file.exists()

    def hang(self) -> bool:
        (self.place / "hanging").touch()
        return True

    def get_ready_by_hand(self) -> bool:
        self.end()
        return True

    def do(self, **more: object) -> HandlerResult:
        return self.make(**more).do(self.task(Direction.DO))


class CheckpointTrial(SignalTrial):
    """The application has written its checkpoint."""

    def settings(self) -> dict[str, object]:
        return {"file": str(self.place / "checkpoint"), "undo_signal": "SIGUSR2"}

    def is_ready(self) -> bool:
        question = self.place / "question"
        for _ in range(2):  # a signal is heard after what is being done, and before the next question is taken away
            question.touch()
            while question.exists():
                time.sleep(0.01)
        return (self.place / "checkpoint").exists()

    def get_ready_by_hand(self) -> bool:
        return False


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[SignalTrial]:
    trial = SignalTrial(tmp_path / "kept")
    yield trial
    trial.end()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[CheckpointTrial]:
    trial = CheckpointTrial(tmp_path / "kept")
    yield trial
    trial.end()


class TestEnding(HandlerContract):
    """A process that is to end, and is started again."""

    @pytest.fixture
    def trial(self, trial: SignalTrial) -> HandlerTrial:
        return trial


class TestCheckpoint(HandlerContract):
    """A process that is to write a file, and go on."""

    @pytest.fixture
    def trial(self, checkpoint: CheckpointTrial) -> HandlerTrial:
        return checkpoint


def test_only_a_new_file_counts(checkpoint: CheckpointTrial) -> None:
    """A checkpoint of an earlier event is not taken for this one's."""
    old = checkpoint.place / "checkpoint"
    old.touch()
    os.utime(old, (1, 1))
    checkpoint.hang()
    answer = checkpoint.make().do(checkpoint.task(Direction.DO, seconds=2))

    assert answer == HandlerFailed(f"the deadline passed while {old} was not written yet")


def test_two_events_wait_for_a_checkpoint_each(checkpoint: CheckpointTrial) -> None:
    """What the first was given is too old for the second, and undoing one forgets nothing of the other."""
    handler, first, second = checkpoint.make(), checkpoint.event(), checkpoint.event()
    assert isinstance(handler.do(checkpoint.task(Direction.DO, event=first)), HandlerDone)
    os.utime(checkpoint.place / "checkpoint", (1, 1))
    checkpoint.hang()
    answer = handler.do(checkpoint.task(Direction.DO, event=second, seconds=2))
    handler.undo(checkpoint.task(Direction.UNDO, event=first))
    claims = UndoLog(checkpoint.directory).read()

    assert isinstance(answer, HandlerFailed)
    assert claims
    assert all(key.startswith(second.id) for key in claims)


def test_a_process_that_ends_without_its_file_failed(checkpoint: CheckpointTrial) -> None:
    """Its end is not what was waited for."""
    answer = checkpoint.do(signal="KILL")
    checkpoint.pid_file.unlink()

    assert answer == HandlerFailed(f"the process ended and did not write {checkpoint.place / 'checkpoint'}")


def test_nothing_need_be_waited_for(trial: SignalTrial) -> None:
    """With wait = false the signal is all."""
    id_ = trial.pid_file.read_text().strip()

    assert trial.do(signal="SIGCONT", wait=False).detail == f"signalled {id_}"  # type: ignore[union-attr]
    assert trial.is_back()


@pytest.mark.parametrize("how", [{"name": "application"}, {"command_line": "*/application", "pid_file": ""}])
def test_it_is_found_by_its_name_or_its_words(trial: SignalTrial, how: dict[str, object]) -> None:
    """The program's name alone, or with the file; or all its words."""
    words = str(how.get("command_line", "")).replace("*", f"*{trial.place}")
    trial.do(**how | {"command_line": words})

    assert trial.is_ready()


def test_another_program_in_the_file_is_left_alone(trial: SignalTrial) -> None:
    """With a name, the process in the file must have it."""
    answer = trial.do(name="postgres", missing="fail")

    assert answer == HandlerFailed('there is no process postgres; start it, or set missing = "done" for the handler')
    assert trial.is_back()


def test_the_agent_itself_and_init_are_never_signalled(trial: SignalTrial) -> None:
    """Whatever a file says."""
    file = trial.place / "other"
    for id_ in (1, os.getpid()):
        file.write_text(str(id_))
        os.utime(file, (2**32, 2**32))
        # A signal that harms nobody, should this rule be broken.
        answer = trial.do(pid_file=str(file), signal="SIGCONT", wait=False)
        assert answer == HandlerDone(detail=f"there is no process {file}")


def test_after_a_reboot_nobody_is_signalled(checkpoint: CheckpointTrial) -> None:
    """The same id may be anybody's then."""
    event = checkpoint.event()
    done = checkpoint.make().do(checkpoint.task(Direction.DO, event=event))
    assert isinstance(done, HandlerDone)
    claims = UndoLog(checkpoint.directory)
    before = {key: "an earlier boot" if " " in key else value for key, value in done.kept.items()}
    claims.write(before)
    answer = checkpoint.make().undo(checkpoint.task(Direction.UNDO, event=event, kept=before))

    assert answer == HandlerDone()
    assert checkpoint.is_ready()


def test_a_start_that_fails_is_told_and_tried_again(trial: SignalTrial) -> None:
    """What was ended by us is not forgotten before it runs."""
    trial.do()
    undone = trial.task(Direction.UNDO)
    failed = trial.make(start=["sh", "-c", "echo no >&2; exit 1"]).undo(undone)
    missing = trial.make(start=["/no/such"]).undo(undone)

    assert failed == HandlerFailed("sh ended with exit code 1: no")
    assert missing == HandlerFailed("there is no program /no/such; give its full path")
    assert trial.make().undo(undone) == HandlerDone(detail="ran sh")
    assert trial.is_back()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"pid_file": ""}, "handler 'signal' has no process"),
        ({"command_line": "x"}, "handler 'signal' has no process"),
        ({"signal": "SIGFOO"}, "setting 'signal' of handler 'signal': unknown signal 'SIGFOO'"),
        ({"undo_signal": "SIG_DFL"}, "setting 'undo_signal' of handler 'signal'"),
        ({"start": [""]}, "setting 'start' of handler 'signal'"),
        ({"poll": "1ms"}, "setting 'poll' of handler 'signal'"),
        ({"missing": "maybe"}, "setting 'missing' of handler 'signal'"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, settings: dict[str, object], sentence: str) -> None:
    """Each in one sentence that names the setting."""
    with pytest.raises(BadInput, match=sentence):
        SignalHandler.from_settings({"pid_file": "/run/app.pid"} | settings, tmp_path)


def test_the_page_says_what_the_code_does(tmp_path: Path) -> None:
    """Its table is complete, its examples understood."""
    page = HandlerPage("signal")
    page.assert_names_settings(SignalSettings)
    page.assert_examples_are_understood(SignalHandler, tmp_path)
