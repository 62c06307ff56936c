"""The command handler: programs of the VM's owner do, undo and tell."""

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, HandlerNotBegun, HandlerUnknown
from forewarn.agent.handlers.command import LONGEST_VALUE, CommandHandler, CommandHandlerSettings, environment_of
from forewarn.core.errors import BadInput
from forewarn.testing.handler_contract import HandlerContract, HandlerTrial
from tests.agent.handlers.pages import HandlerPage

pytestmark = pytest.mark.end_to_end

PAGE = HandlerPage("command")


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


class CommandTrial(HandlerTrial):
    """A health file that a load balancer looks at is taken away."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.place = directory.parent
        self.health = self.place / "healthy"
        self.health.write_text("yes")
        self.outcome: list[str] = []

    def make(self, **more: object) -> CommandHandler:
        settings: dict[str, object] = {
            "do": sh("while [ -e hanging ]; do sleep 0.1; done; rm -f healthy; touch did"),
            "undo": sh("echo yes > healthy"),
            "directory": str(self.place),
            "outcome": self.outcome,
        }
        return CommandHandler.from_settings(settings | more, self.directory)

    def is_ready(self) -> bool:
        return not self.health.exists()

    def hang(self) -> bool:
        (self.place / "hanging").touch()
        return True

    def do(self, script: str, **more: object) -> HandlerDone | HandlerFailed:
        return self.make(do=sh(script), **more).do(self.task(Direction.DO))


class RememberingTrial(CommandTrial):
    """A program that is not repeated, and can tell what came of it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.outcome = sh("test -e did || exit 3")


@pytest.fixture
def trial(tmp_path: Path) -> CommandTrial:
    return CommandTrial(tmp_path / "kept")


class TestCommandHandler(HandlerContract):
    """Programs that may be repeated."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> HandlerTrial:
        return CommandTrial(tmp_path / "kept")


class TestRememberingCommandHandler(HandlerContract):
    """Programs that are not repeated, but asked."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> HandlerTrial:
        return RememberingTrial(tmp_path / "kept")


def test_the_environment_tells_the_event(trial: CommandTrial) -> None:
    """Azure's words, the VM's own name, the direction and the time there is."""
    task = trial.task(Direction.UNDO, seconds=100)
    words = environment_of(task)

    assert words["FOREWARN_EVENT_ID"] == task.event.id.upper()
    assert words["FOREWARN_EVENT_TYPE"] == "Reboot"
    assert words["FOREWARN_EVENT_STATUS"] == "Scheduled"
    assert words["FOREWARN_EVENT_SOURCE"] == "Platform"
    assert words["FOREWARN_NOT_BEFORE"].endswith(" GMT")
    assert words["FOREWARN_DURATION"] == "-1"
    assert words["FOREWARN_DESCRIPTION"] == "Host server is undergoing maintenance."
    assert words["FOREWARN_RESOURCES"] == "web-0 web-1"
    assert words["FOREWARN_VM"] == "web-0"
    assert words["FOREWARN_DIRECTION"] == "undo"
    assert datetime.fromisoformat(words["FOREWARN_DEADLINE"]) > datetime.now(UTC)
    assert 90 <= int(words["FOREWARN_SECONDS_LEFT"]) <= 100


def test_a_service_that_says_too_much_keeps_no_program_from_running(trial: CommandTrial) -> None:
    """A description without end, or with a NUL, is cut in the environment; on stdin it is whole."""
    event = msgspec.structs.replace(trial.event(), description="\u20ac" * 200_000 + "\0", resources=("vm",) * 50_000)
    task = trial.task(Direction.DO, event=event)

    assert trial.make(do=sh('cat | wc -c; printf "%s" "$FOREWARN_DESCRIPTION" | wc -c')).do(task) == HandlerDone(
        detail=str(3 * LONGEST_VALUE)
    )


def test_the_page_names_every_variable(trial: CommandTrial) -> None:
    """The table of variables is what a program finds, beside what was kept."""
    found = re.findall(r"^\| `(FOREWARN_[A-Z_]+)`", PAGE.text, re.MULTILINE)

    assert found == list(environment_of(trial.task(Direction.DO)))


def test_the_page_says_what_the_code_does(tmp_path: Path) -> None:
    """Its table of settings is complete, its example understood, its figure right."""
    PAGE.assert_names_settings(CommandHandlerSettings)
    PAGE.assert_examples_are_understood(CommandHandler, tmp_path)

    assert f"{LONGEST_VALUE:,} characters" in PAGE.text


def test_the_event_is_on_stdin(trial: CommandTrial) -> None:
    """As one JSON object, with the keys of the document."""
    trial.do("cat > event.json")
    event = msgspec.json.decode((trial.place / "event.json").read_bytes())

    assert event["EventType"] == "Reboot"
    assert event["Resources"] == ["web-0", "web-1"]


def test_what_do_prints_as_json_undo_finds(trial: CommandTrial) -> None:
    """Each key becomes a variable; what is no text is written as JSON."""
    done = trial.do("""echo '{"role": "primary", "port": 5432, "was_up": true}'""")
    handler = trial.make(undo=sh('printf "%s " "$FOREWARN_KEPT_ROLE" $FOREWARN_KEPT_PORT $FOREWARN_KEPT_WAS_UP'))

    assert done == HandlerDone({"role": "primary", "port": "5432", "was_up": "true"})
    assert handler.undo(trial.task(Direction.UNDO, kept=done.kept)) == HandlerDone(detail="primary 5432 true")


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        ("echo first; echo last", "last"),
        ("printf '{\"a\": [1]}'", "its output cannot be read, and nothing is stored for undo: "),
        ("printf '{\"a b\": 1}'", "not stored: 'a b'; a name may contain letters, digits and _ only"),
        ('printf \'{"a": "%020000d"}\' 1', "its output is longer than 16 KiB, and nothing is stored for undo"),
        ("printf '{'; head -c 200000 /dev/zero", "its output cannot be read, and nothing is stored for undo: "),
    ],
)
def test_other_words_are_the_detail(trial: CommandTrial, script: str, detail: str) -> None:
    """What cannot be kept is told, and what was done stays done."""
    done = trial.do(script)

    assert isinstance(done, HandlerDone)
    assert not done.kept
    assert done.detail.startswith(detail)


def test_a_failure_tells_the_last_line_of_stderr(trial: CommandTrial) -> None:
    """With the program's name and its exit code."""
    assert trial.do("echo 'no route' >&2; exit 7") == HandlerFailed("sh ended with exit code 7: no route")


def test_a_failure_does_not_repeat_what_the_environment_holds(trial: CommandTrial) -> None:
    """It goes into log and memory; what is short is a word, and stays."""
    handler = trial.make(do=sh('echo "no $KEY $ZONE" >&2; exit 1'), environment={"KEY": "PLANTEDkey", "ZONE": "eu-1"})

    assert handler.do(trial.task(Direction.DO)) == HandlerFailed("sh ended with exit code 1: no … eu-1")


def test_a_missing_program_is_a_failure_that_names_it(trial: CommandTrial) -> None:
    """It is looked for when it is needed, so that a configuration can be checked anywhere."""
    answer = trial.make(do=["/no/such/program"]).do(trial.task(Direction.DO))

    assert answer == HandlerFailed("there is no program /no/such/program; give its full path")


def test_without_undo_nothing_is_called(trial: CommandTrial) -> None:
    """Not everything can be undone."""
    assert trial.make(undo=[]).undo(trial.task(Direction.UNDO)) == HandlerDone()


def test_its_own_environment_and_directory(trial: CommandTrial) -> None:
    """Settings reach the program; the event's words come first."""
    done = trial.do('echo "$PWD $SIDE $FOREWARN_VM"', environment={"SIDE": "left", "FOREWARN_VM": "x"})

    assert done == HandlerDone(detail=f"{trial.place} left web-0")


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("""echo '{"a": "b"}'""", HandlerDone({"a": "b"})),
        ("echo broke >&2; exit 1", HandlerFailed("broke")),
        ("exit 1", HandlerFailed("sh reports a failure")),
        ("exit 3", HandlerNotBegun()),
        ("echo hm >&2; exit 4", HandlerUnknown("sh ended with exit code 4: hm")),
        ("kill -9 $$", HandlerUnknown("sh was killed by signal 9")),
    ],
)
def test_the_exit_code_tells_the_outcome(trial: CommandTrial, script: str, outcome: object) -> None:
    """0 done, 1 failed, 3 not begun, any other unknowable."""
    handler = trial.make(outcome=sh(script))

    assert not handler.repeats
    assert handler.outcome_of(trial.task(Direction.DO)) == outcome


def test_nobody_to_ask_is_unknowable(trial: CommandTrial) -> None:
    """So it is where a program is named that is not there, or does not end."""
    task = trial.task(Direction.DO, seconds=0.5)

    assert isinstance(trial.make(repeats=False).outcome_of(task), HandlerUnknown)
    assert isinstance(trial.make(outcome=["/no/such"]).outcome_of(task), HandlerUnknown)
    assert isinstance(trial.make(outcome=["sleep", "60"]).outcome_of(task), HandlerUnknown)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"do": []}, "setting 'do' of handler 'command'"),
        ({"do": "reboot"}, "setting 'do' of handler 'command': expected `array`"),
        ({"undo": [""]}, "setting 'undo' of handler 'command': give the path"),
        ({"do": ["a\0"]}, "setting 'do' of handler 'command': give the path"),
        ({"environment": {"A=B": "1"}}, "'A=B' cannot be set"),
        ({"outcome": ["x"], "repeats": True}, "setting 'repeats' of handler 'command'"),
        ({"grace": "soon"}, "setting 'grace' of handler 'command': expected a duration"),
    ],
)
def test_wrong_settings_are_refused(trial: CommandTrial, settings: dict[str, object], sentence: str) -> None:
    """Each in one sentence that names the setting."""
    with pytest.raises(BadInput, match=re.escape(sentence)):
        trial.make(**settings)
