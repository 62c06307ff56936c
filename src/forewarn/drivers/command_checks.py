"""Whether an operator's program could be run, found out without running it: an impact is nothing to try out."""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

_HEAD = 256
"""Bytes of a program that the kernel looks at to tell what runs it."""
_ENV = "env"
_NATIVE = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""How programs for Linux and macOS begin."""


def find_problems(program: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield what would keep the program from being run, or lets others decide what it does."""
    if os.name != "posix":
        return
    try:
        with program.open("rb") as file:
            head = file.read(_HEAD)
    except PermissionError:
        return  # a program that only runs, and is read by nobody
    except OSError as error:
        yield f"{program} cannot be read: {error.strerror}"
        return
    if head.startswith(b"#!"):
        yield from _of_interpreter(program, head, environment)
    elif not head.startswith(_NATIVE):
        yield f"{program} does not say what runs it; begin it with a line such as #!/bin/sh"
    if program.stat().st_mode & stat.S_IWOTH:
        yield f"everybody may write to {program}, and so decide what the service runs; chmod o-w it"


def _of_interpreter(program: Path, head: bytes, environment: Mapping[str, str]) -> Iterator[str]:
    line, _, _ = head.removeprefix(b"#!").partition(b"\n")
    if line.endswith(b"\r"):
        yield f"the lines of {program} end as on Windows, so that its interpreter is not found; dos2unix it"
        return
    words = line.decode(errors="replace").split()
    if not words:
        yield f"{program} does not say what runs it; write its name behind the #! of the first line"
        return
    if not os.access(words[0], os.X_OK):
        yield f"{program} is run by {words[0]}, which is not there or may not be executed; install it"
    elif Path(words[0]).name == _ENV and (wanted := _wanted_of_env(words[1:])):
        path = environment.get("PATH")
        if shutil.which(wanted, path=path) is None:
            yield f"{program} is run by {wanted}, which is nowhere on the PATH ({path}); install it, or set PATH"


def _wanted_of_env(words: list[str]) -> str:
    """Return the program that ``env`` is to find; nothing where its options are not for us to read."""
    if words[:1] == ["-S"]:
        words = words[1:]
    return "" if not words or words[0].startswith("-") or "=" in words[0] else words[0]
