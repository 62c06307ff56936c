"""Runs what a page prints: its files are written, its commands typed into one shell, its output compared.

    <!-- session: demo -->      a demo service runs before the first command (else the page starts its own)
    <!-- file: fleet.toml -->   the fenced block that follows is written to that file first
    ```console                  lines after ``$ `` are typed, the others are what is expected
    $ forewarn vm list

In what is expected, ids, times and durations stand for any, and a line ``...`` for any lines.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Self

import msgspec

from tests.ports import free_port

PRINTED = "127.0.0.1:8254"
CONTROL = "127.0.0.1:8255"
AGENTS = ("127.0.0.1:9264", "127.0.0.1:9265", "127.0.0.1:9266")
"""The HTTP addresses of agents in the pages."""
PATIENCE = 180.0

_SESSION = re.compile(r"<!-- session: (\w+) -->")
_FILE = re.compile(r"<!-- file: (\S+) -->\n+```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LOOKS_ONLY = re.compile(
    r"^(?:forewarn (?:.*\b(?:list|show|verify)|events|whoami|agent status)\b|curl (?!.*(?: -d|\| *curl))|cat |grep )"
)
_ANY = (
    (re.compile(r"\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "<time>"),
    (re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"), "<time>"),
    (re.compile(r"\b(?:[A-Z][a-z]{2} \d{1,2} [A-Z][a-z]{2} )?\d\d:\d\d(?::\d\d)? [A-Z]{3,5}\b"), "<time>"),
    (re.compile(r"\b(?:\d\d [A-Z][a-z]{2} )?\d\d:\d\d:\d\d(?= |$)"), "<time>"),
    (re.compile(r"\b[0-9A-F]{8}\b"), "<id>"),
    (re.compile(r"\bjust now\b|\b(?:\d+ (?:h|min) )?\d+(?:\.\d+)? (?:s|min|h) ago\b"), "<ago>"),
    (re.compile(r"\bin (?:\d+ (?:h|min) )?\d+ (?:s|min|h)\b|\bnow\b(?= +\w)"), "<soon>"),
    (re.compile(r"\+?\b\d+(?:\.\d+)? (?:s|min|h)\b"), "<span>"),
    (re.compile(r"\bpassed in \d+\.\d+s"), "passed in <span>"),
    (re.compile(r"\((?:\d+[dhms])+ of notice\)"), "(<span> of notice)"),
    (re.compile(r"\b\d+ entries up to revision \d+"), "<n> entries up to revision <n>"),
    (re.compile(r"\brevision=\d+"), "revision=<n>"),
    (re.compile(r"\bterm \d{10}\b"), "term <n>"),
    (re.compile(r"\bby \w+ \(control\.sock\)"), "by <user> (control.sock)"),
    (re.compile(r"\bprocess with id \d+"), "process with id <n>"),
    (re.compile(r"^\[\d+\] \d+$"), "[job]"),
    (re.compile(r"\s+"), " "),
)


class Typed(msgspec.Struct, frozen=True):
    """One command of a page, and what the page says it prints."""

    command: str
    expected: tuple[str, ...]


class DocumentedSession(msgspec.Struct, frozen=True):
    """What a page asks its reader to do."""

    service: str
    files: dict[str, str]
    typed: tuple[Typed, ...]


def read(text: str) -> DocumentedSession:
    """Find a page's files and commands."""
    session = _SESSION.search(text)
    typed = tuple(each for block in _CONSOLE.findall(text) for each in _typed(block))
    return DocumentedSession(session[1] if session else "", dict(_FILE.findall(text)), typed)


def _typed(block: str) -> Iterator[Typed]:
    command, expected = "", list[str]()
    for line in block.splitlines():
        if command.endswith("\\"):
            command += "\n" + line
        elif line.startswith("$ "):
            if command:
                yield Typed(command, tuple(expected))
            command, expected = line.removeprefix("$ "), []
        else:
            expected.append(line)
    yield Typed(command, tuple(expected))


def agrees(expected: tuple[str, ...], printed: list[str]) -> bool:
    """Return whether what was printed is what the page says, ids and times aside."""
    pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(_any(line)) + r"\n" for line in expected)
    return re.fullmatch(pattern, "".join(f"{_any(line)}\n" for line in printed)) is not None


def _any(line: str) -> str:
    for pattern, word in _ANY:
        line = pattern.sub(word, line)
    return line.rstrip()


class Shell:
    """One shell in a directory of its own, in which ``forewarn`` is found; all it started ends with it."""

    def __init__(self, directory: Path) -> None:
        self._places = {printed: f"127.0.0.1:{free_port()}" for printed in (PRINTED, CONTROL, *AGENTS)}
        self._directory = directory
        bin_ = Path(sys.executable).parent
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FOREWARN_")}
        environment = kept | {"PATH": f"{bin_}:{os.environ['PATH']}", "TZ": "UTC", "COLUMNS": "200"}
        environment["FOREWARN_CONTROL"] = "off"  # pages are tried side by side, and the port is one
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process.poll() is None:
            self.type("kill $(jobs -p) 2>/dev/null; wait")
        self._process.communicate(timeout=PATIENCE)

    def write(self, name: str, text: str) -> None:
        """Write a file of the page, with free ports in place of the printed ones."""
        (self._directory / name).write_text(self._with_free_ports(text), encoding="utf-8")

    def _with_free_ports(self, text: str) -> str:
        for printed, place in self._places.items():
            text = text.replace(printed, place)
        return text

    def start_demo(self) -> None:
        """Let a demo service run, and wait until it answers."""
        self.type(f"forewarn demo --metadata {PRINTED} --control off >demo.out 2>&1 &")
        self.wait_for_service("forewarn-demo")

    def wait_for_service(self, data: str) -> None:
        deadline = monotonic() + PATIENCE
        while not (self._directory / data / "control.sock").exists() or "VMS" not in "".join(
            self.type(f"forewarn --data {data} host list")
        ):
            assert monotonic() < deadline, "the service did not start"
            sleep(0.1)

    def type(self, command: str) -> list[str]:
        """Type a command and return the lines it prints."""
        assert self._process.stdin
        assert self._process.stdout
        end = "--- the command has ended ---"
        command = self._with_free_ports(command)
        self._process.stdin.write(f"{command}\necho; echo '{end}'\n")
        self._process.stdin.flush()
        lines = []
        watch = threading.Timer(PATIENCE, self._process.kill)
        watch.start()
        for line in self._process.stdout:
            if line.rstrip("\n") == end:
                break
            line = line.rstrip("\n")  # noqa: PLW2901 - it is still the line
            for printed, place in self._places.items():
                line = line.replace(place, printed)  # noqa: PLW2901
            lines.append(line)
        else:
            raise AssertionError(f"$ {command}\n{lines}\n--- and then nothing more came ---")
        watch.cancel()
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def expect(self, typed: Typed) -> None:
        """Type a command and compare; one that only looks is typed again until it agrees, for a while."""
        deadline = monotonic() + PATIENCE
        printed = self.type(typed.command)
        expected = tuple(_without_last_blanks(typed.expected))
        while not agrees(expected, printed):
            if monotonic() > deadline or not _LOOKS_ONLY.match(typed.command):
                said, wanted = "\n".join(printed), "\n".join(expected)
                raise AssertionError(f"$ {typed.command}\n{said}\n--- but the page says ---\n{wanted}")
            sleep(0.2)
            printed = self.type(typed.command)
        if typed.command.endswith("&") and "serve" in typed.command:
            found = re.search(r"--data (\S+)", typed.command)
            self.wait_for_service(found[1] if found else "forewarn-data")


def _without_last_blanks(lines: tuple[str, ...]) -> list[str]:
    kept = list(lines)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept
