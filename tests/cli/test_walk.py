"""Every command of the command line, walked through: help, wrong usage, and a service that is not there."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from forewarn.cli.root import ServiceChoice, cli
from tests.cli.conftest import Forewarn
from tests.cli.test_root import COMMANDS

NOWHERE = "http://127.0.0.1:1"
LOCAL = {
    "demo",
    "serve",
    "doctor",
    "network setup",
    "network check",
    "network teardown",
    "journal copy",
    "journal export",
    "journal import",
    "journal migrate",
    "journal verify",
    "backup",
    "restore",
    "emulate",
    "agent check",
    "agent test",
    "import libvirt",
}
"""Commands that speak to no service, or to another first."""
CHOSEN = {
    "rollout plan": ["--operation", "reboot"],
    "rollout start": ["--operation", "reboot"],
    "rollout edit": ["--parallel", "3"],
}
"""One of several options that a command requires."""
SAMPLES = {
    "labels": ["a=b"],
    "terms": ["approval=any"],
    "duration": ["10m"],
    "seconds": ["10m"],
    "file": ["fleet.toml"],
    "out": ["new"],
}


def groups(command: click.Command, path: str = "") -> Iterator[str]:
    """Yield every group, the command itself first."""
    if isinstance(command, click.Group):
        yield path
        context = click.Context(command)
        for name in command.list_commands(context):
            if below := command.get_command(context, name):
                yield from groups(below, f"{path} {name}".strip())


def sample(parameter: click.Parameter) -> list[str]:
    """Return words that a parameter accepts."""
    if parameter.name in SAMPLES:
        words = SAMPLES[parameter.name]
    elif isinstance(parameter.type, click.Choice):
        words = [str(parameter.type.choices[0])]
    else:
        words = ["1"]
    return words if isinstance(parameter, click.Argument) else [parameter.opts[0], *words]


def words(path: str) -> list[str]:
    """Return a command line with all that the command requires."""
    chosen = {"ids", "count", "names", "labels"}  # one of several is required, and the command itself looks at that
    given = [each for each in COMMANDS[path].params if each.required or each.name in chosen]
    yes = ["--yes"] if any("-y" in each.opts for each in COMMANDS[path].params) else []
    return [*path.split(), *(word for each in given for word in sample(each)), *CHOSEN.get(path, ()), *yes]


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No service runs in the data directory, and none at the address of the endpoint."""
    monkeypatch.setenv("SCHEDULED_EVENTS_URL", NOWHERE)
    monkeypatch.setenv("FOREWARN_TOKEN", "fw_x")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FOREWARN_AGENT_CONFIG", str(tmp_path / "agent.toml"))
    (tmp_path / "agent.toml").write_text(f'socket = "{tmp_path}/agent.sock"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.toml").write_text('[[vm]]\nname = "db"\n', encoding="utf-8")


def is_sentence(said: str) -> bool:
    return said.startswith("forewarn: ") and said.count("\n") == 1 and "Traceback" not in said


@pytest.mark.parametrize("path", [*groups(cli), *COMMANDS])
def test_help_fits_eighty_columns(forewarn: Forewarn, path: str) -> None:
    """Of groups and of commands."""
    ran = forewarn(*path.split(), "--help")

    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.end_to_end
@pytest.mark.parametrize("path", [*groups(cli), *COMMANDS])
def test_an_option_that_does_not_exist_is_wrong_usage(forewarn: Forewarn, path: str) -> None:
    """One sentence that names it."""
    ran = forewarn(*path.split(), "--no-such-option")

    assert (ran.code, ran.out) == (2, "")
    assert is_sentence(ran.err)
    assert "no such option '--no-such-option'" in ran.err


@pytest.mark.parametrize("path", COMMANDS)
def test_json_may_stand_last(path: str) -> None:
    """After everything that the command needs."""
    given = [*words(path)[len(path.split()) :], "--json"]
    root = click.Context(cli, obj=ServiceChoice(), **cli.context_settings)
    with COMMANDS[path].make_context(path, given, parent=root) as context:
        assert context.params["as_json"] is True


@pytest.mark.end_to_end
@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in LOCAL])
@pytest.mark.parametrize("last", [[], ["--json"]])
def test_a_service_that_is_not_there_is_three(forewarn: Forewarn, path: str, last: list[str]) -> None:
    """One sentence, and nothing on the standard output that a program might take for an answer."""
    where = ["--url", NOWHERE] if path == "login" else []
    ran = forewarn(*words(path), *where, *last)

    assert ran.code == 3, ran
    assert is_sentence(ran.err)
    assert not ran.out


@pytest.mark.end_to_end
@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in LOCAL])
def test_an_empty_argument_is_wrong_usage(forewarn: Forewarn, path: str) -> None:
    """A variable that is not set must not name something else."""
    for argument in (each for each in COMMANDS[path].params if isinstance(each, click.Argument)):
        others = [sample(each) for each in COMMANDS[path].params if each.required and each is not argument]
        ran = forewarn(*path.split(), "", *(word for words in others for word in words))

        assert ran.code == 2, ran
        assert is_sentence(ran.err)
