"""What is found of a program without running it."""

import sys
from pathlib import Path

import pytest

from forewarn.drivers.command_checks import find_problems


def program(directory: Path, content: bytes, mode: int = 0o755) -> Path:
    path = directory / "program"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def found(path: Path, **environment: str) -> list[str]:
    return [each.replace(str(path), "it") for each in find_problems(path, environment or {"PATH": "/usr/bin:/bin"})]


@pytest.mark.parametrize(
    "head", [b"#!/bin/sh\n", b"#! /bin/sh -e\n", b"#!/usr/bin/env sh\n", b"#!/usr/bin/env -S sh -e\n", b"#!/bin/sh"]
)
def test_a_program_that_can_be_run_is_well(tmp_path: Path, head: bytes) -> None:
    """However its interpreter is named."""
    assert found(program(tmp_path, head)) == []


def test_a_native_program_is_well() -> None:
    """It is run by the kernel itself."""
    assert found(Path(sys.executable).resolve()) == []


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (
            b"#!/opt/python9\n",
            "it needs the interpreter /opt/python9, which is missing or not executable; install it",
        ),
        (
            b"#!/usr/bin/env python9\n",
            "it needs the interpreter python9, which is not in PATH (/usr/bin:/bin); install",
        ),
        (b"#!/bin/sh\r\nexit\r\n", "it has Windows line endings, so its interpreter is not found"),
        (b"#!\n", "it has no interpreter line; write the interpreter after the #!"),
        (b"echo hello\n", "it has no interpreter line; begin it with a line such as #!/bin/sh"),
        (b"", "it has no interpreter line"),
    ],
)
def test_what_would_not_be_run_is_found(tmp_path: Path, head: bytes, said: str) -> None:
    """Before an event fails on it."""
    (trouble,) = found(program(tmp_path, head))

    assert trouble.startswith(said)


def test_the_path_is_that_of_the_program(tmp_path: Path) -> None:
    """The settings may give it another than ours."""
    script = program(tmp_path, b"#!/usr/bin/env sh\n")

    assert found(script, PATH="/nowhere") == [
        "it needs the interpreter sh, which is not in PATH (/nowhere); install it, or set PATH"
    ]


def test_a_program_that_everybody_may_change_is_found(tmp_path: Path) -> None:
    """Who may write to it decides what the service runs."""
    (trouble,) = found(program(tmp_path, b"#!/bin/sh\n", 0o777))

    assert trouble == "it is writable by every user, so any user decides what the service runs; run 'chmod o-w' on it"


def test_nothing_is_run(tmp_path: Path) -> None:
    """To look does no harm."""
    found(program(tmp_path, f"#!/bin/sh\ntouch {tmp_path}/ran\n".encode()))

    assert not (tmp_path / "ran").exists()
