"""How every command starts and ends."""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from forewarn import __version__
from forewarn.cli import root
from forewarn.cli.root import cli, run
from forewarn.core.errors import BadInput, ForewarnError, LimitReached, Refused, Unavailable, Unknown
from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness


def commands(command: click.Command, context: click.Context, path: str) -> dict[str, click.Command]:
    if not isinstance(command, click.Group):
        return {path: command}
    found: dict[str, click.Command] = {}
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        found |= commands(below, context, f"{path} {name}".strip())
    return found


COMMANDS = commands(cli, click.Context(cli), "")
OPERATORS = {
    name
    for title in ("Describe the fleet", "Restart and maintain", "Access and notifications")
    for name in root._SECTIONS[title]
} - {"login"}
"""The commands that speak to a control plane; ``login`` only saves its address."""


@pytest.mark.parametrize(
    ("error", "code"),
    [(Refused, 1), (Unknown, 1), (BadInput, 2), (Unavailable, 3), (LimitReached, 4), (ForewarnError, 1)],
)
def test_the_exit_code_says_whose_fault_it_was(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: type[ForewarnError], code: int
) -> None:
    """0 done, 1 refused by the rules, 2 wrong usage, 3 service not reachable, 4 limit reached."""

    def fail(*_: object, **__: object) -> None:
        raise error("why")

    monkeypatch.setattr(cli, "main", fail)

    assert run([]) == code
    assert capsys.readouterr().err == "forewarn: why\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["event", "lst"], "no such command 'lst'; did you mean 'list'?\n"),
        (["vm", "show"], "missing argument 'NAME'; see 'forewarn vm show --help'"),
        (["vm", "restart"], "say which VMs: names, globs such as 'web-*', an option, or --all; see 'forewarn vm"),
        (["--json", "vm", "list"], "--json stands after the command: forewarn vm list --json\n"),
        (["vm", "--wide", "list"], "--wide stands after the command: forewarn vm list --wide\n"),
        (["vm", "list", "--jsn"], "no such option '--jsn'; did you mean '--json'?\n"),
        (
            ["vm", "freeze", "a", "--duration", "x"],
            "invalid value for '--duration': 'x' is not a whole number",
        ),
        (
            ["vm", "freeze", "a", "--not-before", "soon"],
            "'soon' is not a valid time; write +20m, 14:32 or 2026-01-31T14:32:00Z",
        ),
        (["evnts"], "no such command 'evnts'; did you mean 'events'?\n"),
        (["dance"], "no such command 'dance'; see 'forewarn --help'"),
    ],
)
def test_wrong_usage_is_one_sentence_and_two(forewarn: Forewarn, arguments: list[str], said: str) -> None:
    """It names what is wrong and where help is."""
    ran = forewarn(*arguments)

    assert ran.code == 2
    assert ran.err.startswith("forewarn: ")
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert not ran.out


def test_a_service_that_is_not_there_is_three(forewarn: Forewarn) -> None:
    """One sentence with the remedy."""
    ran = forewarn("vm", "list")

    assert ran.code == 3
    assert ran.err.startswith("forewarn: no service answers in ")
    assert ran.err.count("\n") == 1


def test_our_own_mistakes_are_a_sentence_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With how to see where it happened."""

    def fail(*_: object, **__: object) -> None:
        raise KeyError("web\n0")

    monkeypatch.setattr(cli, "main", fail)

    assert run([]) == 3
    err = capsys.readouterr().err
    assert "internal error of forewarn (KeyError: " in err
    assert err.count("\n") == 1
    monkeypatch.setenv("FOREWARN_TRACEBACK", "1")
    with pytest.raises(KeyError):
        run([])


def test_an_interruption_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C is what a person does."""

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", fail)

    assert run([]) == root.INTERRUPTED
    assert capsys.readouterr().err == "forewarn: interrupted\n"


TABLES = re.compile(
    r"list$|(vm|group) show|history|events|reclaim|scale-in|agent (check|test|status)|group set|"
    r"vm (restart|delete|set|move)|host (?!show|add)"
)


@pytest.mark.parametrize("path", [path for path in COMMANDS if TABLES.search(path)])
def test_every_command_that_prints_a_table_takes_wide(path: str) -> None:
    """Nothing that a narrow terminal leaves out is out of reach."""
    assert "--wide" in [option for parameter in COMMANDS[path].params for option in parameter.opts]


@pytest.mark.parametrize("path", [path for path in COMMANDS if path.split()[0] in OPERATORS])
def test_every_command_of_operators_takes_the_service_last(path: str) -> None:
    """``--url`` and ``--data`` may stand after the command, as the help of all commands says."""
    assert {"--url", "--data"} <= {flag for each in COMMANDS[path].params for flag in each.opts}


@pytest.mark.parametrize("path", [path for path in COMMANDS if " " in path])
def test_what_a_group_says_of_a_command_is_not_cut(path: str) -> None:
    """Its first sentence fits the list of the group's commands."""
    assert "..." not in COMMANDS[path].get_short_help_str(66)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_says_what_it_means(path: str) -> None:
    """Nobody has to guess from its name."""
    options = [each for each in COMMANDS[path].params if isinstance(each, click.Option) and not each.hidden]

    assert [each.opts for each in options if not each.help] == []


def test_where_the_data_is_goes_by_flag_then_environment_then_file(
    harness: ApiHarness, forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The one rule of all settings holds for commands too."""
    Path("forewarn.toml").write_text(f'data = "{harness.directory}"\n', encoding="utf-8")

    monkeypatch.setenv("FOREWARN_DATA", str(tmp_path / "absent"))
    assert forewarn("vm", "list").code == 3
    assert forewarn("--data", str(harness.directory), "vm", "list").code == 0
    monkeypatch.delenv("FOREWARN_DATA")
    assert forewarn("vm", "list").code == 0


def test_without_a_command_there_is_help(forewarn: Forewarn) -> None:
    """On the error stream, for nothing was done; by who needs a command."""
    ran = forewarn()

    assert ran.code == 2
    assert "\nIn a VM, on Azure and on Forewarn alike:\n  whoami  " in ran.err
    assert max(map(len, ran.err.splitlines())) <= 80


def started(*arguments: str, **more: object) -> "subprocess.CompletedProcess[str]":
    options = {"capture_output": True, "text": True, "timeout": 60, **more}
    return subprocess.run([sys.executable, "-m", "forewarn", *arguments], check=False, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.end_to_end
def test_the_version_costs_no_more_than_it_must() -> None:
    """Nothing is imported that only other commands need."""
    code = "import sys; from forewarn.cli.root import run; run(['--version']); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)

    version, loaded = ran.stdout.splitlines()
    assert version == f"forewarn {__version__}"
    assert not {"asyncio", "rich", "msgspec", "sqlite3", "forewarn.cli.serve"} & set(loaded.split())


@pytest.mark.end_to_end
def test_a_client_command_loads_no_server(tmp_path: Path) -> None:
    """Nor does it pay for tables that are not printed."""
    code = "import sys; from forewarn.cli.root import run; run(['--data', 'here', 'vm', 'list']); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path, timeout=60
    )

    assert not {"asyncio", "rich", "sqlite3", "tomllib", "forewarn.node.node"} & set(ran.stdout.split())


@pytest.mark.end_to_end
def test_a_reader_that_has_read_enough_is_no_error() -> None:
    """``forewarn ... | head -1`` ends without a word."""
    line = f"{sys.executable} -m forewarn --help | head -1"
    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], check=False, capture_output=True, text=True, timeout=60
    )

    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.end_to_end
def test_output_that_cannot_be_written_is_said_in_one_sentence() -> None:
    """A full disk is somebody's problem, not a traceback."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ran = started("--help", capture_output=False, stdout=full, stderr=subprocess.PIPE)

    assert ran.returncode == 3
    assert ran.stderr == "forewarn: the output: No space left on device\n"


@pytest.mark.end_to_end
def test_a_poor_locale_is_no_error(tmp_path: Path) -> None:
    """What cannot be shown is replaced."""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    ran = started("--data", str(tmp_path / "größe"), "vm", "list", env=environment)

    assert ran.returncode == 3
    assert ran.stderr.startswith("forewarn: no service answers in ")
