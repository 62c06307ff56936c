"""Idempotency keys: one request, one principal, one answer, for as long as it is on record."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from forewarn.config.settings import LEAST_HISTORY
from forewarn.control.access import Bearer
from forewarn.control.api.idempotency import Locks, command_id
from forewarn.control.bodies import Sent
from forewarn.control.notices.delivery import Delivery
from forewarn.core.commands import OperateVm, VmOperation
from forewarn.core.model import Caller, CallerKind
from forewarn.core.outsiders import Role, Subscription
from forewarn.journal.port import JournalFailed
from forewarn.journal.sqlite import SqliteJournal
from tests.control.api.document import DOCUMENT
from tests.office import Office, Said, opened

FREEZE = {"operation": "freeze"}
VM = "/v1/vms/web-0/operations"
ADA = Caller(CallerKind.OPERATOR, "ada")
REPLAYED = "idempotent-replayed"


def send(
    office: Office, key: str, path: str = VM, body: object = FREEZE, *, method: str = "POST", token: str | None = None
) -> Said:
    return office.ask(method, path, body, token=token, headers={"Idempotency-Key": key})


def carried_out(office: Office) -> int:
    return len(office.node.fleet.events)


def bearer(token: str = "", uid: int | None = None) -> Bearer:
    return Bearer(ADA, Role.OPERATOR, token=token, uid=uid)


class Deliveries:
    """Sends tests to subscribers, and counts them."""

    def __init__(self) -> None:
        self.sent = 0

    def check(self, subscription: Subscription) -> None:
        """Refuse nobody."""

    def delivery_of(self, subscription: str) -> Delivery:
        return Delivery()

    async def send_test(self, subscription: Subscription) -> Sent:
        self.sent += 1
        return Sent(detail="it arrived")


def test_a_command_id_is_made_of_principal_and_key_and_cannot_be_confused() -> None:
    """Neither another kind of principal, nor a key that begins where an id ends, gives the same id."""
    ids = {
        command_id(bearer("a"), "bc"),
        command_id(bearer("ab"), "c"),
        command_id(bearer("a/b"), "c"),
        command_id(bearer("a"), "b/c"),
        command_id(bearer("1000"), "k"),
        command_id(bearer(uid=1000), "k"),
        command_id(bearer(uid=100), "0k"),
    }

    assert len(ids) == 7
    assert all(str(UUID(id_)) == id_ for id_ in ids)
    assert command_id(bearer("a"), "k") == command_id(bearer("a"), "k")


@pytest.mark.parametrize("key", ["9d1c2b54-6f0e-4c7e-9d5e-0a4c7f1b2e30", "the first one of today"])
def test_the_same_request_gets_the_same_answer(office: Office, key: str) -> None:
    """Status, operation and events, marked as a replay; it was carried out once."""
    first, second = send(office, key), send(office, key)

    assert (first.status, first.body) == (second.status, second.body)
    assert (first.headers.get(REPLAYED), second.headers.get(REPLAYED)) == (None, "true")
    assert carried_out(office) == 1


def test_without_a_key_every_request_is_another(office: Office) -> None:
    """Nothing is remembered of it."""
    first, second = office.ask("POST", VM, FREEZE), office.ask("POST", VM, FREEZE)

    assert first.json["operation"] != second.json["operation"]
    assert REPLAYED not in second.headers


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/vms/web-1/operations", FREEZE),
        ("POST", VM, {"operation": "redeploy"}),
        ("POST", VM, b'{ "operation": "freeze" }'),
        ("PATCH", "/v1/groups/web", {"approval": "all"}),
        ("PATCH", "/v1/fleet", {"hosts": [{"name": "h3"}]}),
        ("DELETE", "/v1/tokens/nobody", None),
    ],
)
def test_another_request_under_a_used_key_is_409(office: Office, method: str, path: str, body: object) -> None:
    """Whether method, path or body differs; bodies are compared byte for byte."""
    send(office, "one")
    revision = office.node.revision
    said = send(office, "one", path, body, method=method)

    assert (said.status, said.json["detail"]) == (
        409,
        "this Idempotency-Key was used for another request; use a new key for each request",
    )
    assert (office.node.revision, REPLAYED in said.headers) == (revision, False)


def test_a_refused_request_records_nothing_and_may_be_sent_again(office: Office) -> None:
    """Under the same key, or as another request under it."""
    refused = send(office, "one", "/v1/vms/web-9/operations")
    revision = office.node.revision
    done = send(office, "one")

    assert (refused.status, done.status, revision) == (404, 201, 1)
    assert REPLAYED not in done.headers


def test_a_request_that_changed_nothing_is_recorded_with_its_key(office: Office) -> None:
    """It is a success; its key is used."""
    approve = f"/v1/events/{send(office, 'a').json['announcements'][0]['event']['id'][:8]}/approve"
    send(office, "b", approve, None)
    unchanged = send(office, "c", approve, None)
    again = send(office, "c", approve, None)

    assert unchanged.json["announcements"][0]["event"]["status"] == "Started"
    assert (again.status, again.body, again.headers[REPLAYED]) == (unchanged.status, unchanged.body, "true")
    assert send(office, "c").status == 409


def test_a_replay_tells_how_events_stood_when_it_was_first_answered(office: Office) -> None:
    """The operation itself tells how they stand now."""
    first = send(office, "a")
    event = first.json["announcements"][0]["event"]["id"]
    send(office, "b", f"/v1/events/{event}/approve", None)
    office.finish(event.lower())
    now = office.ask("GET", f"/v1/operations/{first.json['operation']}").json

    assert send(office, "a").json == first.json
    assert now["announcements"][0]["event"] == {
        **first.json["announcements"][0]["event"], "status": "Completed", "not_before": None
    }  # fmt: skip


def test_what_a_request_named_may_be_gone_when_it_is_repeated(office: Office) -> None:
    """A VM that it deleted, a group whose terms it set, the event that was the last one then."""
    approve = "/v1/events/last/approve"
    send(office, "a")
    first = [
        send(office, "b", approve, None),
        send(office, "c", "/v1/groups/db", {"approval": "all"}, method="PATCH"),
        send(office, "d", "/v1/groups/db", {"approval": "all"}, method="PATCH"),
        send(office, "e", "/v1/vms/db/operations", {"operation": "delete"}),
    ]
    office.finish(first[0].json["announcements"][0]["event"]["id"].lower())
    office.finish(first[3].json["announcements"][0]["event"]["id"].lower())
    send(office, "f", "/v1/fleet", {"removed_groups": ["db"]}, method="PATCH")
    send(office, "g", "/v1/vms/web-1/operations")
    again = [
        send(office, "b", approve, None),
        send(office, "c", "/v1/groups/db", {"approval": "all"}, method="PATCH"),
        send(office, "d", "/v1/groups/db", {"approval": "all"}, method="PATCH"),
        send(office, "e", "/v1/vms/db/operations", {"operation": "delete"}),
    ]

    assert "db" not in office.node.fleet.groups
    assert [said.status for said in again] == [said.status for said in first] == [201, 200, 200, 201]
    assert (again[0].body, again[3].body) == (first[0].body, first[3].body)
    assert [said.json["approval"] for said in again[1:3]] == ["all", "all"]
    assert all(said.headers[REPLAYED] == "true" for said in again)


def test_tenants_with_confusable_names_do_not_get_each_others_answers(office: Office) -> None:
    """A key belongs to the token's id, whatever its name."""
    first, second = office.token("ops/x"), office.token("ops")
    own = send(office, "k", token=first).json
    others = [
        send(office, "x/k", token=second),
        send(office, "k", token=second),
        send(office, "k"),
        send(office, "k", token=office.token("operator")),
    ]

    assert all(REPLAYED not in said.headers for said in others)
    assert len({own["operation"], *(said.json["operation"] for said in others)}) == 5


def test_a_rotated_token_keeps_its_keys_and_its_id(office: Office) -> None:
    """The bearer is the same; the old secret opens nothing."""
    old = office.token("ops")
    first = send(office, "k", token=old)
    told = office.ask("POST", "/v1/tokens/ops/rotate").json

    assert told["id"] == old.split("_")[1]
    assert send(office, "k", token=told["token"]).body == first.body
    assert send(office, "k", token=old).status == 401


def test_a_name_given_anew_inherits_no_keys(office: Office) -> None:
    """Another token is another principal."""
    first = send(office, "k", token=office.token("ops")).json
    office.ask("DELETE", "/v1/tokens/ops")
    second = send(office, "k", token=office.token("ops"))

    assert (second.status, REPLAYED in second.headers) == (201, False)
    assert second.json["operation"] != first["operation"]


def test_keys_of_earlier_releases_are_not_honoured(office: Office) -> None:
    """There an operator's UUID was the id of the command, and no fingerprint was recorded."""
    key = str(uuid4())
    office.do(OperateVm(id=key, by=ADA, operation=VmOperation.FREEZE, vm="web-0"))
    office.do(OperateVm(id=command_id(bearer("t"), key), by=ADA, operation=VmOperation.FREEZE, vm="web-0"))
    said = send(office, key)

    assert (said.status, REPLAYED in said.headers) == (201, False)


def test_a_tokens_secret_is_shown_once(office: Office) -> None:
    """The repetition is refused and names the token, whether it was created or rotated."""
    body = {"name": "ada", "role": "viewer"}
    made = send(office, "k", "/v1/tokens", body)
    again = send(office, "k", "/v1/tokens", body)
    rotated = send(office, "r", "/v1/tokens/ada/rotate", None)
    twice = send(office, "r", "/v1/tokens/ada/rotate", None)

    assert [said.status for said in (made, again, rotated, twice)] == [201, 409, 201, 409]
    for refused in (again, twice):
        assert refused.json["detail"].startswith(f"token 'ada' ({made.json['id']}) was created")
        assert "rotate the token" in refused.json["detail"]
    assert "token" not in office.ask("GET", "/v1/tokens").json["items"][0]


ROWS: dict[str, tuple[str, object]] = {
    "operate-vm": ("/v1/vms/web-0/operations", {"operation": "restart"}),
    "move-vm": ("/v1/vms/web-0/move", {"host": "h2"}),
    "operate-host": ("/v1/hosts/h1/operations", FREEZE),
    "scale-in": ("/v1/groups/pool/scale-in", {"count": 1}),
    "reclaim-spot": ("/v1/spot/reclaim", {"count": 1}),
    "set-terms": ("/v1/groups/web", {"approval": "all"}),
    "approve": ("/v1/events/last/approve", None),
    "postpone": ("/v1/events/last/postpone", {"seconds": 60}),
    "cancel": ("/v1/events/last/cancel", None),
    "change-fleet": ("/v1/fleet", {"hosts": [{"name": "h3"}]}),
    "apply-declaration": ("/v1/fleet/declaration", {"hosts": [{"name": "h3"}], "seen": 1}),
    "create-token": ("/v1/tokens", {"name": "t", "role": "viewer"}),
    "rotate-token": ("/v1/tokens/old/rotate", None),
    "revoke-token": ("/v1/tokens/old", None),
    "add-subscription": ("/v1/subscriptions", {"name": "s", "kind": "webhook", "target": "https://example.org/"}),
    "remove-subscription": ("/v1/subscriptions/old", None),
    "test-subscription": ("/v1/subscriptions/old/test", None),
}
"""A request for every route that changes something, in a small fleet with an event, a token and a subscription."""
CHANGE_NOTHING = {"plan-declaration"}
METHODS = {
    operation["operationId"]: method.upper()
    for item in DOCUMENT["paths"].values()
    for method, operation in item.items()
    if method not in ("get", "parameters") and operation["operationId"] not in CHANGE_NOTHING
}
SECRET = {"create-token", "rotate-token"}


def test_every_route_that_changes_something_is_tried() -> None:
    """A new one needs a row here."""
    assert METHODS.keys() == ROWS.keys()


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("way", ["socket", "port"])
def test_every_route_is_carried_out_once_under_its_key(office: Office, name: str, way: str) -> None:
    """On the socket and on the port; it takes the key, records it, and answers the same again."""
    tests = Deliveries()
    office.plane.deliveries = tests
    token = office.token("sender") if way == "port" else None
    office.token("old")
    office.ask("POST", "/v1/subscriptions", {"name": "old", "kind": "webhook", "target": "https://example.org/"})
    office.ask("PATCH", "/v1/groups/db", {"postpone_limit": 600})
    office.ask("POST", "/v1/vms/db/operations", FREEZE)
    path, body = ROWS[name]
    first = send(office, "k", path, body, method=METHODS[name], token=token)
    revision = office.node.revision
    again = send(office, "k", path, body, method=METHODS[name], token=token)
    other = send(office, "k", "/v1/vms/web-1/operations", token=token)

    assert first.status in (200, 201, 204), first
    assert again.status == (409 if name in SECRET else first.status)
    assert name in SECRET or again.body == first.body or tests.sent == 1
    assert again.headers[REPLAYED] == "true"
    assert (other.status, office.node.revision) == (409, revision)


def test_a_repetition_waits_for_the_first_that_is_under_way(office: Office) -> None:
    """It gets that answer; another request under the key then is refused."""
    held, entered = threading.Event(), threading.Event()
    append = office.journal.append

    def slow(*given: Any) -> None:
        entered.set()
        held.wait(20)
        append(*given)

    office.journal.append = slow  # type: ignore[method-assign, assignment]
    said: dict[str, Said] = {}

    def ask(name: str, *given: Any) -> None:
        said[name] = send(office, "k", *given)

    threads = [threading.Thread(target=ask, args=("first",))]
    threads[0].start()
    assert entered.wait(20)
    threads += [threading.Thread(target=ask, args=("again",)), threading.Thread(target=ask, args=("other", VM, {}))]
    threads += [threading.Thread(target=ask, args=("another", "/v1/vms/web-1/operations"))]
    for thread in threads[1:]:
        thread.start()
    held.set()
    for thread in threads:
        thread.join(20)

    assert {name: answer.status for name, answer in said.items()} == {
        "first": 201,
        "again": 201,
        "other": 400,
        "another": 409,
    }
    assert said["again"].body == said["first"].body
    assert said["again"].headers[REPLAYED] == "true"
    assert carried_out(office) == 1


def test_what_may_have_been_recorded_is_found_out_by_asking_again(office: Office) -> None:
    """Not carried out twice, and never called unchanged, while the journal cannot tell and afterwards."""
    journal, append, load = office.journal, office.journal.append, office.journal.load

    def fail(*_: Any) -> Any:
        raise JournalFailed("the disk is gone")

    def append_and_fail(*given: Any) -> None:
        append(*given)
        fail()

    journal.append, journal.load = append_and_fail, fail  # type: ignore[method-assign, assignment]
    unknown = [send(office, "k"), send(office, "k")]
    journal.append, journal.load = append, load  # type: ignore[method-assign]
    office.clock.advance(timedelta(minutes=1))
    told = send(office, "k")

    for said in unknown:
        assert (said.status, said.json["type"]) == (503, "urn:forewarn:problem:outcome-unknown")
        assert "ask again with the same key" in said.json["detail"]
    assert (told.status, told.headers[REPLAYED], carried_out(office)) == (201, "true", 1)


def test_nothing_is_kept_of_locks_that_nobody_holds() -> None:
    """There are as many as there are requests under way."""
    locks = Locks()
    lock = locks.of("a")

    assert locks.of("a") is lock
    del lock
    assert not locks._held


@contextmanager
def reopened(directory: Path, journal: SqliteJournal, now: timedelta = timedelta()) -> Iterator[Office]:
    with opened(directory, journal=journal) as office:
        office.clock.advance(now)
        yield office
    journal.close()


def _nothing(journal: SqliteJournal, office: Office) -> None:
    """Let the service start again, and nothing else happen."""


def _snapshot(journal: SqliteJournal, office: Office) -> None:
    office.run(lambda: asyncio.to_thread(journal.take_snapshot))


def _compaction(journal: SqliteJournal, office: Office) -> None:
    """Take two snapshots and delete all that may be deleted, a little less than a day later."""
    office.clock.advance(LEAST_HISTORY - timedelta(minutes=1))
    for name in ("h4", "h5"):
        office.ask("PATCH", "/v1/fleet", {"hosts": [{"name": name}]})
        journal.take_snapshot(now=office.clock.now())
    while office.run(lambda: office.node._in_writer(journal.compact)):
        pass
    assert next(journal.entries()).revision > 1


@pytest.mark.parametrize("meanwhile", [_nothing, _snapshot, _compaction])
def test_a_key_is_honoured_after_a_restart(
    tmp_path: Path, meanwhile: Callable[[SqliteJournal, Office], None]
) -> None:
    """Also where a snapshot was taken, and old entries were deleted: a day is always kept."""
    journal = SqliteJournal(tmp_path, history=LEAST_HISTORY)
    with reopened(tmp_path, journal, timedelta(days=2)) as office:
        first = send(office, "k")
        unchanged = send(office, "u", "/v1/fleet", {"hosts": [{"name": "h1"}]}, method="PATCH")
        meanwhile(journal, office)
    with reopened(tmp_path, SqliteJournal(tmp_path, history=LEAST_HISTORY), timedelta(days=3)) as office:
        again = send(office, "k")
        unchanged_again = send(office, "u", "/v1/fleet", {"hosts": [{"name": "h1"}]}, method="PATCH")

        assert (again.status, again.body, again.headers[REPLAYED]) == (201, first.body, "true")
        assert (unchanged_again.body, unchanged_again.headers[REPLAYED]) == (unchanged.body, "true")
        assert send(office, "k", "/v1/vms/web-1/operations").status == 409
        assert office.ask("GET", f"/v1/operations/{unchanged.json['operation']}").status == 200


def test_entries_without_facts_are_passed_over(office: Office) -> None:
    """History, changes and lists go on as if they were not there."""
    for number in range(3):
        send(office, f"u{number}", "/v1/fleet", {"hosts": [{"name": "h1"}]}, method="PATCH")
    send(office, "k")
    lines = office.ask("GET", "/v1/history?limit=1").json

    assert office.node.revision == 5
    assert [line["fact"] for line in lines["items"]] == ["announced"]
    older = office.ask("GET", f"/v1/history?limit=1&cursor={lines['next']}").json
    assert [line["fact"] for line in older["items"]] == ["fleet-declared"]
    connection = office.connect()
    connection.request("GET", "/v1/changes", headers={"Last-Event-ID": "2"})
    answer = connection.getresponse()
    while not (line := answer.readline()).startswith(b"data: "):
        pass
    assert json.loads(line.removeprefix(b"data: "))["revision"] == 5
    connection.close()


def test_an_operation_that_changed_nothing_can_be_read(office: Office) -> None:
    """With or without a key; an owner reads its own alone."""
    ada, bob = office.token("ada", "owner", "web"), office.token("bob", "owner", "pool")
    event = office.ask("POST", VM, FREEZE).json["announcements"][0]["event"]["id"]
    office.ask("POST", f"/v1/events/{event}/approve")
    unchanged = office.ask("POST", f"/v1/events/{event}/approve", token=ada).json
    path = f"/v1/operations/{unchanged['operation']}"

    assert office.ask("GET", path).json == unchanged
    assert office.ask("GET", path, token=ada).json == unchanged
    assert office.ask("GET", path, token=bob).status == 404
    assert msgspec.json.decode(office.ask("GET", path).body)["announcements"][0]["event"]["id"] == event
