"""Operations on several VMs, hosts and events, and dry runs of any operation."""

import pytest

from tests.harness import ApiHarness


def bulk(harness: ApiHarness, operation: str, key: str = "", query: str = "", **body: object) -> dict[str, object]:
    headers = {"Idempotency-Key": key} if key else {}
    said = harness.ask("POST", f"/v1/vms/operations{query}", {"operation": operation, **body}, headers=headers)
    assert said.status == 201, said.json
    return said.json  # type: ignore[no-any-return]


def test_vms_are_selected_by_the_service(harness: ApiHarness) -> None:
    """By globs, group, host and labels; the answer names them."""
    harness.ask("PATCH", "/v1/vms/web-1", {"labels": {"rack": "r1"}})

    assert bulk(harness, "restart", select={"names": ["web-*"]})["selected"] == ["web-0", "web-1"]
    assert bulk(harness, "freeze", select={"group": "web", "host": "h1"})["selected"] == ["web-0"]
    assert bulk(harness, "freeze", select={"label": "rack"})["selected"] == ["web-1"]
    everything = bulk(harness, "set", select={"all": True}, set={"labels": {"seen": "yes"}})
    assert everything["selected"] == sorted(harness.node.replica.fleet.vms)
    assert all(vm.labels["seen"] == "yes" for vm in harness.node.replica.fleet.vms.values())


def test_each_vm_has_its_answer(harness: ApiHarness) -> None:
    """An event, or the reason of its refusal."""
    harness.enrol("web", "web-0")
    harness.ask("POST", "/v1/vms/web-0/operations", {"operation": "restart"})
    answer = bulk(harness, "restart", select={"group": "web"})

    assert [each["event"]["resources"] for each in answer["announcements"]] == [["web-1"]]  # type: ignore[attr-defined]
    assert list(answer["refused"]) == ["web-0"]  # type: ignore[call-overload]
    assert "unfinished restart already" in answer["refused"]["web-0"]  # type: ignore[index]


def test_a_key_covers_the_whole(harness: ApiHarness) -> None:
    """A repetition gets the same answer, refusals included, and nothing is done again."""
    harness.enrol("web", "web-0")
    harness.ask("POST", "/v1/vms/web-0/operations", {"operation": "restart"})
    first = bulk(harness, "restart", "k", select={"group": "web"})
    again = bulk(harness, "restart", "k", select={"group": "web"})

    assert first == again
    assert len(harness.node.replica.fleet.events) == 2
    other = harness.ask(
        "POST",
        "/v1/vms/operations",
        {"operation": "restart", "select": {"all": True}},
        headers={"Idempotency-Key": "k"},
    )
    assert other.status == 409


@pytest.mark.parametrize(
    ("select", "status", "said"),
    [
        ({}, 400, "selects no VMs"),
        ({"names": ["nobody"]}, 404, "there is no VM 'nobody'"),
        ({"names": ["x-*"]}, 404, "no VM matches"),
        ({"group": "nobody"}, 404, "there is no group"),
        ({"host": "h9"}, 404, "there is no host"),
        ({"label": "rack="}, 400, "character 6: expected a value"),
        ({"state": "asleep"}, 400, "asleep"),
    ],
)
def test_a_selection_of_none_is_refused(harness: ApiHarness, select: object, status: int, said: str) -> None:
    """With the place, or with how to see what there is."""
    answer = harness.ask("POST", "/v1/vms/operations", {"operation": "restart", "select": select})

    assert answer.status == status
    assert said in answer.body.decode()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"operation": "move"}, "name the host to move to"),
        ({"operation": "restart", "to": "h2"}, "is for move"),
        ({"operation": "restart", "set": {"zone": "1"}}, "is for set"),
        ({"operation": "restart", "cancel_events": True}, "is for remove"),
        ({"operation": "set"}, "nothing is to be changed"),
        ({"operation": "start", "duration": 3}, "announces nothing"),
    ],
)
def test_fields_belong_to_their_operation(harness: ApiHarness, body: dict[str, object], said: str) -> None:
    """What would be ignored is refused."""
    answer = harness.ask("POST", "/v1/vms/operations", {"select": {"all": True}, **body})

    assert answer.status == 400
    assert said in answer.body.decode()


def test_an_owner_selects_among_its_own(harness: ApiHarness) -> None:
    """What belongs to others is not there."""
    token = harness.token("owner", "owner", "web")
    body = {"operation": "restart", "select": {"all": True}}

    assert harness.ask("POST", "/v1/vms/operations", body, token=token).json["selected"] == ["web-0", "web-1"]
    others = {"operation": "restart", "select": {"names": ["pool_0"]}}
    assert harness.ask("POST", "/v1/vms/operations", others, token=token).status == 404
    labels = {"operation": "set", "select": {"all": True}, "set": {"labels": {"a": "b"}}}
    assert harness.ask("POST", "/v1/vms/operations", labels, token=token).status == 403


def test_hosts_are_operated_on_together(harness: ApiHarness) -> None:
    """Each with its answer."""
    harness.ask("POST", "/v1/hosts/h1/operations", {"operation": "freeze"})
    answer = harness.ask("POST", "/v1/hosts/operations", {"operation": "freeze", "select": {"names": ["h*"]}}).json

    assert answer["selected"] == ["h1", "h2"]
    assert list(answer["refused"]) == ["h1"]
    assert {each["event"]["resources"][0] for each in answer["announcements"]} == {"db", "web-1"}
    harness.ask("POST", "/v1/hosts/operations", {"operation": "cordon", "select": {"all": True}})
    assert list(harness.node.replica.fleet.cordoned) == ["h1", "h2"]
    body = {"operation": "set", "select": {"names": ["h1"]}, "set": {"labels": {"rack": "r1"}}}
    harness.ask("POST", "/v1/hosts/operations", body)
    assert harness.node.replica.fleet.hosts["h1"].labels == {"rack": "r1"}
    removed = harness.ask("POST", "/v1/hosts/operations", {"operation": "remove", "select": {"names": ["h1"]}})
    assert removed.status == 409
    assert "stands on it" in removed.body.decode()


def test_scheduled_events_are_canceled_together(harness: ApiHarness) -> None:
    """Those of a host, or of a group; Started ones stay."""
    harness.ask("POST", "/v1/hosts/h1/operations", {"operation": "freeze"})
    harness.ask("POST", "/v1/hosts/h2/operations", {"operation": "freeze"})
    harness.ask("POST", "/v1/vms/web-0/operations", {"operation": "restart"})
    answer = harness.ask("POST", "/v1/events/cancel", {"host": "h1"}).json

    assert len(answer["selected"]) == len(answer["canceled"]) == 2
    left = harness.node.replica.fleet.events.values()
    assert sorted(str(event.status) for event in left) == ["scheduled", "scheduled", "started"]
    assert harness.ask("POST", "/v1/events/cancel", {}).status == 400
    assert harness.ask("POST", "/v1/events/cancel", {"host": "h1"}).status == 404
    assert harness.ask("POST", "/v1/events/cancel", {"all": True, "type": "freeze"}).status == 201


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/vms/web-0/operations", {"operation": "restart"}),
        ("POST", "/v1/vms/web-0/operations", {"operation": "deallocate"}),
        ("POST", "/v1/vms/web-0/move", {"host": "h2"}),
        ("PATCH", "/v1/vms/web-0", {"labels": {"a": "b"}}),
        ("POST", "/v1/vms/operations", {"operation": "delete", "select": {"all": True}}),
        ("POST", "/v1/hosts/h1/operations", {"operation": "reboot"}),
        ("POST", "/v1/hosts/h1/operations", {"operation": "drain"}),
        ("POST", "/v1/hosts/h1/operations", {"operation": "fail"}),
        ("POST", "/v1/hosts/h1/operations", {"operation": "cordon"}),
        ("PATCH", "/v1/hosts/h1", {"labels": {"a": "b"}}),
        ("POST", "/v1/groups/pool/scale-in", {"count": 1}),
        ("POST", "/v1/spot/reclaim", {"host": "h1"}),
        ("PATCH", "/v1/fleet", {"removed_vms": ["web-0"]}),
    ],
)
def test_a_dry_run_changes_nothing(harness: ApiHarness, method: str, path: str, body: object) -> None:
    """No fact is recorded, also with a key; the operation can be carried out under that key then."""
    replica = harness.node.replica
    revision, vms, hosts = replica.revision, dict(replica.fleet.vms), dict(replica.fleet.hosts)
    tried = harness.ask(method, f"{path}?dry_run=true", body, headers={"Idempotency-Key": "k"})

    assert tried.status in (200, 201), tried.body.decode()
    assert tried.json["dry_run"] is True
    assert (replica.revision, replica.fleet.vms, replica.fleet.hosts) == (revision, vms, hosts)
    assert not replica.fleet.events
    done = harness.ask(method, path, body, headers={"Idempotency-Key": "k"})
    assert {**done.json, "dry_run": True} == tried.json


def test_a_dry_run_tells_what_waits(harness: ApiHarness) -> None:
    """Which event has its turn before, and who asked last."""
    first = harness.ask("POST", "/v1/hosts/h1/operations", {"operation": "freeze"}).json
    ids = {each["event"]["resources"][0]: each["event"]["id"] for each in first["announcements"]}
    tried = harness.ask("POST", "/v1/hosts/h2/operations?dry_run=true", {"operation": "freeze"}).json

    after = {each["event"]["resources"][0]: each["turn_after"] for each in tried["announcements"]}
    assert after["web-1"] == [ids["web-0"]]


def test_a_dry_run_is_refused_as_the_operation_would_be(harness: ApiHarness) -> None:
    """With the same status and words."""
    tried = harness.ask("POST", "/v1/vms/web-0/operations?dry_run=true", {"operation": "evict"})

    assert tried.status == 409
    assert "not a spot VM" in tried.body.decode()
    assert harness.ask("POST", "/v1/tokens?dry_run=true", {"name": "t", "role": "viewer"}).status == 400


def test_an_event_is_approved_and_canceled_on_trial(harness: ApiHarness) -> None:
    """The answer has the status that it would have."""
    result = harness.ask("POST", "/v1/vms/web-0/operations", {"operation": "freeze"}).json
    id_ = result["announcements"][0]["event"]["id"]

    for verb, status in (("approve", "Started"), ("cancel", "Canceled")):
        tried = harness.ask("POST", f"/v1/events/{id_}/{verb}?dry_run=true").json
        assert tried["announcements"][0]["event"]["status"] == status
    (event,) = harness.node.replica.fleet.events.values()
    assert event.status == "scheduled"
