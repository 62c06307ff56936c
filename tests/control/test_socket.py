"""The control socket: who may use it, who is behind it, and what it makes of what it is sent."""

import asyncio
import getpass
import json
import socket
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn.control.client import Client
from forewarn.control.messages import OneEvent, Vms
from forewarn.control.socket import ControlSocket
from forewarn.control.story import Story
from forewarn.control.views import VmView
from forewarn.core.errors import BadInput, Unavailable
from tests.office import Office, opened


def say(office: Office, *lines: bytes) -> list[dict[str, Any]]:
    """Send lines as they are, and return the answers to them."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(20)
        caller.connect(str(office.directory / "control.sock"))
        caller.sendall(b"".join(line + b"\n" for line in lines))
        caller.shutdown(socket.SHUT_WR)
        return [json.loads(line) for line in caller.makefile("rb")]


def restart(**more: object) -> bytes:
    command = {"command": "operate-vm", "id": "8a3c9f3e-0b1f-4c53-9a52-61bb3b8f4f6e", "operation": "restart"}
    return json.dumps({"call": "submit", "command": {**command, "vm": "web-0", **more}}).encode()


def test_nobody_else_may_open_the_socket(office: Office) -> None:
    """It is its owner's alone, whatever the umask."""
    assert stat.S_IMODE((office.directory / "control.sock").stat().st_mode) == 0o600


def test_who_asks_is_found_out_and_not_believed(office: Office, client: Client) -> None:
    """A command that claims to come from somebody else is recorded under the name of who sent it."""
    (answer,) = say(office, restart(by={"kind": "vm", "name": "mallory"}))

    story = client.ask(OneEvent(answer["ok"]["announcements"][0]["event"]["id"]), Story)
    assert story.steps[0].by == f"{getpass.getuser()} (control.sock)"


def test_a_command_that_is_sent_again_happens_once(office: Office) -> None:
    """Its id makes it one command, and the answer is the same."""
    office.enrol("web", "web-0")

    first, second = say(office, restart(), restart())

    assert first == second
    assert len(office.node.fleet.events) == 1


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        (b"hello", "bad-input", "cannot be understood"),
        (b"{}", "bad-input", "cannot be understood"),
        (b'{"call": "dance"}', "bad-input", "cannot be understood"),
        (b'{"call": "vm"}', "bad-input", "cannot be understood"),
        (b'{"call": "vms", "extra": 1}', "bad-input", "cannot be understood"),
        (b'{"call": "submit", "command": 1}', "bad-input", "not an object"),
        (b'{"call": "submit", "command": {"command": "enrol"}}', "bad-input", "cannot be understood"),
        (restart(id="x"), "bad-input", "cannot be understood"),
        (restart(vm="web-9"), "unknown", "there is no VM 'web-9'"),
        (restart(operation="explode"), "bad-input", "cannot be understood"),
        (restart(not_before="2020-01-01T00:00:00Z"), "refused", "too early"),
        (restart(not_before="2020-01-01T00:00:00"), "bad-input", "timezone"),
    ],
)
def test_what_cannot_be_done_is_said_and_the_conversation_goes_on(
    office: Office, line: bytes, kind: str, said: str
) -> None:
    """One error per line, and the next line is answered."""
    refused, answered, _ = say(office, line, b'{"call": "hosts"}')

    assert refused["error"]["kind"] == kind
    assert said in refused["error"]["message"]
    assert "part" in answered


def test_a_command_that_only_the_node_gives_is_refused(office: Office) -> None:
    """No operator switches a group off or reports for a driver."""
    command = {"command": "switch-off", "id": "8a3c9f3e-0b1f-4c53-9a52-61bb3b8f4f6e", "marks": []}
    (answer,) = say(office, json.dumps({"call": "submit", "command": command}).encode())

    assert answer["error"]["kind"] == "bad-input"


@given(
    st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b'{"call":"vms"}', b'{"call":', b"[]"])), max_size=3)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
def test_whatever_is_sent_is_answered_line_by_line(office: Office, lines: list[bytes]) -> None:
    """Garbage gets an error; nothing gets silence but a line that never ends."""
    whole = [line.replace(b"\n", b" ") for line in lines]

    answers = say(office, *whole)

    assert sum("part" not in answer for answer in answers) == len(whole)


def test_a_line_that_is_too_long_is_refused(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a word on what to do instead."""
    monkeypatch.setattr("forewarn.control.socket.LONGEST_LINE", 1_000)
    office.run(office.socket.close)
    office.run(office.socket.open)

    (answer,) = say(office, b'"' + b"x" * 5_000 + b'"')

    assert "send the change in slices" in answer["error"]["message"]


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    """A service that was killed leaves one; nobody answers on it."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "control.sock"))

    with opened(tmp_path) as office, Client(office.directory) as client:
        assert len(list(client.stream(Vms(), VmView))) == 4


def test_a_socket_that_is_answered_is_left_alone(office: Office) -> None:
    """A second service in the same directory is refused, and the first goes on."""
    second = ControlSocket(office.directory, office.calls)

    with pytest.raises(Unavailable, match="another service answers"):
        asyncio.run(second.open())

    assert say(office, b'{"call": "hosts"}')


def test_what_is_no_socket_is_never_removed(tmp_path: Path) -> None:
    """Somebody's file may bear that name."""
    file = tmp_path / "control.sock"
    file.write_text("mine", encoding="utf-8")

    with pytest.raises(BadInput, match="is in the way and is not a socket"), opened(tmp_path):
        pass

    assert file.read_text(encoding="utf-8") == "mine"


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    """In one sentence, with the remedy."""
    with pytest.raises(BadInput, match="cannot be made: No such file or directory; give a directory"):
        asyncio.run(ControlSocket(tmp_path / "absent", None).open())  # type: ignore[arg-type]  # nobody calls


def test_closing_takes_away_its_own_socket_only(tmp_path: Path) -> None:
    """One that somebody else put there in the meantime stays."""
    with opened(tmp_path):
        (tmp_path / "control.sock").unlink()
        (tmp_path / "control.sock").touch()

    assert (tmp_path / "control.sock").exists()


def test_a_path_too_long_for_a_socket_is_no_hindrance(tmp_path: Path) -> None:
    """Both ends find the way."""
    directory = tmp_path.joinpath(*["a-directory-with-a-long-name"] * 8)
    directory.mkdir(parents=True)

    with opened(directory) as office, Client(office.directory) as client:
        assert len(list(client.stream(Vms(), VmView))) == 4

    assert not (directory / "control.sock").exists()


def test_what_is_being_answered_when_the_service_stops_is_answered(office: Office) -> None:
    """Others that are connected and silent are let go of."""
    release = asyncio.Event()
    begun = threading.Event()
    plain = office.calls.answer

    async def slow(*arguments: Any) -> Any:
        begun.set()
        await release.wait()
        return await plain(*arguments)

    office.calls.answer = slow  # type: ignore[method-assign, assignment]  # it is to take its time
    answers: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: answers.extend(say(office, b'{"call": "hosts"}')))
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(office.directory / "control.sock"))
        asking.start()
        begun.wait(20)
        office.loop.call_soon_threadsafe(lambda: office.loop.call_soon(release.set))
        office.run(office.socket.close)
        asking.join(20)
        silent.settimeout(20)

        assert answers[-1] == {"ok": 2}
        assert silent.recv(1) == b""
