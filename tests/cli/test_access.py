"""Tokens, logins and services elsewhere, from the command line."""

import io
import json
import os
import stat
from pathlib import Path

import pytest

from forewarn.cli.logins import Login, save
from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness

PASTED = "fw_0123456789abcdef_" + "PLANTEDx" * 5 + "abc"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for every test."""
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    for name in ("FOREWARN_URL", "FOREWARN_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return home


def url(harness: ApiHarness) -> str:
    return f"http://127.0.0.1:{harness.control_plane.port}"


def test_a_token_is_printed_alone_so_that_it_can_be_kept(harness: ApiHarness, forewarn: Forewarn) -> None:
    """What is said about it goes elsewhere."""
    ran = forewarn("token", "create", "ada", "--role", "owner", "--group", "web", "--expires-in", "90d")

    assert harness.ask("GET", "/v1/me", token=ran.out.strip()).json["groups"] == ["web"]
    assert "it is shown only this once" in ran.err


def test_tokens_are_listed_rotated_and_revoked(harness: ApiHarness, forewarn: Forewarn) -> None:
    """By name or id."""
    first = forewarn("token", "create", "ada", "--role", "viewer", "--json").json
    assert forewarn("token", "list").out.splitlines()[1].split()[:3] == [first["id"], "ada", "viewer"]

    second = forewarn("token", "rotate", "ada", "--json").json
    assert harness.ask("GET", "/v1/me", token=first["token"]).status == 401
    assert harness.ask("GET", "/v1/me", token=second["token"]).status == 200

    assert forewarn("token", "revoke", second["id"], "--yes").code == 0
    assert harness.ask("GET", "/v1/me", token=second["token"]).status == 401
    assert forewarn("token", "list").out.startswith("no tokens yet")
    assert forewarn("token", "revoke", "ada", "--yes").code == 1


@pytest.mark.parametrize("arguments", [["--role", "king"], ["--role", "viewer", "--expires-in", "soon"], []])
def test_a_token_that_makes_no_sense_is_wrong_usage(forewarn: Forewarn, arguments: list[str]) -> None:
    """In one line."""
    assert forewarn("token", "create", "x", *arguments).code == 2


def test_after_a_login_a_local_socket_that_may_be_written_is_still_used(
    harness: ApiHarness, forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permission to write is all that a connection needs."""
    (harness.directory / "forewarn.toml").write_text(f'data = "{harness.directory}"\n', encoding="utf-8")
    monkeypatch.delenv("FOREWARN_DATA")
    save(Login("http://127.0.0.1:1", "fw_elsewhere"))
    monkeypatch.setattr(os, "access", lambda _, mode: mode == os.W_OK)

    assert "web-0" in forewarn("vm", "list").out


def test_after_a_login_commands_speak_to_that_service(
    harness: ApiHarness, forewarn: Forewarn, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where none is named and none runs in the data directory; the token is nobody else's to read."""
    monkeypatch.delenv("FOREWARN_DATA")
    Path("token").write_text(harness.token("ada", "owner", "web") + "\n", encoding="utf-8")
    harness.run(lambda: _close_unix(harness))

    ran = forewarn("login", "--url", url(harness), "--token-file", "token")
    assert ran.out.startswith(f"logged in to {url(harness)} as ada, owner of web")
    assert stat.S_IMODE((home / "forewarn" / "logins.json").stat().st_mode) == 0o600

    assert [vm["name"] for vm in forewarn("vm", "list", "--json").json] == ["web-0", "web-1"]
    assert forewarn("host", "list").code == 1


async def _close_unix(harness: ApiHarness) -> None:
    harness.control_plane._sockets.remove_file()


def test_the_command_line_names_a_service_before_the_environment(
    harness: ApiHarness, forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--url, then FOREWARN_URL; a token may come from the environment."""
    monkeypatch.setenv("FOREWARN_TOKEN", harness.token("eve", "viewer"))
    monkeypatch.setenv("FOREWARN_URL", "http://127.0.0.1:1")

    assert forewarn("vm", "list").code == 3
    assert forewarn("--url", url(harness), "vm", "restart", "web-0").code == 1
    assert forewarn("--data", str(harness.directory), "vm", "restart", "web-0").code == 0
    assert forewarn("--data", "x", "--url", "y", "vm", "list").code == 2


def test_a_service_without_a_token_says_how_to_get_in(forewarn: Forewarn) -> None:
    """By logging in."""
    ran = forewarn("--url", "https://forewarn.example.org", "vm", "list")

    assert ran.code == 2
    assert "log in with 'forewarn login --url https://forewarn.example.org'" in ran.err


def test_a_token_that_is_no_good_is_not_kept(harness: ApiHarness, forewarn: Forewarn, home: Path) -> None:
    """It is tried first."""
    Path("token").write_text("fw_nonsense", encoding="utf-8")
    ran = forewarn("login", "--url", url(harness), "--token-file", "token")

    assert (ran.code, "the service does not accept this token: it is unknown, expired or revoked" in ran.err) == (
        1,
        True,
    )
    assert not home.exists()


def test_a_token_is_not_sent_in_the_clear_unless_allowed(forewarn: Forewarn) -> None:
    """Not even tried."""
    ran = forewarn("login", "--url", "http://forewarn.example.org:8255", "--token-file", "token")

    assert ran.code == 2
    assert "would send the token without encryption" in ran.err


def test_a_token_may_come_through_a_pipe(
    harness: ApiHarness, forewarn: Forewarn, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a prompt or a warning; nothing in the pipe is said to be nothing."""
    monkeypatch.setattr("sys.stdin", io.StringIO(harness.token("eve") + "\n"))
    ran = forewarn("login", "--url", url(harness))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"logged in to {url(harness)} as eve, operator; the token is kept in {home / 'forewarn' / 'logins.json'}\n"
    )

    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    ran = forewarn("login", "--url", url(harness))
    assert (ran.code, "standard input contains no token" in ran.err) == (2, True)


def test_a_file_of_logins_that_cannot_be_read_is_named(forewarn: Forewarn, home: Path) -> None:
    """With the remedy."""
    (home / "forewarn").mkdir(parents=True)
    (home / "forewarn" / "logins.json").write_text("x", encoding="utf-8")
    ran = forewarn("--url", "https://forewarn.example.org", "vm", "list")

    assert (ran.code, "mend it or remove it" in ran.err) == (2, True)


def test_a_second_login_replaces_the_first_to_the_same_service(
    harness: ApiHarness, forewarn: Forewarn, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One token per service."""
    for name in ("ada", "eve"):
        monkeypatch.setenv("FOREWARN_TOKEN", harness.token(name, "viewer"))
        assert forewarn("login", "--url", url(harness) + "/").code == 0

    kept = json.loads((home / "forewarn" / "logins.json").read_bytes())["logins"]
    assert [each["url"] for each in kept] == [url(harness)]


def test_the_service_may_be_named_after_the_command(
    harness: ApiHarness, forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As people type it; two services at once are refused wherever they are named."""
    monkeypatch.setenv("FOREWARN_TOKEN", harness.token("eve", "viewer"))
    monkeypatch.delenv("FOREWARN_DATA")

    assert forewarn("vm", "list", "--url", url(harness), "--json").code == 0
    assert forewarn("history", "--url", url(harness)).code == 0
    assert forewarn("vm", "list", "--data", str(harness.directory)).code == 0
    assert forewarn("--data", "x", "vm", "list", "--url", "y").code == 2


def test_an_empty_name_of_a_service_is_no_name(forewarn: Forewarn) -> None:
    """A variable that is not set must not lead to another service."""
    for words in (
        ["--url", "", "vm", "list"],
        ["vm", "list", "--url", " "],
        ["events", "--url", ""],
        ["login", "--url", ""],
    ):
        ran = forewarn(*words)
        assert (ran.code, "'--url': it is empty; give a value" in ran.err) == (2, True)


def test_a_login_needs_a_service(harness: ApiHarness, forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the flag, wherever it stands, or from FOREWARN_URL."""
    monkeypatch.setenv("FOREWARN_TOKEN", harness.token("eve", "viewer"))

    assert "no service is named; give --url URL, or set FOREWARN_URL" in forewarn("login").err
    assert forewarn("--url", url(harness), "login").code == 0
    monkeypatch.setenv("FOREWARN_URL", url(harness))
    assert forewarn("login").out.startswith(f"logged in to {url(harness)} as eve")


def test_a_token_on_the_command_line_is_refused_and_not_repeated(forewarn: Forewarn) -> None:
    """Whatever it looks like: it may hold a typing error."""
    for words in (["s3cret"], ["--url", "http://127.0.0.1:1", "s3cret"], ["s3cret", "s3cret"], ["--", "s3cret"]):
        ran = forewarn("login", *words)
        assert (ran.code, "s3cret" in ran.err + ran.out) == (2, False)
        assert "type the token at the prompt, pipe it to 'forewarn login', or give --token-file FILE" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ["login", "--url", "http://127.0.0.1:1", "--token-file", PASTED],
        ["token", "revoke", PASTED],
        ["token", "rotate", PASTED],
        ["token", "list", PASTED],
        ["vm", "show", PASTED],
        [PASTED],
    ],
)
@pytest.mark.usefixtures("harness")
def test_a_token_in_the_place_of_a_name_is_not_repeated(forewarn: Forewarn, words: list[str]) -> None:
    """Errors show its id alone."""
    ran = forewarn(*words)

    assert ran.code != 0
    assert "PLANTED" not in ran.err + ran.out


def test_a_url_too_many_is_not_repeated(forewarn: Forewarn) -> None:
    """The path of a chat's webhook is a secret."""
    ran = forewarn("subscription", "add", "my", "chat", "https://hooks.example.org/services/PLANTED")

    assert (ran.code, "PLANTED" in ran.err) == (2, False)
    assert "too many arguments" in ran.err


def test_what_works_on_this_machine_takes_no_url(forewarn: Forewarn) -> None:
    """Nobody believes to have looked elsewhere."""
    ran = forewarn("--url", "https://forewarn.example.org", "doctor")

    assert (ran.code, "doctor works on this machine; leave --url out" in ran.err) == (2, True)


def test_a_removed_group_is_marked_where_a_token_names_it(harness: ApiHarness, forewarn: Forewarn) -> None:
    """So that its name is not given away while the token is in force."""
    harness.token("shop", "owner", "db")
    harness.ask("PATCH", "/v1/fleet", {"removed_groups": ["db"], "removed_vms": ["db"]})

    assert "db (removed)" in forewarn("token", "list").out
