"""The client: what is said when the service is not there or goes away, and how errors come back."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from forewarn.control.bodies import (
    FieldError,
    ProblemDetails,
    SubscriptionBody,
    TermsBody,
    TokenBody,
    VmOperationBody,
)
from forewarn.control.client import ControlClient
from forewarn.control.problems import KINDS, TooManyFailures, Unauthenticated, error_of, problem_of
from forewarn.control.transport import UnixTransport
from forewarn.core.errors import BadInput, ForewarnError, NotAllowed, OutcomeUnknown, Refused, Unavailable, Unknown
from forewarn.core.model import Role, SubscriptionKind, Vm
from forewarn.fleetfile.diff import FleetDiff
from tests.harness import ApiHarness


@contextmanager
def answering(directory: Path, *answers: bytes) -> Iterator[None]:
    """Be a service that says one thing on each connection, and hangs up."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "control.sock"))
        listener.listen()

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(10_000)
                    connection.sendall(answer)

        service = threading.Thread(target=serve)
        service.start()
        yield
        service.join(20)


def answer(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def test_a_service_that_is_not_there_is_said_so_with_the_remedy(tmp_path: Path) -> None:
    """One sentence that names the directory and what to type."""
    with (
        pytest.raises(Unavailable, match=f"no service answers in {tmp_path}; start one with 'forewarn serve"),
        ControlClient.local(tmp_path) as client,
    ):
        client.me()


def test_a_service_elsewhere_that_is_not_there_is_named() -> None:
    """With what the system says of it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(Unavailable, match=f"no service answers at {url}: Connection refused"):
            ControlClient.remote(url, "fw_x").me()


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"])
def test_a_service_that_goes_away_leaves_it_open_what_was_done(tmp_path: Path, said: bytes) -> None:
    """And how to find out."""
    with (
        answering(tmp_path, said),
        pytest.raises(Unavailable, match="may have been done or not: look with 'forewarn event list") as lost,
        ControlClient.local(tmp_path) as client,
    ):
        client.approve("last", key="monday")

    assert str(lost.value).endswith(", or repeat it: forewarn --idempotency-key monday ...")


UNSURE = msgspec.json.encode(problem_of(OutcomeUnknown("it is not known; ask again with the same key")))


def test_a_stream_of_changes_ends_with_the_service(tmp_path: Path) -> None:
    """Whole lines are read, however they are cut; what follows the last of them is dropped."""
    stream = b"HTTP/1.1 200 OK\r\n\r\nevent: event.started\ndata: {}\n\nevent: event.ended\nevent: ev"
    with answering(tmp_path, stream), ControlClient.local(tmp_path) as client:
        assert list(client.change_kinds()) == ["reset", "event.started", "event.ended"]


def test_a_stream_of_changes_that_is_refused_is_raised(tmp_path: Path) -> None:
    """As any other request is."""
    problem = msgspec.json.encode(problem_of(NotAllowed("not for you")))
    with (
        answering(tmp_path, answer(problem, "403 Forbidden")),
        ControlClient.local(tmp_path) as client,
        pytest.raises(NotAllowed, match="not for you"),
    ):
        next(client.change_kinds())


def test_what_became_of_a_request_is_asked_again_under_the_same_key(tmp_path: Path) -> None:
    """A service that does not know whether it recorded something is asked until it does."""
    unsure = answer(UNSURE, "503 Service Unavailable")
    client = ControlClient(UnixTransport(tmp_path), pauses=(0.0, 0.0))
    with answering(tmp_path, unsure, unsure, answer(b"")), client:
        client.revoke_token("ada")


def test_a_request_that_stays_unknown_names_its_key(tmp_path: Path) -> None:
    """After that it is for the user to ask again, with the key that is named."""
    unsure = answer(UNSURE, "503 Service Unavailable")
    with (
        answering(tmp_path, unsure, unsure),
        pytest.raises(
            OutcomeUnknown, match=r"same key \(monday; on the command line: forewarn --idempotency-key monday"
        ),
        ControlClient(UnixTransport(tmp_path), pauses=(0.0,)) as client,
    ):
        client.revoke_token("ada", key="monday")


def test_a_connection_that_was_closed_in_between_is_made_anew(tmp_path: Path) -> None:
    """A kept connection may end while nobody uses it; the request is sent once more."""
    page = answer(b'{"items":[{"name":"h1","vms":0}],"next":null}')
    with answering(tmp_path, page, page), ControlClient.local(tmp_path) as client:
        assert [host.name for host in client.hosts()] == ["h1"]
        assert [host.name for host in client.hosts()] == ["h1"]


@pytest.mark.parametrize("said", [answer(b"hello"), answer(b'{"items": 1}'), answer(b"<h1>", "502 Bad Gateway")])
def test_an_answer_that_makes_no_sense_is_said_to_be_one(tmp_path: Path, said: bytes) -> None:
    """Whatever answers there, it is no service of ours."""
    with (
        answering(tmp_path, said),
        pytest.raises(Unavailable, match=r"sent an invalid response|may not be Forewarn"),
        ControlClient.local(tmp_path) as client,
    ):
        list(client.hosts())


@pytest.mark.parametrize("url", ["forewarn.example.org", "ftp://x", "http://", "http://x:99999", "https://x/v1", "x"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """With an example of a good one."""
    with pytest.raises(BadInput, match="write it like https://"):
        ControlClient.remote(url, "")


@pytest.mark.parametrize("family", KINDS)
def test_every_error_comes_back_as_what_it_was(family: type[ForewarnError]) -> None:
    """The command line ends as it would have beside the service; an invalid token is a refusal."""
    error = TooManyFailures(3) if family is TooManyFailures else family("why")
    back = error_of(problem_of(error))

    assert type(back) is (NotAllowed if family in (TooManyFailures, Unauthenticated) else family)
    assert str(back) == str(error) or family is Unauthenticated


def test_a_token_that_is_not_accepted_comes_with_the_remedy() -> None:
    """What the API says of headers helps nobody at a terminal."""
    said = str(error_of(problem_of(Unauthenticated("send it as 'Authorization: Bearer fw_...'"))))

    assert "ask an operator for another ('forewarn token create'), and log in with it" in said


def test_what_is_wrong_with_a_request_is_said_once() -> None:
    """The detail of a problem has its errors already."""
    misfit = FieldError("body.count", "Expected `int` <= 7")
    problem = ProblemDetails(
        type="bad-input", title="", status=400, detail="mend: body.count: Expected `int` <= 7", errors=(misfit,)
    )

    assert str(error_of(problem)) == "mend: body.count: Expected `int` <= 7"


def test_a_name_with_a_slash_is_found_by_its_id(client: ControlClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """No path can hold it; what an earlier release created can be revoked, and what cannot exist is not there."""
    monkeypatch.setattr("forewarn.core.tokens._check_name", lambda *_: None)
    client.create_token(TokenBody(name="a/b", role=Role.VIEWER))
    client.add_subscription(
        SubscriptionBody(name="c/d", kind=SubscriptionKind.WEBHOOK, target="https://example.org/hook")
    )
    client.rotate_token("a/b")
    client.revoke_token("a/b")
    client.remove_subscription("c/d")

    assert (list(client.tokens()), list(client.subscriptions())) == ([], [])
    with pytest.raises(Unknown, match="there is no token 'a/b'"):
        client.revoke_token("a/b")
    for name in ("a/b", "..", "../vms"):
        with pytest.raises(Unknown, match="names do not contain '/'"):
            client.vm(name)


@pytest.mark.parametrize("token", ["fw_\n", "fw_ü", "a\r\nHost: x"])
def test_a_token_that_no_header_can_hold_is_refused(token: str) -> None:
    """Before it is sent."""
    with pytest.raises(BadInput, match="copy it again, in one line"):
        ControlClient.remote("https://forewarn.example.org", token)


def test_refusals_are_raised(harness: ApiHarness, client: ControlClient) -> None:
    """Unknown names, rules, and what a role may not."""
    with pytest.raises(Unknown, match="there is no VM 'web-9'; did you mean"):
        client.vm("web-9")
    with pytest.raises(Refused, match="too early"):
        client.operate_vm("web-0", VmOperationBody(operation="restart", not_before=datetime(2020, 1, 1, tzinfo=UTC)))
    viewer = ControlClient.remote(f"http://127.0.0.1:{harness.control_plane.port}", harness.token("eve", "viewer"))
    with viewer, pytest.raises(NotAllowed, match="a viewer may not"):
        viewer.approve("last")


def test_names_are_sent_as_they_are(client: ControlClient) -> None:
    """Slashes, spaces and question marks reach the service as a name."""
    for name in ("a/b", "a b?c=d", "..", "%2e", "", "ü"):
        with pytest.raises((Unknown, BadInput)):
            client.vm(name)


def test_lists_are_read_page_by_page(harness: ApiHarness) -> None:
    """Everything comes once, in order."""
    text = "".join(f'[[vm]]\nname = "vm-{number:03}"\n' for number in range(50))
    harness.declare(text)

    with ControlClient(UnixTransport(harness.directory), page=7) as client:
        assert [vm.name for vm in client.vms()] == [f"vm-{number:03}" for number in range(50)]
        assert sum(len(page.vms) for page in client.declared()) == 50


def test_a_change_of_any_size_is_sent_in_lines(harness: ApiHarness) -> None:
    """And happens as one."""
    vms = tuple(Vm(f"new-{number}", "web") for number in range(5))
    with ControlClient(UnixTransport(harness.directory), slice_=2) as client:
        result = client.change_fleet(FleetDiff(vms=vms, removed_vms=("db",)))

    assert (result.changed["vms"], result.changed["removed_vms"]) == (5, 1)
    assert {"new-4", "web-0"} <= harness.node.replica.fleet.vms.keys()


def test_a_change_that_met_another_fleet_is_refused(client: ControlClient) -> None:
    """Somebody else changed it in between."""
    (page,) = client.declared()
    client.set_terms("web", TermsBody(postpone_limit=60))
    with pytest.raises(Refused, match="changed in the meantime"):
        client.change_fleet(FleetDiff(removed_vms=("db",)), seen=page.changes)


def test_the_same_key_does_it_once(harness: ApiHarness, client: ControlClient) -> None:
    """And tells the same."""
    harness.enrol("web", "web-0")
    body = VmOperationBody(operation="restart")

    assert client.operate_vm("web-0", body, "mine") == client.operate_vm("web-0", body, "mine")
    assert len(harness.node.replica.fleet.events) == 1


def test_a_token_is_created_rotated_and_revoked(harness: ApiHarness, client: ControlClient) -> None:
    """The old one opens nothing once it is rotated."""
    url = f"http://127.0.0.1:{harness.control_plane.port}"
    first = client.create_token(TokenBody(name="ada", role=Role.VIEWER, lasts=3_600))
    second = client.rotate_token("ada")

    with ControlClient.remote(url, first.token) as old, pytest.raises(NotAllowed):
        old.me()
    with ControlClient.remote(url, second.token) as new:
        assert new.me().name == "ada"
        client.revoke_token(second.id)
        with pytest.raises(NotAllowed):
            new.me()
    assert list(client.tokens()) == []


@pytest.mark.end_to_end
def test_the_client_needs_nothing_of_the_server() -> None:
    """Commands start fast, and work where only they are installed."""
    found = subprocess.run(
        [sys.executable, "-c", "import sys, forewarn.control.client; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()

    assert not {"litestar", "uvicorn", "httptools", "uvloop", "forewarn.node", "forewarn.journal"} & set(found)
