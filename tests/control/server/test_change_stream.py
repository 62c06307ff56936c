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

from forewarn.control.server.change_stream import ChangeListener, ChangeStream, StreamPosition
from forewarn.core.commands import ChangeFleet, OperateVm, SetGroup, VmOperation
from forewarn.core.errors import BadInput
from forewarn.core.model import Caller, CallerKind, Vm
from tests.harness import FLEET, ApiHarness

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
def listening(
    harness: ApiHarness, token: str | None = None, path: str = "/v1/changes", **headers: str
) -> Iterator[Stream]:
    connection = harness.connect(token)
    bearing = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request("GET", path, headers={**bearing, **headers})
    answer = connection.getresponse()
    if answer.status == 200:
        assert answer.readline() == b": still here\n"
    yield Stream(connection, answer)
    connection.close()


def set_limit(harness: ApiHarness, group: str, limit: int) -> None:
    harness.do(SetGroup(id=uuid4().hex, by=ADA, group=group, postpone_limit=limit))


def test_every_fact_is_sent_once_and_in_order(harness: ApiHarness) -> None:
    """With its revision as id, its kind as event, and who caused it."""
    with listening(harness) as stream:
        harness.ask("POST", "/v1/vms/web-0/operations", {"operation": "freeze"})
        harness.ask("POST", "/v1/events/last/approve")
        first = stream.next()

        assert (first["id"], first["event"]) == ("2.0", "announced")
        assert first["data"]["fact"]["event"]["resources"] == ["web-0"]
        assert first["data"]["by"]["origin"] == "control.sock"
        approved, started = stream.next(), stream.next()
        assert [(each["id"], each["event"]) for each in (approved, started)] == [
            ("3.0", "approved"),
            ("3.1", "started"),
        ]


def test_who_was_away_gets_what_it_missed_and_then_what_comes(harness: ApiHarness) -> None:
    """From the fact behind the last one it saw, in the middle of an entry too; nothing twice."""
    harness.ask("POST", "/v1/vms/web-0/operations", {"operation": "freeze"})
    harness.ask("POST", "/v1/events/last/approve")

    with listening(harness, **{"Last-Event-ID": "3.0"}) as stream:
        set_limit(harness, "web", 60)
        assert stream.take(2) == ["started", "group-set"]
    with listening(harness, **{"Last-Event-ID": "1"}) as stream:
        assert stream.take(4) == ["announced", "approved", "started", "group-set"]


def test_what_happens_while_the_past_is_read_is_not_lost(harness: ApiHarness) -> None:
    """The past ends where the present begins."""
    plain = harness.journal.entries
    reading, release = threading.Event(), threading.Event()

    def slow(after: int = 0, limit: int | None = None) -> Any:
        if limit != 1:
            reading.set()
            release.wait(20)
        return plain(after, limit)

    harness.journal.entries = slow  # type: ignore[method-assign]  # it is to take its time
    with listening(harness, **{"Last-Event-ID": "0"}) as stream:
        reading.wait(20)
        set_limit(harness, "web", 60)
        release.set()
        assert stream.take(2) == ["fleet-changed", "group-set"]


@pytest.mark.parametrize("id_", ["1", "2.0", "3.0", "99"])
def test_what_is_no_longer_kept_is_gone_and_says_so(harness: ApiHarness, id_: str) -> None:
    """410, with one reset event that names where to go on."""
    plain = harness.journal.entries
    for limit in (60, 120, 180, 240):
        set_limit(harness, "web", limit)
    harness.journal.entries = lambda after=0, limit=None: plain(max(after, 3), limit)  # type: ignore[method-assign]

    with listening(harness, **{"Last-Event-ID": id_}) as stream:
        assert stream.answer.status == 410
        assert stream.answer.headers["Content-Type"].startswith("text/event-stream")
        reset = stream.next()
    assert (reset["event"], reset["id"]) == ("reset", "5")
    assert (reset["data"]["oldest"], reset["data"]["newest"]) == (4, 5)


def test_the_oldest_that_is_kept_can_be_resumed(harness: ApiHarness) -> None:
    """Whoever saw the one before it missed nothing."""
    plain = harness.journal.entries
    for limit in (60, 120, 180):
        set_limit(harness, "web", limit)
    harness.journal.entries = lambda after=0, limit=None: plain(max(after, 2), limit)  # type: ignore[method-assign]

    with listening(harness, **{"Last-Event-ID": "2"}) as stream:
        assert stream.take(2) == ["group-set", "group-set"]


@pytest.mark.parametrize("id_", ["x", "-1", "1.x", "9" * 30])
def test_an_id_that_is_none_is_refused(id_: str) -> None:
    """With an example of one."""
    with pytest.raises(BadInput, match=r"such as 4711\.0"):
        StreamPosition.read(id_)


def test_owners_hear_of_their_own_groups_alone(harness: ApiHarness) -> None:
    """Now and when they come back; in entries that concern several groups too."""
    harness.declare(FLEET + OTHERS)
    token = harness.token("ada", "owner", "web")

    def happen() -> None:
        harness.ask("POST", "/v1/hosts/h1/operations", {"operation": "freeze"})
        harness.ask("POST", "/v1/vms/shop-0/operations", {"operation": "freeze"})
        harness.ask("POST", "/v1/events/last/cancel")
        harness.enrol("shop", "shop-0")
        set_limit(harness, "shop", 60)
        harness.ask("POST", "/v1/vms/pool_0/operations", {"operation": "deallocate"})
        set_limit(harness, "web", 60)

    with listening(harness, token) as stream:
        happen()
        live = [stream.next() for _ in range(2)]
    with listening(harness, token, **{"Last-Event-ID": "0"}) as stream:
        history_harness = [stream.next() for _ in range(3)]

    assert [each["event"] for each in live] == ["announced", "group-set"]
    assert live[0]["data"]["fact"]["event"]["group"] == "web"
    assert history_harness[1:] == live
    assert history_harness[0]["data"]["fact"] == {"fact": "fleet-changed", "groups": 1, "vms": 2}


def test_what_takes_a_vm_away_is_told_to_its_owner(harness: ApiHarness) -> None:
    """Though the VM is no longer in the fleet when it is told."""
    token = harness.token("ada", "owner", "pool")
    with listening(harness, token) as stream:
        harness.ask("POST", "/v1/vms/pool_0/operations", {"operation": "delete"})
        event = next(iter(harness.node.replica.fleet.events))
        harness.finish(event)
        assert stream.take(4) == ["started-at-once", "attempted", "completed", "vm-removed"]


def test_what_changed_is_told_before_and_after(harness: ApiHarness) -> None:
    """Of a group's terms, and of VMs that were declared anew."""
    with listening(harness) as stream:
        set_limit(harness, "web", 60)
        harness.do(ChangeFleet(id=uuid4().hex, by=ADA, vms=(Vm("pool_0", "pool", "h2", spot=True),)))

        terms, fleet = stream.next()["data"]["fact"], stream.next()["data"]["fact"]
    assert terms["changed"] == {"policy.postpone_limit": {"before": 0, "after": 60}}
    assert fleet == {
        "fact": "fleet-changed",
        "vms": 1,
        "changed": {"pool_0.host": {"before": "h1", "after": "h2"}},
    }


def test_an_owner_is_told_that_its_vm_was_removed(harness: ApiHarness) -> None:
    """By name; another's owner is not told."""
    pool, web = harness.token("pat", "owner", "pool"), harness.token("will", "owner", "web")
    with listening(harness, pool) as theirs, listening(harness, web) as others:
        harness.do(ChangeFleet(id=uuid4().hex, by=ADA, removed_vms=("pool_0",)))
        set_limit(harness, "web", 60)

        assert theirs.next()["data"]["fact"] == {"fact": "fleet-changed", "removed_vms": 1, "removed": ["pool_0"]}
        assert others.take(1) == ["group-set"]


def test_nobody_is_told_secrets(harness: ApiHarness) -> None:
    """Neither hashes of tokens nor what messages are signed with; and only operators that they exist."""
    viewer = harness.token("eve", "viewer")
    with listening(harness) as stream, listening(harness, viewer) as other:
        harness.token("ada")
        body = {"name": "s", "kind": "webhook", "target": "https://example.org/"}
        secret = harness.ask("POST", "/v1/subscriptions", body).json["secret"]
        set_limit(harness, "web", 60)
        token, subscription = stream.next(), stream.next()

        assert "hash" not in token["data"]["fact"]["token"] or not token["data"]["fact"]["token"]["hash"]
        assert secret not in json.dumps(subscription)
        assert other.take(1) == ["group-set"]


def test_a_token_that_is_revoked_hears_no_more(harness: ApiHarness) -> None:
    """The stream ends with it."""
    token = harness.token("ada", "viewer")
    with listening(harness, token) as stream:
        harness.ask("DELETE", "/v1/tokens/ada")
        set_limit(harness, "web", 60)

        assert stream.answer.read() == b"\n"


def test_who_reads_too_slowly_is_let_go_of() -> None:
    """And is remembered no longer than that; it can come back with its last id."""
    slow = ChangeListener(None, most_waiting=1_000)  # type: ignore[arg-type]  # nobody asks who it is
    for _ in range(10):
        slow.put(b"x" * 101)

    assert slow.is_over
    assert not slow._waiting


def test_whoever_goes_away_is_forgotten(harness: ApiHarness) -> None:
    """Nothing is kept for those who no longer listen."""
    with listening(harness):
        assert harness.context.changes.listeners == 1
    for limit in range(1, 50):
        set_limit(harness, "web", limit)
        if not harness.context.changes.listeners:
            break

    assert harness.context.changes.listeners == 0


def test_silence_is_broken_by_a_heartbeat(harness: ApiHarness) -> None:
    """So that both ends know the other is there."""
    harness.context.changes = ChangeStream(harness.node, harness.journal, heartbeat=0.01)
    with listening(harness) as stream:
        assert [stream.answer.readline() for _ in range(3)] == [b"\n", b": still here\n", b"\n"]


def test_heartbeats_are_events_for_who_asks_for_them(harness: ApiHarness) -> None:
    """Scripts in a browser see no comments; a heartbeat has no id, so that a listener continues where it was."""
    harness.context.changes = ChangeStream(harness.node, harness.journal, heartbeat=0.01)
    with listening(harness, path="/v1/changes?beats=true") as stream:
        assert stream.next() == {"event": "beat", "data": {}}


def test_after_a_failure_of_the_journal_listeners_come_back_for_what_they_missed(harness: ApiHarness) -> None:
    """What became durable without being told is found behind the last id."""
    with listening(harness) as stream:
        harness.loop.call_soon_threadsafe(harness.node.replica.feed.load, harness.node.replica.fleet)
        assert stream.answer.read() == b"\n"


def test_owners_hear_of_events_from_before_the_service_began_to_answer(tmp_path: Path) -> None:
    """What was announced in an earlier life is known to be theirs."""
    harness = ApiHarness(tmp_path)
    harness.start()
    harness.declare(FLEET)
    harness.do(OperateVm(id=uuid4().hex, by=ADA, operation=VmOperation.FREEZE, vm="web-0"))
    harness.run(harness.control_plane.open)
    try:
        with listening(harness, harness.token("ada", "owner", "web")) as stream:
            harness.ask("POST", "/v1/events/last/approve")
            assert stream.take(2) == ["approved", "started"]
    finally:
        harness.stop()
