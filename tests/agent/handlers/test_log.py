"""The log handler: one record for each call, wherever it goes."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, HandlerResult
from forewarn.agent.handlers import log
from forewarn.agent.handlers.log import (
    EventLogRecord,
    LogHandler,
    LogSettings,
    append,
    journal_message,
    sentence,
    syslog_message,
)
from forewarn.core.errors import BadInput
from forewarn.testing.handler_contract import HandlerContract, HandlerTrial
from forewarn.wire.event_json import make_event_json
from tests.agent.handlers.pages import HandlerPage
from tests.agent.samples import REBOOT, SHOWN_ID


class LogTrial(HandlerTrial):
    """A file of records whose last one is not of an end."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.file = directory.parent / "events.jsonl"

    def make(self, **more: object) -> LogHandler:
        settings: dict[str, object] = {"to": "file", "path": str(self.file)}
        return LogHandler.from_settings(settings | more, self.directory)

    def records(self) -> list[Any]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def is_ready(self) -> bool:
        return [each["direction"] for each in self.records()][-1:] == ["do"]

    def hang(self) -> bool:
        return False

    def do(self, **more: object) -> HandlerResult:
        return self.make(**more).do(self.task(Direction.DO, event=REBOOT))


class TestLogHandler(HandlerContract):
    """It keeps the contract."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> HandlerTrial:
        return LogTrial(tmp_path / "kept")


@pytest.fixture
def trial(tmp_path: Path) -> LogTrial:
    return LogTrial(tmp_path / "kept")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[socket.socket]:
    """A logging service's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "log.sock"))
        listening.settimeout(60)
        yield listening


def record(direction: Direction = Direction.DO, description: str = "", **more: object) -> EventLogRecord:
    event = msgspec.structs.replace(REBOOT, description=description, **more)
    return EventLogRecord("2026-03-05T06:53:09.000Z", "web-0", direction, make_event_json(event))


def test_a_record_is_one_json_line(trial: LogTrial) -> None:
    """When, who, which direction, and the event with the keys of the document."""
    assert trial.do() == HandlerDone(detail=f"written to {trial.file}")

    (written,) = trial.records()
    assert list(written) == ["time", "vm", "direction", "event"]
    assert written["event"]["EventId"] == SHOWN_ID


def test_a_rotated_file_is_made_anew(trial: LogTrial) -> None:
    """The handler holds nothing open."""
    trial.do()
    trial.file.rename(trial.file.with_suffix(".1"))
    trial.do()

    assert len(trial.records()) == 1


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    """After a full disk the next record stands on a line of its own."""
    path = tmp_path / "log"
    path.write_bytes(b'{"half')
    append(path, b"{}\n")
    append(path, b"{}\n")

    assert path.read_bytes() == b'{"half\n{}\n{}\n'


def test_stdout_gets_the_same_line(trial: LogTrial, capsys: pytest.CaptureFixture[str]) -> None:
    """For those who collect what the agent prints."""
    assert trial.do(to="stdout", path="") == HandlerDone(detail="written to stdout")

    assert json.loads(capsys.readouterr().out)["event"]["EventId"] == SHOWN_ID


def test_syslog_gets_a_datagram(trial: LogTrial, service: socket.socket) -> None:
    """Priority, time, who says it, and the record as JSON."""
    trial.do(to="syslog", path=service.getsockname(), level="warning", facility="local0", identifier="agent")
    head, _, body = service.recv(65536).partition(b"]: ")

    assert head.startswith(b"<132>")
    assert head.endswith(f" agent[{os.getpid()}".encode())
    assert json.loads(body)["vm"] == "web-0"


def test_a_line_break_does_not_make_two_messages() -> None:
    """What an event describes cannot forge a record of its own."""
    assert b"\n" not in syslog_message(record(description="a\n<0>forged"), 29, "agent")
    assert journal_message({"A": "1", "MESSAGE": "a\nFORGED=1"}) == (
        b"A=1\nMESSAGE\n\x0a\x00\x00\x00\x00\x00\x00\x00a\nFORGED=1\n"
    )


def test_journald_gets_fields(trial: LogTrial, service: socket.socket) -> None:
    """A sentence for people, and the event's words to search by."""
    trial.do(to="journald", path=service.getsockname())
    fields = dict(line.split("=", 1) for line in service.recv(65536).decode().splitlines())

    assert fields["MESSAGE"].startswith("Reboot of web-0 not before Thu, 05 Mar 2026 07:08:09 GMT")
    assert fields["PRIORITY"] == "5"
    assert fields["FOREWARN_EVENT_ID"] == SHOWN_ID


@pytest.mark.parametrize("to", ["syslog", "journald"])
def test_without_a_path_it_writes_to_the_socket_of_the_system(
    trial: LogTrial, service: socket.socket, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    """The usual place of each service need not be given."""
    monkeypatch.setitem(log._SOCKETS, to, service.getsockname())

    assert trial.do(to=to, path="") == HandlerDone(detail=f"written to {service.getsockname()}")
    assert SHOWN_ID.encode() in service.recv(65536)


def test_a_sentence_for_each_moment() -> None:
    """It is announced, it happens now, it is over."""
    assert sentence(record(description="Why.")).endswith(f"GMT ({SHOWN_ID}): Why.")
    assert sentence(record(not_before=None)) == f"Reboot of web-0 now ({SHOWN_ID})"
    assert sentence(record(Direction.UNDO)) == f"Reboot of web-0 is over ({SHOWN_ID})"


def test_what_cannot_be_written_says_why(trial: LogTrial, tmp_path: Path) -> None:
    """One sentence with the place: a missing directory, a pipe without reader, a service that is not there."""
    missing = tmp_path / "no" / "such"
    assert trial.do(path=str(missing)) == HandlerFailed(f"{missing} cannot be written: No such file or directory")
    assert trial.do(path=str(tmp_path)) == HandlerFailed(f"{tmp_path} cannot be written: Is a directory")
    assert trial.do(path="/dev/full") == HandlerFailed("/dev/full cannot be written: No space left on device")
    for to in ("syslog", "journald"):
        assert trial.do(to=to, path=str(missing)) == HandlerFailed(
            f"{missing} cannot be written: No such file or directory"
        )


def test_a_pipe_that_nobody_empties_does_not_hold_us(trial: LogTrial) -> None:
    """It fails where nobody listens, and once the pipe is full."""
    os.mkfifo(trial.file)
    unheard = trial.do()
    reader = os.open(trial.file, os.O_RDONLY | os.O_NONBLOCK)
    heard = trial.do()
    full = [trial.do() for _ in range(500)][-1]
    os.close(reader)

    assert isinstance(unheard, HandlerFailed)
    assert isinstance(heard, HandlerDone)
    assert isinstance(full, HandlerFailed)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"path": ""}, "setting 'path' of handler 'log' is missing"),
        ({"to": "paper"}, "setting 'to' of handler 'log'"),
        ({"level": "loud"}, "setting 'level' of handler 'log'"),
        ({"identifier": "a\nb"}, "'identifier' of handler 'log' has a character that is not allowed"),
    ],
)
def test_wrong_settings_are_refused(trial: LogTrial, settings: dict[str, object], sentence: str) -> None:
    """Each in one sentence that names the setting."""
    with pytest.raises(BadInput, match=sentence):
        trial.make(**settings)


def test_the_page_says_what_the_code_does(tmp_path: Path) -> None:
    """Its table is complete, its examples understood."""
    page = HandlerPage("log")
    page.assert_names_settings(LogSettings)
    page.assert_examples_are_understood(LogHandler, tmp_path)
