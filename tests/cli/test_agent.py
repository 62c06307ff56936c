"""``forewarn agent`` as its users meet it: what it prints, what it exits with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn import plugin_loader
from forewarn.cli.root import run

CONFIG = """
socket = "{socket}"
state = "{state}"

[[rules]]
name = "short freezes pass"
types = ["Freeze"]
duration_at_most = "10s"
approval = "never"

[[rules]]
name = "drain"
handlers = ["first", ["second", "third"]]

[handlers.first]
kind = "command"
do = ["{first}"]

[handlers.second]
kind = "command"
do = ["true"]
undo = ["true"]

[handlers.third]
kind = "log"
to = "file"
path = "{state}/events.jsonl"
"""


FAULTLESS = """
class Handler:
    repeats = True
    shared = False
    def do(self, task): ...
    def undo(self, task): ...
    def outcome_of(self, task): ...
    def close(self): ...
    @classmethod
    def from_settings(cls, settings, directory): return cls()
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write(tmp_path, "true")


def write(directory: Path, first: str) -> Path:
    path = directory / "agent.toml"
    state = directory / "state"
    state.mkdir(exist_ok=True)
    path.write_text(CONFIG.format(socket=directory / "socket", state=state, first=first))
    return path


def test_check_shows_what_would_be_done(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each rule, its handlers in their order."""
    assert run(["agent", "check", "--config", str(config)]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "RULE                TYPES   CONCERNS  APPROVAL    HANDLERS",
        "short freezes pass  Freeze  me        never       none",
        "drain               all     me        when-ready  first, then second and third",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[handlers.a]\nkind = 'comand'", "line 2: [handlers.a]: there is no handler 'comand'"),
        ("[handlers.a]\nkind = 'command'\ndoo = []", "line 3: [handlers.a]: handler 'command' has no setting 'doo'"),
        ("[handlers.a]\nkind = 'command'\n\ndo = 'x'", "line 4: [handlers.a]: setting 'do' of handler 'command'"),
        ("[handlers.a]\nkind = 'command'", "line 1: [handlers.a]: handler 'command' needs the setting 'do'\n"),
        ("[rules", "line 1: "),
    ],
)
def test_check_names_the_mistake(
    tmp_path: Path, text: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its line, and exit code 2."""
    path = tmp_path / "agent.toml"
    path.write_text(text)

    assert run(["agent", "check", "--config", str(path)]) == 2
    assert f"agent.toml, {sentence}" in capsys.readouterr().err


def test_check_notes_what_can_hardly_be_meant(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is no mistake, so the exit code is 0, and the table stays as it is."""
    config.write_text(config.read_text() + "\n[handlers.forgotten]\nkind = 'command'\ndo = ['true']\n")

    assert run(["agent", "check", "--config", str(config)]) == 0
    assert capsys.readouterr().err.startswith("note: handler 'forgotten' is in no rule and is never called\nnote: ")


def test_check_names_the_handlers_that_now_hold_the_approval(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that prepare this VM and do not set on_failure; a handler that only tells others does not hold."""
    config.write_text(config.read_text().replace('do = ["true"]\nundo', 'on_failure = "go-on"\ndo = ["true"]\nundo'))

    assert run(["agent", "check", "--wide", "--config", str(config)]) == 0
    (note,) = capsys.readouterr().err.splitlines()
    assert note.startswith(
        "note: no on_failure is set for first: the default is hold, in earlier versions it was go-on."
    )


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("    undo = None\n", "has no undo(task)"),
        ("    undo = 7\n", "undo is not a method"),
        ("    def undo(self): ...\n", "undo cannot be called as undo(task)"),
        ("    async def undo(self, task): ...\n", "undo is a coroutine"),
        ("    repeats = None\n", "has no repeats = True or False"),
        ("    shared = 'yes'\n", "shared must be True or False"),
        ("    @property\n    def close(self): raise OSError\n", "has no close()"),
        ("    def __init__(self): raise OSError('no disk')\n", "cannot be created: OSError: no disk"),
        ("    def __init__(self): raise SystemExit(3)\n", "cannot be created: SystemExit: 3"),
    ],
)
def test_check_refuses_a_handler_that_lacks_a_member(
    body: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the handler, the line of the configuration, and the file and line of the handler's class."""
    module = tmp_path / "faulty.py"
    module.write_text(f"{FAULTLESS}{body}")
    made: dict[str, object] = {}
    exec(compile(module.read_text(), module, "exec"), made)  # noqa: S102 - written above
    monkeypatch.setattr(plugin_loader, "load", lambda *_: made["Handler"])
    path = tmp_path / "agent.toml"
    path.write_text("[[rules]]\nhandlers = ['leave']\n\n[handlers.leave]\ntimeout = '5s'\nkind = 'faulty'\n")

    assert run(["agent", "check", "--wide", "--config", str(path)]) == 2
    said = capsys.readouterr().err
    assert "agent.toml, line 6: [handlers.leave]: handler 'faulty'" in said
    assert named in said


def test_a_misspelt_term_of_a_handler_is_recognised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Though it is no setting of the handler's own, the nearest is named."""
    path = tmp_path / "agent.toml"
    path.write_text("[handlers.a]\nkind = 'command'\ndo = ['true']\ntimout = '5s'\n")

    assert run(["agent", "check", "--config", str(path)]) == 2
    said = capsys.readouterr().err
    assert "agent.toml, line 4: [handlers.a]: handler 'command' has no setting 'timout'" in said
    assert said.endswith("; did you mean 'timeout'?\n")


def test_without_a_configuration_it_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And how to name one."""
    monkeypatch.chdir(tmp_path)

    assert run(["agent"]) == 2
    assert "there is no agent.toml here, and no /etc/forewarn/agent.toml" in capsys.readouterr().err


def test_a_flag_before_a_subcommand_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would mean nothing there."""
    assert run(["agent", "--config", str(config), "check"]) == 2
    assert "--config is for running the agent" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "listen"])
def test_without_an_agent_there_is_nobody_to_ask(
    config: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, and the place that was tried."""
    assert run(["agent", command, "--config", str(config)]) == 3
    assert str(config.with_name("socket")) in capsys.readouterr().err


@pytest.mark.end_to_end
def test_a_coordinator_that_says_no_is_not_waited_for(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It might do so for a quarter of an hour; the event comes without the approval, and undo complete."""
    decide = 'approver = "coordinator"\ncoordinator = ["sh", "-c", "echo two are away; exit 1"]\n'
    config.write_text(decide + config.read_text())

    assert run(["agent", "test", "reboot", "--config", str(config)]) == 0
    said = capsys.readouterr().out
    assert said.rpartition("; it is asked again at ")[0].endswith(
        "rule drain, approval waiting: the coordinator does not agree yet: two are away"
    )
    assert "undone" in said


@pytest.mark.end_to_end
def test_a_trial_that_is_stopped_says_that_nothing_is_put_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 1: nobody knows what would have come of it."""
    interrupt = tmp_path / "interrupt"
    interrupt.write_text(f"#!/bin/sh\nkill -INT {os.getpid()}\nsleep 30\n")
    interrupt.chmod(0o755)
    config = write(tmp_path, str(interrupt))

    assert run(["agent", "test", "reboot", "--config", str(config)]) == 1
    assert capsys.readouterr().out.endswith("stopped before it was over: put back by hand what was done\n")


@pytest.mark.end_to_end
def test_a_trial_gives_up_when_its_time_is_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says for what it waited; exit code 1."""
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 600\n")
    hanging.chmod(0o755)
    config = write(tmp_path, str(hanging))

    assert run(["agent", "test", "reboot", "--config", str(config), "--timeout", "2s"]) == 1
    assert "gave up after 2 s, waiting for first to do\n" in capsys.readouterr().out


@pytest.mark.end_to_end
def test_a_trial_ends_when_told_to_even_if_its_service_hangs(config: Path) -> None:
    """SIGTERM ends it within seconds, whatever the emulated service does."""
    hang = (
        "import sys, threading, forewarn.emulator.emulator as e\n"
        "def hang(self, step): print('hangs', flush=True); threading.Event().wait()\n"
        "e.Emulator.advance = hang\n"
        "from forewarn.cli.root import run\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", hang, "agent", "test", "reboot", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as trial:
        try:
            assert trial.stdout is not None
            assert trial.stdout.readline() == "hangs\n"
            trial.terminate()
            said, _ = trial.communicate(timeout=30)
        finally:
            trial.kill()

    assert trial.returncode == 1
    assert said.endswith("stopped before it was over: put back by hand what was done\n")


@pytest.mark.end_to_end
@pytest.mark.parametrize("event", ["reboot", "Redeploy", "preempt", "terminate"])
def test_an_event_is_played_through_the_handlers(
    config: Path, event: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is done, and undone unless the VM is gone then."""
    assert run(["agent", "test", event, "--config", str(config), "--json"]) == 0

    said = json.loads(capsys.readouterr().out)
    does = ["do"] if event in ("preempt", "terminate") else ["do", "undo"]
    assert {(step["handler"], step["direction"]) for step in said["steps"]} == {
        (handler, direction) for direction in does for handler in ("first", "second", "third")
    }
    assert (said["rule"], said["approval"]) == ("drain", "sent")


@pytest.mark.end_to_end
def test_a_failure_is_shown_and_is_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table says which handler it was."""
    path = write(tmp_path, "false")

    assert run(["agent", "test", "reboot", "--config", str(path)]) == 1
    assert "first    do    failed" in capsys.readouterr().out


@pytest.mark.end_to_end
def test_an_event_that_is_let_pass_is_played_too(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is done about it, and nothing approved."""
    assert run(["agent", "test", "freeze", "--config", str(config)]) == 0
    assert capsys.readouterr().out.split() == (
        ["the", "rule", "has", "no", "handlers", "rule", "short", "freezes", "pass,", "approval", "never"]
    )


@pytest.mark.end_to_end
def test_a_dry_run_calls_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Even a handler that would fail is well then."""
    path = write(tmp_path, "false")

    assert run(["agent", "test", "reboot", "--config", str(path), "--dry-run"]) == 0
    assert "dry run: nothing was done" in capsys.readouterr().out


@pytest.mark.end_to_end
def test_an_event_may_be_announced_later_than_on_azure(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So that somebody can see what is left out of five seconds."""
    config.write_text(config.read_text() + 'takes = "10s"\n')

    assert run(["agent", "test", "redeploy", "--config", str(config), "--notice", "5s"]) == 1
    assert "it takes 10s, longer than the time left before NotBefore" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("event", "notice", "sentence"),
    [
        ("reboot", "soon", '--notice is a duration such as "20s" or "15m", and not \'soon\''),
        ("terminate", "20s", "--notice is for the other events"),
    ],
)
def test_a_notice_that_cannot_be_given_is_refused(
    config: Path, event: str, notice: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence, before anything is called."""
    assert run(["agent", "test", event, "--config", str(config), "--notice", notice]) == 2
    assert sentence in capsys.readouterr().err
