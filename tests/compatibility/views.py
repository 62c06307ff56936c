"""What is seen from outside of a journal: the API by role, the stream of changes, notices, metrics and documents.

Everything is returned as plain JSON values, so that it can be stored beside the journal and compared later.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from forewarn.control.notifications.journal_follower import JournalFollower, RecentEntries
from forewarn.control.notifications.notification import cloud_event
from forewarn.control.server.event_counters import EventCounters
from forewarn.control.server.metrics import Metrics, MetricSources
from forewarn.core.facts import Announced, Canceled, StartedAtOnce
from forewarn.core.fleet import Fleet
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.node.feed import Commit
from forewarn.wire import document
from forewarn.wire.versions import API_VERSIONS
from tests.compatibility.story import OLGA, VERA, restart, token_of
from tests.harness import ApiHarness

READERS: dict[str, str | None] = {"operator": None, "owner": token_of(OLGA), "viewer": token_of(VERA)}
"""Who reads, by the token that is shown; the operator comes through the unix socket."""

_FOR_ALL = (
    "/v1/events?finished=1000&limit=1000",
    "/v1/vms?limit=1000",
    "/v1/groups?limit=1000",
    "/v1/groups/web",
    "/v1/vms/web-0",
    "/v1/vms/web-1",
)
_FOR_ALL_BUT_OWNERS = (
    "/v1/hosts?limit=1000",
    "/v1/hosts/h1",
    "/v1/fleet?limit=10000",
    "/v1/fleet/declaration",
    "/v1/fleet/declaration/differences",
)
_WHOLE_HISTORY = "/v1/history?limit=1000&order=oldest"
_FOR_OPERATORS = (
    _WHOLE_HISTORY,
    "/v1/tokens?limit=1000",
    "/v1/subscriptions?limit=1000",
    "/v1/history?limit=1000&caller=olga",
    "/v1/history/export?format=csv&caller=web-0",
    "/v1/history/export?format=jsonl&caller=web-0",
)
_NOT_OF_THE_JOURNAL = ("process_", "forewarn_info", "forewarn_journal_append_seconds")


@contextmanager
def opened(directory: Path, journal: Path) -> Iterator[ApiHarness]:
    """Open a service on a recorded journal, a minute after its last entry."""
    recorded = SqliteJournal(journal)
    last_at = recorded.load().fleet.last_at
    recorded.close()
    harness = ApiHarness(directory, journal=recorded)
    harness.clock.advance_to(last_at + timedelta(minutes=1))
    harness.start()
    try:
        harness.open()
        yield harness
    finally:
        harness.stop()
        recorded.close()


def answers(harness: ApiHarness) -> dict[str, dict[str, Any]]:
    """Return what each reader is answered, by path."""
    events, commands = [], []
    for entry in harness.journal.entries():
        born = [fact.event.id for fact in entry.facts if isinstance(fact, Announced | StartedAtOnce)]
        events += born
        commands += [entry.command] if born or any(isinstance(fact, Canceled) for fact in entry.facts) else []
    paths = {
        "operator": (
            *_FOR_ALL,
            *_FOR_ALL_BUT_OWNERS,
            *_FOR_OPERATORS,
            *(f"/v1/events/{id_}" for id_ in events),
            *(f"/v1/operations/{id_}" for id_ in commands),
        ),
        "owner": _FOR_ALL,
        "viewer": (*_FOR_ALL, *_FOR_ALL_BUT_OWNERS),
    }
    return {reader: {path: _answer(harness, path, READERS[reader]) for path in paths[reader]} for reader in READERS}


def lines(harness: ApiHarness) -> dict[str, list[dict[str, Any]]]:
    """Return what is read in the record by others, or about one thing, where it differs from the whole record."""
    whole = _answer(harness, _WHOLE_HISTORY, None)["items"]
    read = {reader: _answer(harness, _WHOLE_HISTORY, READERS[reader])["items"] for reader in ("owner", "viewer")}
    for question in ("group=pool", "group=web", "vm=queue-1", "vm=web-1", "host=h1"):
        read[question] = _answer(harness, f"{_WHOLE_HISTORY}&{question}", None)["items"]
    return {reader: _differing(result, whole, "revision", "number") for reader, result in read.items()}


def _differing(own: list[Any], known: list[Any], *keys: str) -> list[Any]:
    """Return records of which those that are known are shortened to their keys."""
    return [{key: each[key] for key in keys} if each in known else each for each in own]


def _answer(harness: ApiHarness, path: str, token: str | None) -> Any:
    said = harness.ask("GET", path, token=token)
    is_json = said.headers["content-type"].split(";")[0] in ("application/json", "application/problem+json")
    body = json.loads(said.body) if is_json else said.body.decode()
    return body if said.status == 200 else {"status": said.status, "body": body}


def changes(harness: ApiHarness) -> dict[str, list[dict[str, Any]]]:
    """Return the stream of changes as each reader gets it; a message is whole where it is the first of its kind."""
    streams = {reader: list(_changes(harness, token)) for reader, token in READERS.items()}
    first: dict[tuple[str, ...], dict[str, Any]] = {}
    for message in streams["operator"]:
        fact = message["data"]["fact"]
        event = fact["event"] if isinstance(fact.get("event"), dict) else {}
        first.setdefault((*fact, *event, fact.get("because", ""), event.get("operation", "")), message)
    shown = [message["id"] for message in first.values()]
    known = [message for message in streams["operator"] if message["id"] not in shown]
    return {
        reader: _differing(stream, known if reader == "operator" else streams["operator"], "id", "event")
        for reader, stream in streams.items()
    }


def _changes(harness: ApiHarness, token: str | None) -> Iterator[dict[str, Any]]:
    connection = harness.connect(token)
    bearing = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request("GET", "/v1/changes", headers={"Last-Event-ID": "0", **bearing})
    answer = connection.getresponse()

    async def end() -> None:
        harness.context.changes.close()  # the past is sent to its end all the same

    harness.run(end)
    for message in answer.read().decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in message.splitlines() if not line.startswith(":"))
        if fields:
            yield {**fields, "data": json.loads(fields["data"])}
    connection.close()


def replayed(harness: ApiHarness) -> dict[str, Any]:
    """Repeat the request that the journal holds under an Idempotency-Key."""
    said = restart(harness)
    return {"status": said.status, "replayed": said.headers.get("idempotent-replayed"), "body": said.json}


def notices(harness: ApiHarness) -> list[dict[str, Any]]:
    """Return what subscribers to everything are sent, from the first entry on: the first of each type and reason."""
    tail = RecentEntries()
    tail.begin(harness.node.replica.revision)
    follower = JournalFollower(harness.node, harness.journal, tail, {}, 0)

    async def read() -> list[dict[str, Any]]:
        found: dict[tuple[str, str], dict[str, Any]] = {}
        while follower.is_behind:
            for message in await follower.read():
                found.setdefault((message.type, message.reason), json.loads(cloud_event(message, "forewarn")))
        return [*found.values()]

    return harness.run(read)


def metrics(harness: ApiHarness) -> dict[str, float]:
    """Return what a service has counted that saw every entry committed."""
    tally = EventCounters()
    tally.load(Fleet())
    tally.publish(Commit(tuple(harness.journal.entries()), harness.node.replica.fleet))
    text = Metrics(harness.node, tally, MetricSources()).render().decode()
    return {
        " ".join((sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items())))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.startswith(_NOT_OF_THE_JOURNAL)
    }


def documents(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """Return the document of every group that has events, in every api-version."""
    return {
        group.name: {
            version.name: json.loads(
                document.render(fleet.events_of(group.name), group.incarnation, version, group.terms.kind)
            )
            for version in API_VERSIONS
        }
        for group in fleet.groups.values()
        if fleet.events_of(group.name)
    }


def parts(fleet: Fleet) -> list[Any]:
    """Return the records of a fleet, as a snapshot has them."""
    plain: list[Any] = msgspec.to_builtins(list(fleet.parts()))
    return plain
