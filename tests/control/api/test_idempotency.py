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
from forewarn.control.api.idempotency import KeyLocks, command_id
from forewarn.control.bodies import DeliveryReceipt
from forewarn.control.notifications.worker import DeliveryStatus
from forewarn.core.access import Principal
from forewarn.core.commands import OperateVm, VmOperation
from forewarn.core.model import Caller, CallerKind, Role, Subscription
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import JournalFailed
from forewarn.journal.sqlite.journal import SqliteJournal
from tests.control.api.document import DOCUMENT
from tests.harness import ApiHarness, ApiResponse, open_harness

FREEZE = {"operation": "freeze"}
VM = "/v1/vms/web-0/operations"
ADA = Caller(CallerKind.OPERATOR, "ada")
REPLAYED = "idempotent-replayed"


def send(
    harness: ApiHarness,
    key: str,
    path: str = VM,
    body: object = FREEZE,
    *,
    method: str = "POST",
    token: str | None = None,
) -> ApiResponse:
    return harness.ask(method, path, body, token=token, headers={"Idempotency-Key": key})


def carried_out(harness: ApiHarness) -> int:
    return len(harness.node.replica.fleet.events)


def principal(token: str = "", uid: int | None = None) -> Principal:
    return Principal(ADA, Role.OPERATOR, token=token, uid=uid)


class Deliveries:
    """Sends tests to subscribers, and counts them."""

    def __init__(self) -> None:
        self.sent = 0

    def check(self, subscription: Subscription) -> None:
        """Refuse nobody."""

    def delivery_of(self, subscription: str) -> DeliveryStatus:
        return DeliveryStatus()

    async def send_test(self, subscription: Subscription) -> DeliveryReceipt:
        self.sent += 1
        return DeliveryReceipt(detail="it arrived")


def test_a_command_id_is_made_of_principal_and_key_and_cannot_be_confused() -> None:
    """Neither another kind of principal, nor a key that begins where an id ends, gives the same id."""
    ids = {
        command_id(principal("a"), "bc"),
        command_id(principal("ab"), "c"),
        command_id(principal("a/b"), "c"),
        command_id(principal("a"), "b/c"),
        command_id(principal("1000"), "k"),
        command_id(principal(uid=1000), "k"),
        command_id(principal(uid=100), "0k"),
    }

    assert len(ids) == 7
    assert all(str(UUID(id_)) == id_ for id_ in ids)
    assert command_id(principal("a"), "k") == command_id(principal("a"), "k")


@pytest.mark.parametrize("key", ["9d1c2b54-6f0e-4c7e-9d5e-0a4c7f1b2e30", "the first one of today"])
def test_the_same_request_gets_the_same_answer(harness: ApiHarness, key: str) -> None:
    """Status, operation and events, marked as a replay; it was carried out once."""
    first, second = send(harness, key), send(harness, key)

    assert (first.status, first.body) == (second.status, second.body)
    assert (first.headers.get(REPLAYED), second.headers.get(REPLAYED)) == (None, "true")
    assert carried_out(harness) == 1


def test_without_a_key_every_request_is_another(harness: ApiHarness) -> None:
    """Nothing is remembered of it."""
    first, second = harness.ask("POST", VM, FREEZE), harness.ask("POST", VM, FREEZE)

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
def test_another_request_under_a_used_key_is_409(harness: ApiHarness, method: str, path: str, body: object) -> None:
    """Whether method, path or body differs; bodies are compared byte for byte."""
    first = send(harness, "one").json
    revision = harness.node.replica.revision
    said = send(harness, "one", path, body, method=method)

    assert said.status == 409
    assert said.json["detail"] == (
        "this Idempotency-Key was used for another request, which was carried out: see"
        f" GET /v1/operations/{first['operation']}, or that operation in 'forewarn history --json';"
        " use a new key only for what is to be done besides"
    )
    assert (harness.node.replica.revision, REPLAYED in said.headers) == (revision, False)


@pytest.mark.parametrize(("digest", "statuses"), [("a1", (201, 201, 409)), ("", (201, 409, 409))])
def test_a_fleet_file_is_the_same_request_by_its_digest(
    harness: ApiHarness, digest: str, statuses: tuple[int, ...]
) -> None:
    """Its difference is another one once it was applied; without a digest the whole body counts."""
    bodies: list[dict[str, object]] = [
        {"seen": 1, "digest": digest, "hosts": [{"name": "h3"}]},
        {"seen": 2, "digest": digest},
        {"seen": 2, "digest": digest, "exact": True},
    ]

    assert tuple(send(harness, "one", "/v1/fleet/declaration", body).status for body in bodies) == statuses


def test_a_refused_request_records_nothing_and_may_be_sent_again(harness: ApiHarness) -> None:
    """Under the same key, or as another request under it."""
    refused = send(harness, "one", "/v1/vms/web-9/operations")
    revision = harness.node.replica.revision
    done = send(harness, "one")

    assert (refused.status, done.status, revision) == (404, 201, 1)
    assert REPLAYED not in done.headers


def test_a_request_that_changed_nothing_is_recorded_with_its_key(harness: ApiHarness) -> None:
    """It is a success; its key is used."""
    approve = f"/v1/events/{send(harness, 'a').json['announcements'][0]['event']['id'][:8]}/approve"
    send(harness, "b", approve, None)
    unchanged = send(harness, "c", approve, None)
    again = send(harness, "c", approve, None)

    assert unchanged.json["announcements"][0]["event"]["status"] == "Started"
    assert (again.status, again.body, again.headers[REPLAYED]) == (unchanged.status, unchanged.body, "true")
    assert send(harness, "c").status == 409


def test_a_replay_tells_how_events_stood_when_it_was_first_answered(harness: ApiHarness) -> None:
    """The operation itself tells how they stand now."""
    first = send(harness, "a")
    event = first.json["announcements"][0]["event"]["id"]
    send(harness, "b", f"/v1/events/{event}/approve", None)
    harness.finish(event.lower())
    now = harness.ask("GET", f"/v1/operations/{first.json['operation']}").json

    assert send(harness, "a").json == first.json
    assert now["announcements"][0]["event"] == {
        **first.json["announcements"][0]["event"], "status": "Completed", "not_before": None
    }  # fmt: skip


def test_what_a_request_named_may_be_gone_when_it_is_repeated(harness: ApiHarness) -> None:
    """A VM that it deleted, a group whose terms it set, the event that was the last one then."""
    approve = "/v1/events/last/approve"
    send(harness, "a")
    first = [
        send(harness, "b", approve, None),
        send(harness, "c", "/v1/groups/db", {"approval": "all"}, method="PATCH"),
        send(harness, "d", "/v1/groups/db", {"approval": "all"}, method="PATCH"),
        send(harness, "e", "/v1/vms/db/operations", {"operation": "delete"}),
    ]
    harness.finish(first[0].json["announcements"][0]["event"]["id"].lower())
    harness.finish(first[3].json["announcements"][0]["event"]["id"].lower())
    send(harness, "f", "/v1/fleet", {"removed_groups": ["db"]}, method="PATCH")
    send(harness, "g", "/v1/vms/web-1/operations")
    again = [
        send(harness, "b", approve, None),
        send(harness, "c", "/v1/groups/db", {"approval": "all"}, method="PATCH"),
        send(harness, "d", "/v1/groups/db", {"approval": "all"}, method="PATCH"),
        send(harness, "e", "/v1/vms/db/operations", {"operation": "delete"}),
    ]

    assert "db" not in harness.node.replica.fleet.groups
    assert [said.status for said in again] == [said.status for said in first] == [201, 200, 200, 201]
    assert (again[0].body, again[3].body) == (first[0].body, first[3].body)
    assert [said.json["approval"] for said in again[1:3]] == ["all", "all"]
    assert all(said.headers[REPLAYED] == "true" for said in again)


def test_tenants_with_confusable_names_do_not_get_each_others_answers(harness: ApiHarness) -> None:
    """A key belongs to the token's id, whatever its name."""
    first, second = harness.token("ops:x"), harness.token("ops")
    own = send(harness, "k", token=first).json
    others = [
        send(harness, "x:k", token=second),
        send(harness, "k", token=second),
        send(harness, "k"),
        send(harness, "k", token=harness.token("operator")),
    ]

    assert all(REPLAYED not in said.headers for said in others)
    assert len({own["operation"], *(said.json["operation"] for said in others)}) == 5


def test_a_rotated_token_keeps_its_keys_and_its_id(harness: ApiHarness) -> None:
    """The bearer is the same; the old secret opens nothing."""
    old = harness.token("ops")
    first = send(harness, "k", token=old)
    rotated = harness.ask("POST", "/v1/tokens/ops/rotate").json

    assert rotated["id"] == old.split("_")[1]
    assert send(harness, "k", token=rotated["token"]).body == first.body
    assert send(harness, "k", token=old).status == 401


def test_a_name_given_anew_inherits_no_keys(harness: ApiHarness) -> None:
    """Another token is another principal."""
    first = send(harness, "k", token=harness.token("ops")).json
    harness.ask("DELETE", "/v1/tokens/ops")
    second = send(harness, "k", token=harness.token("ops"))

    assert (second.status, REPLAYED in second.headers) == (201, False)
    assert second.json["operation"] != first["operation"]


def test_keys_of_earlier_releases_are_not_honoured(harness: ApiHarness) -> None:
    """There an operator's UUID was the id of the command, and no fingerprint was recorded."""
    key = str(uuid4())
    harness.do(OperateVm(id=key, by=ADA, operation=VmOperation.FREEZE, vm="web-0"))
    harness.do(OperateVm(id=command_id(principal("t"), key), by=ADA, operation=VmOperation.FREEZE, vm="web-0"))
    said = send(harness, key)

    assert (said.status, REPLAYED in said.headers) == (201, False)


def test_a_tokens_secret_is_shown_once(harness: ApiHarness) -> None:
    """The repetition is refused and names the token, whether it was created or rotated."""
    body = {"name": "ada", "role": "viewer"}
    made = send(harness, "k", "/v1/tokens", body)
    again = send(harness, "k", "/v1/tokens", body)
    rotated = send(harness, "r", "/v1/tokens/ada/rotate", None)
    twice = send(harness, "r", "/v1/tokens/ada/rotate", None)

    assert [said.status for said in (made, again, rotated, twice)] == [201, 409, 201, 409]
    for refused in (again, twice):
        assert refused.json["detail"].startswith(f"token 'ada' ({made.json['id']}) was created")
        assert "rotate the token" in refused.json["detail"]
    assert "token" not in harness.ask("GET", "/v1/tokens").json["items"][0]


ROWS: dict[str, tuple[str, object]] = {
    "operate-vm": ("/v1/vms/web-0/operations", {"operation": "restart"}),
    "move-vm": ("/v1/vms/web-0/move", {"host": "h2"}),
    "operate-host": ("/v1/hosts/h1/operations", FREEZE),
    "operate-vms": ("/v1/vms/operations", {"operation": "evict", "select": {"all": True}}),
    "operate-hosts": ("/v1/hosts/operations", {"operation": "cordon", "select": {"names": ["h*"]}}),
    "set-vm": ("/v1/vms/web-0", {"labels": {"rack": "r1"}}),
    "set-host": ("/v1/hosts/h1", {"labels": {"rack": "r1"}}),
    "add-host": ("/v1/hosts", {"name": "h9"}),
    "remove-host": ("/v1/hosts/spare", None),
    "add-group": ("/v1/groups", {"name": "new", "kind": "scale-set"}),
    "remove-group": ("/v1/groups/spare", None),
    "cancel-events": ("/v1/events/cancel", {"all": True}),
    "start-rollout": (
        "/v1/rollouts",
        {"name": "new", "terms": {"operation": "reboot", "hosts": ["h1"], "on_conflict": "queue"}},
    ),
    "edit-rollout": ("/v1/rollouts/old", {"parallel": 2}),
    "pause-rollout": ("/v1/rollouts/old/pause", {"withdraw": True}),
    "resume-rollout": ("/v1/rollouts/old/resume", None),
    "cancel-rollout": ("/v1/rollouts/old/cancel", None),
    "retry-hosts": ("/v1/rollouts/old/retry", {"hosts": ["h2"]}),
    "skip-host": ("/v1/rollouts/old/skip", {"host": "h1"}),
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
CHANGE_NOTHING = {"create-link", "plan-declaration", "plan-rollout"}
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


@pytest.mark.end_to_end
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("way", ["socket", "port"])
def test_every_route_is_carried_out_once_under_its_key(harness: ApiHarness, name: str, way: str) -> None:
    """On the socket and on the port; it takes the key, records it, and answers the same again."""
    tests = Deliveries()
    harness.context.deliveries = tests
    token = harness.token("sender") if way == "port" else None
    harness.token("old")
    harness.ask("POST", "/v1/subscriptions", {"name": "old", "kind": "webhook", "target": "https://example.org/"})
    harness.ask("PATCH", "/v1/groups/db", {"postpone_limit": 600})
    harness.ask("POST", "/v1/vms/db/operations", FREEZE)
    harness.ask("POST", "/v1/rollouts", {"name": "old", "terms": {"operation": "reboot", "all_hosts": True}})
    harness.ask("POST", "/v1/rollouts/old/skip", {"host": "h2"})
    harness.ask("POST", "/v1/hosts", {"name": "spare"})
    harness.ask("POST", "/v1/groups", {"name": "spare", "kind": "scale-set"})
    path, body = ROWS[name]
    first = send(harness, "k", path, body, method=METHODS[name], token=token)
    revision = harness.node.replica.revision
    again = send(harness, "k", path, body, method=METHODS[name], token=token)
    other = send(harness, "k", "/v1/vms/web-1/operations", token=token)

    assert first.status in (200, 201, 204), first
    assert again.status == (409 if name in SECRET else first.status)
    assert name in SECRET or again.body == first.body or tests.sent == 1
    assert again.headers[REPLAYED] == "true"
    assert (other.status, harness.node.replica.revision) == (409, revision)


def test_a_repetition_waits_for_the_first_that_is_under_way(harness: ApiHarness) -> None:
    """It gets that answer; another request under the key then is refused."""
    held, entered = threading.Event(), threading.Event()
    append = harness.journal.append

    def slow(*given: Any) -> None:
        entered.set()
        held.wait(20)
        append(*given)

    harness.journal.append = slow  # type: ignore[method-assign, assignment]
    said: dict[str, ApiResponse] = {}

    def ask(name: str, *given: Any) -> None:
        said[name] = send(harness, "k", *given)

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
    assert carried_out(harness) == 1


def test_what_may_have_been_recorded_is_found_out_by_asking_again(harness: ApiHarness) -> None:
    """Not carried out twice, and never called unchanged, while the journal cannot tell and afterwards."""
    journal = harness.journal
    assert isinstance(journal, MemoryJournal)
    append, reopen = journal.append, journal.reopen

    def fail(*_: Any) -> Any:
        raise JournalFailed("the disk is gone")

    def append_and_fail(*given: Any) -> None:
        append(*given)
        fail()

    journal.append, journal.reopen = append_and_fail, fail  # type: ignore[method-assign, assignment]
    unknown = [send(harness, "k"), send(harness, "k")]
    journal.append, journal.reopen = append, reopen  # type: ignore[method-assign]
    harness.clock.advance(timedelta(minutes=1))
    repeated = send(harness, "k")

    for said in unknown:
        assert (said.status, said.json["type"]) == (503, "urn:forewarn:problem:outcome-unknown")
        assert "ask again with the same key" in said.json["detail"]
    assert (repeated.status, repeated.headers[REPLAYED], carried_out(harness)) == (201, "true", 1)


def test_nothing_is_kept_of_locks_that_nobody_holds() -> None:
    """There are as many as there are requests under way."""
    locks = KeyLocks()
    lock = locks.of("a")

    assert locks.of("a") is lock
    del lock
    assert not locks._held


@contextmanager
def reopened(directory: Path, journal: SqliteJournal, now: timedelta = timedelta()) -> Iterator[ApiHarness]:
    with open_harness(directory, journal=journal) as harness:
        harness.clock.advance(now)
        yield harness
    journal.close()


def _nothing(journal: SqliteJournal, harness: ApiHarness) -> None:
    """Let the service start again, and nothing else happen."""


def _snapshot(journal: SqliteJournal, harness: ApiHarness) -> None:
    harness.run(lambda: asyncio.to_thread(journal.take_snapshot))


def _compaction(journal: SqliteJournal, harness: ApiHarness) -> None:
    """Take two snapshots and delete all that may be deleted, a little less than a day later."""
    harness.clock.advance(LEAST_HISTORY - timedelta(minutes=1))
    for name in ("h4", "h5"):
        harness.ask("PATCH", "/v1/fleet", {"hosts": [{"name": name}]})
        journal.take_snapshot(now=harness.clock.now())
    while harness.run(lambda: harness.node.writer.compact(journal)):
        pass
    assert next(journal.entries()).revision > 1


@pytest.mark.end_to_end
@pytest.mark.parametrize("meanwhile", [_nothing, _snapshot, _compaction])
def test_a_key_is_honoured_after_a_restart(
    tmp_path: Path, meanwhile: Callable[[SqliteJournal, ApiHarness], None]
) -> None:
    """Also where a snapshot was taken, and old entries were deleted: a day is always kept."""
    journal = SqliteJournal(tmp_path, history=LEAST_HISTORY)
    with reopened(tmp_path, journal, timedelta(days=2)) as harness:
        first = send(harness, "k")
        unchanged = send(harness, "u", "/v1/fleet", {"hosts": [{"name": "h1"}]}, method="PATCH")
        meanwhile(journal, harness)
    with reopened(tmp_path, SqliteJournal(tmp_path, history=LEAST_HISTORY), timedelta(days=3)) as harness:
        again = send(harness, "k")
        unchanged_again = send(harness, "u", "/v1/fleet", {"hosts": [{"name": "h1"}]}, method="PATCH")

        assert (again.status, again.body, again.headers[REPLAYED]) == (201, first.body, "true")
        assert (unchanged_again.body, unchanged_again.headers[REPLAYED]) == (unchanged.body, "true")
        assert send(harness, "k", "/v1/vms/web-1/operations").status == 409
        assert harness.ask("GET", f"/v1/operations/{unchanged.json['operation']}").status == 200


def test_entries_without_facts_are_passed_over(harness: ApiHarness) -> None:
    """History, changes and lists go on as if they were not there."""
    for number in range(3):
        send(harness, f"u{number}", "/v1/fleet", {"hosts": [{"name": "h1"}]}, method="PATCH")
    send(harness, "k")
    lines = harness.ask("GET", "/v1/history?limit=1").json

    assert harness.node.replica.revision == 5
    assert [line["fact"] for line in lines["items"]] == ["announced"]
    older = harness.ask("GET", f"/v1/history?limit=1&cursor={lines['next']}").json
    assert [line["fact"] for line in older["items"]] == ["fleet-declared"]
    connection = harness.connect()
    connection.request("GET", "/v1/changes", headers={"Last-Event-ID": "2"})
    answer = connection.getresponse()
    while not (line := answer.readline()).startswith(b"data: "):
        pass
    assert json.loads(line.removeprefix(b"data: "))["revision"] == 5
    connection.close()


def test_an_operation_that_changed_nothing_can_be_read(harness: ApiHarness) -> None:
    """With or without a key; an owner reads its own alone."""
    ada, bob = harness.token("ada", "owner", "web"), harness.token("bob", "owner", "pool")
    event = harness.ask("POST", VM, FREEZE).json["announcements"][0]["event"]["id"]
    harness.ask("POST", f"/v1/events/{event}/approve")
    unchanged = harness.ask("POST", f"/v1/events/{event}/approve", token=ada).json
    path = f"/v1/operations/{unchanged['operation']}"

    assert harness.ask("GET", path).json == unchanged
    assert harness.ask("GET", path, token=ada).json == unchanged
    assert harness.ask("GET", path, token=bob).status == 404
    assert msgspec.json.decode(harness.ask("GET", path).body)["announcements"][0]["event"]["id"] == event
