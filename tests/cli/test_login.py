"""Where the token of a login comes from."""

import sys

import click
import pytest

from forewarn.cli.login import _read_token


def test_a_token_that_is_typed_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a terminal it is asked for without an echo; spaces around it are ignored."""
    asked: list[tuple[str, dict[str, object]]] = []

    def prompt(text: str, **options: object) -> str:
        asked.append((text, options))
        return " fw_secret "

    monkeypatch.delenv("FOREWARN_TOKEN", raising=False)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "prompt", prompt)

    assert _read_token(None) == "fw_secret"
    assert asked == [("Token", {"hide_input": True})]
