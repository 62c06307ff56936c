"""Static checks of an operator's program: whether it can be run. It is never run, because a run is an impact."""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

_HEAD = 256
"""Number of bytes at the start of a program that the kernel reads to find its interpreter."""
_ENV = "env"
_NATIVE = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""First bytes of executables for Linux and macOS."""


def find_problems(program: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield problems: what prevents the program from running, or lets other users change it."""
    if os.name != "posix":
        return
    try:
        with program.open("rb") as file:
            head = file.read(_HEAD)
    except PermissionError:
        return  # executable, but not readable for this user
    except OSError as error:
        yield f"{program} cannot be read: {error.strerror}"
        return
    if head.startswith(b"#!"):
        yield from _of_interpreter(program, head, environment)
    elif not head.startswith(_NATIVE):
        yield f"{program} has no interpreter line; begin it with a line such as #!/bin/sh"
    if program.stat().st_mode & stat.S_IWOTH:
        yield f"{program} is writable by every user, so any user decides what the service runs; run 'chmod o-w' on it"


def _of_interpreter(program: Path, head: bytes, environment: Mapping[str, str]) -> Iterator[str]:
    line, _, _ = head.removeprefix(b"#!").partition(b"\n")
    if line.endswith(b"\r"):
        yield f"{program} has Windows line endings, so its interpreter is not found; run dos2unix on it"
        return
    words = line.decode(errors="replace").split()
    if not words:
        yield f"{program} has no interpreter line; write the interpreter after the #! in the first line"
        return
    if not os.access(words[0], os.X_OK):
        yield f"{program} needs the interpreter {words[0]}, which is missing or not executable; install it"
    elif Path(words[0]).name == _ENV and (wanted := _wanted_of_env(words[1:])):
        path = environment.get("PATH")
        if shutil.which(wanted, path=path) is None:
            yield f"{program} needs the interpreter {wanted}, which is not in PATH ({path}); install it, or set PATH"


def _wanted_of_env(words: list[str]) -> str:
    """Return the program that ``env`` looks up; empty if its options cannot be interpreted here."""
    if words[:1] == ["-S"]:
        words = words[1:]
    return "" if not words or words[0].startswith("-") or "=" in words[0] else words[0]
