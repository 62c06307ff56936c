"""Changes as a stream: everything once and in order, resumed where it was left, and to owners their own."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from forewarn.control.changes import Listening, Place
from forewarn.core.commands import ChangeFleet, OperateVm, SetGroup, VmOperation
from forewarn.core.errors import BadInput
from forewarn.core.model import Caller, CallerKind, Vm
from tests.office import FLEET, Office

ADA = Caller(CallerKind.OPERATOR, "ada")
OTHERS = """
[[group]]
name = "shop"
kind = "availability-set"
[[vm]]
name = "shop-0"
group = "shop"
"""


class Stream:
    """One listener's end."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        self.answer = answer
        self._connection = connection

    def next(self) -> dict[str, Any]:
        """Return the next message; heartbeats are passed over."""
        fields: dict[str, str] = {}
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if not line and fields:
                return {**fields, "data": json.loads(fields["data"])}
            if line and not line.startswith(":"):
                key, _, value = line.partition(": ")
                fields[key] = value

    def take(self, count: int) -> list[str]:
        """Return the kinds of the next messages."""
        return [self.next()["event"] for _ in range(count)]


@contextmanager
def listening(office: Office, token: str | None = None, **headers: str) -> Iterator[Stream]:
    connection = office.connect(token)
    bearing = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request("GET", "/v1/changes", headers={**bearing, **headers})
    answer = connection.getresponse()
    if answer.status == 200:
        assert answer.readline() == b": still here\n"
    yield Stream(connection, answer)
    connection.close()


def set_limit(office: Office, group: str, limit: int) -> None:
    office.do(SetGroup(id=uuid4().hex, by=ADA, group=group, postpone_limit=limit))


def test_every_fact_is_sent_once_and_in_order(office: Office) -> None:
    """With its revision as id, its kind as event, and who caused it."""
    with listening(office) as stream:
        office.ask("POST", "/v1/vms/web-0/operations", {"operation": "freeze"})
        office.ask("POST", "/v1/events/last/approve")
        first = stream.next()

        assert (first["id"], first["event"]) == ("2.0", "announced")
        assert first["data"]["fact"]["event"]["resources"] == ["web-0"]
        assert first["data"]["by"]["origin"] == "control.sock"
        approved, started = stream.next(), stream.next()
        assert [(each["id"], each["event"]) for each in (approved, started)] == [
            ("3.0", "approved"),
            ("3.1", "started"),
        ]


def test_who_was_away_gets_what_it_missed_and_then_what_comes(office: Office) -> None:
    """From the fact behind the last one it saw, in the middle of an entry too; nothing twice."""
    office.ask("POST", "/v1/vms/web-0/operations", {"operation": "freeze"})
    office.ask("POST", "/v1/events/last/approve")

    with listening(office, **{"Last-Event-ID": "3.0"}) as stream:
        set_limit(office, "web", 60)
        assert stream.take(2) == ["started", "group-set"]
    with listening(office, **{"Last-Event-ID": "1"}) as stream:
        assert stream.take(4) == ["announced", "approved", "started", "group-set"]


def test_what_happens_while_the_past_is_read_is_not_lost(office: Office) -> None:
    """The past ends where the present begins."""
    plain = office.journal.entries
    reading, release = threading.Event(), threading.Event()

    def slow(after: int = 0, limit: int | None = None) -> Any:
        if limit != 1:
            reading.set()
            release.wait(20)
        return plain(after, limit)

    office.journal.entries = slow  # type: ignore[method-assign]  # it is to take its time
    with listening(office, **{"Last-Event-ID": "0"}) as stream:
        reading.wait(20)
        set_limit(office, "web", 60)
        release.set()
        assert stream.take(2) == ["fleet-changed", "group-set"]


@pytest.mark.parametrize("id_", ["1", "2.0", "3.0", "99"])
def test_what_is_no_longer_kept_is_gone_and_says_so(office: Office, id_: str) -> None:
    """410, with one reset event that names where to go on."""
    plain = office.journal.entries
    for limit in (60, 120, 180, 240):
        set_limit(office, "web", limit)
    office.journal.entries = lambda after=0, limit=None: plain(max(after, 3), limit)  # type: ignore[method-assign]

    with listening(office, **{"Last-Event-ID": id_}) as stream:
        assert stream.answer.status == 410
        assert stream.answer.headers["Content-Type"].startswith("text/event-stream")
        reset = stream.next()
    assert (reset["event"], reset["id"]) == ("reset", "5")
    assert (reset["data"]["oldest"], reset["data"]["newest"]) == (4, 5)


def test_the_oldest_that_is_kept_can_be_resumed(office: Office) -> None:
    """Whoever saw the one before it missed nothing."""
    plain = office.journal.entries
    for limit in (60, 120, 180):
        set_limit(office, "web", limit)
    office.journal.entries = lambda after=0, limit=None: plain(max(after, 2), limit)  # type: ignore[method-assign]

    with listening(office, **{"Last-Event-ID": "2"}) as stream:
        assert stream.take(2) == ["group-set", "group-set"]


@pytest.mark.parametrize("id_", ["x", "-1", "1.x", "9" * 30])
def test_an_id_that_is_none_is_refused(id_: str) -> None:
    """With an example of one."""
    with pytest.raises(BadInput, match=r"such as 4711\.0"):
        Place.read(id_)


def test_owners_hear_of_their_own_groups_alone(office: Office) -> None:
    """Now and when they come back; in entries that concern several groups too."""
    office.declare(FLEET + OTHERS)
    token = office.token("ada", "owner", "web")

    def happen() -> None:
        office.ask("POST", "/v1/hosts/h1/operations", {"operation": "freeze"})
        office.ask("POST", "/v1/vms/shop-0/operations", {"operation": "freeze"})
        office.ask("POST", "/v1/events/last/cancel")
        office.enrol("shop", "shop-0")
        set_limit(office, "shop", 60)
        office.ask("POST", "/v1/vms/pool_0/operations", {"operation": "deallocate"})
        set_limit(office, "web", 60)

    with listening(office, token) as stream:
        happen()
        live = [stream.next() for _ in range(2)]
    with listening(office, token, **{"Last-Event-ID": "0"}) as stream:
        past = [stream.next() for _ in range(3)]

    assert [each["event"] for each in live] == ["announced", "group-set"]
    assert live[0]["data"]["fact"]["event"]["group"] == "web"
    assert past[1:] == live
    assert past[0]["data"]["fact"] == {"fact": "fleet-changed", "groups": 1, "vms": 2}


def test_what_takes_a_vm_away_is_told_to_its_owner(office: Office) -> None:
    """Though the VM is no longer in the fleet when it is told."""
    token = office.token("ada", "owner", "pool")
    with listening(office, token) as stream:
        office.ask("POST", "/v1/vms/pool_0/operations", {"operation": "delete"})
        event = next(iter(office.node.fleet.events))
        office.finish(event)
        assert stream.take(4) == ["started-at-once", "attempted", "completed", "vm-removed"]


def test_what_changed_is_told_before_and_after(office: Office) -> None:
    """Of a group's terms, and of VMs that were declared anew."""
    with listening(office) as stream:
        set_limit(office, "web", 60)
        office.do(ChangeFleet(id=uuid4().hex, by=ADA, vms=(Vm("pool_0", "pool", "h2", spot=True),)))

        terms, fleet = stream.next()["data"]["fact"], stream.next()["data"]["fact"]
    assert terms["changed"] == {"policy.postpone_limit": {"before": 0, "after": 60}}
    assert fleet == {
        "fact": "fleet-changed",
        "vms": 1,
        "changed": {"pool_0.host": {"before": "h1", "after": "h2"}},
    }


def test_an_owner_is_told_that_its_vm_was_removed(office: Office) -> None:
    """By name; another's owner is not told."""
    pool, web = office.token("pat", "owner", "pool"), office.token("will", "owner", "web")
    with listening(office, pool) as theirs, listening(office, web) as others:
        office.do(ChangeFleet(id=uuid4().hex, by=ADA, removed_vms=("pool_0",)))
        set_limit(office, "web", 60)

        assert theirs.next()["data"]["fact"] == {"fact": "fleet-changed", "removed_vms": 1, "removed": ["pool_0"]}
        assert others.take(1) == ["group-set"]


def test_nobody_is_told_secrets(office: Office) -> None:
    """Neither hashes of tokens nor what messages are signed with; and only operators that they exist."""
    viewer = office.token("eve", "viewer")
    with listening(office) as stream, listening(office, viewer) as other:
        office.token("ada")
        body = {"name": "s", "kind": "webhook", "target": "https://example.org/"}
        secret = office.ask("POST", "/v1/subscriptions", body).json["secret"]
        set_limit(office, "web", 60)
        token, subscription = stream.next(), stream.next()

        assert "hash" not in token["data"]["fact"]["token"] or not token["data"]["fact"]["token"]["hash"]
        assert secret not in json.dumps(subscription)
        assert other.take(1) == ["group-set"]


def test_a_token_that_is_revoked_hears_no_more(office: Office) -> None:
    """The stream ends with it."""
    token = office.token("ada", "viewer")
    with listening(office, token) as stream:
        office.ask("DELETE", "/v1/tokens/ada")
        set_limit(office, "web", 60)

        assert stream.answer.read() == b"\n"


def test_who_reads_too_slowly_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is remembered no longer than that; it can come back with its last id."""
    monkeypatch.setattr("forewarn.control.changes._MOST_WAITING", 1_000)
    slow = Listening(None)  # type: ignore[arg-type]  # nobody asks who it is
    for _ in range(10):
        slow.put(b"x" * 101)

    assert slow.is_over
    assert not slow._waiting


def test_whoever_goes_away_is_forgotten(office: Office) -> None:
    """Nothing is kept for those who no longer listen."""
    with listening(office):
        assert office.plane.changes.listeners == 1
    for limit in range(1, 50):
        set_limit(office, "web", limit)
        if not office.plane.changes.listeners:
            break

    assert office.plane.changes.listeners == 0


def test_silence_is_broken_by_a_heartbeat(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that both ends know the other is there."""
    monkeypatch.setattr("forewarn.control.changes._HEARTBEAT", 0.01)
    with listening(office) as stream:
        assert [stream.answer.readline() for _ in range(3)] == [b"\n", b": still here\n", b"\n"]


def test_after_a_failure_of_the_journal_listeners_come_back_for_what_they_missed(office: Office) -> None:
    """What became durable without being told is found behind the last id."""
    with listening(office) as stream:
        office.loop.call_soon_threadsafe(office.node.feed.load, office.node.fleet)
        assert stream.answer.read() == b"\n"


def test_owners_hear_of_events_from_before_the_service_began_to_answer(tmp_path: Path) -> None:
    """What was announced in an earlier life is known to be theirs."""
    office = Office(tmp_path)
    office.start()
    office.declare(FLEET)
    office.do(OperateVm(id=uuid4().hex, by=ADA, operation=VmOperation.FREEZE, vm="web-0"))
    office.run(office.entrance.open)
    try:
        with listening(office, office.token("ada", "owner", "web")) as stream:
            office.ask("POST", "/v1/events/last/approve")
            assert stream.take(2) == ["approved", "started"]
    finally:
        office.stop()
