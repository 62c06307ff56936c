"""Writes: carried out whole, or refused with what is wrong."""

import pytest

from forewarn.config.settings import MailSettings
from forewarn.control.notifications.dispatcher import Dispatcher
from tests.harness import ApiHarness

RESTART = {"operation": "restart"}


def restart(harness: ApiHarness, key: str, name: str = "web-0", token: str | None = None) -> tuple[int, object]:
    said = harness.ask("POST", f"/v1/vms/{name}/operations", RESTART, token=token, headers={"Idempotency-Key": key})
    return said.status, said.json


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "caf\xe9"])
def test_a_key_that_is_none_is_refused(harness: ApiHarness, key: str) -> None:
    """With its place."""
    status, said = restart(harness, key)

    assert status == 400
    assert said["errors"][0]["place"] == "header.Idempotency-Key"  # type: ignore[index]


def test_the_space_after_a_key_does_not_belong_to_it(harness: ApiHarness) -> None:
    """HTTP lets a proxy add or remove it."""
    assert restart(harness, "k") == restart(harness, "k \t")


@pytest.mark.parametrize("name", ["Authorization", "Idempotency-Key"])
def test_a_header_that_is_given_twice_is_refused(harness: ApiHarness, name: str) -> None:
    """A proxy and the service must not read different ones."""
    connection = harness.connect(None)
    connection.putrequest("POST", "/v1/vms/web-0/operations")
    for value in ("one", "two"):
        connection.putheader(name, value)
    connection.endheaders()
    said = connection.getresponse()

    assert said.status == 400
    assert f"header.{name}: is given more than once" in said.read().decode()
    connection.close()


@pytest.mark.parametrize(
    ("body", "place", "said"),
    [
        (b"", "body", "is missing; send it as JSON"),
        (b"hello", "body", "malformed"),
        (b'{"operation": "\xff"}', "body", "is not UTF-8: invalid start byte"),
        (b"[]", "body", "Expected `object`, got `array`"),
        (b"{}", "body", "missing required field `operation`"),
        (b'{"operation": "explode"}', "body.operation", "Invalid enum value 'explode'"),
        (b'{"operation": "restart", "x": 1}', "body", "unknown field `x`"),
        (b'{"operation": "restart", "duration": "5"}', "body.duration", "Expected `int | null`, got `str`"),
        (b'{"operation": "restart", "duration": -2}', "body.duration", ">= -1"),
        (b'{"operation": "restart", "not_before": "2030-01-01T00:00:00"}', "body.not_before", "timezone"),
        (b'{"operation": "restart", "description": "a\\nb"}', "body.description", "matching regex"),
        (b'{"operation": "restart", "description": "a\\n"}', "body.description", "matching regex"),
    ],
)
def test_a_body_that_does_not_fit_is_refused_with_the_place(
    harness: ApiHarness, body: bytes, place: str, said: str
) -> None:
    """One problem that names the field and what it has to be."""
    answer = harness.ask("POST", "/v1/vms/web-0/operations", body)

    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json["errors"][0]["place"] == place
    assert said in answer.json["errors"][0]["detail"]
    assert said in answer.json["detail"]


def test_problems_are_those_of_rfc_9457(harness: ApiHarness) -> None:
    """Type, title, status and a detail that says what to do."""
    assert harness.ask("GET", "/v1/vms/web-00").json == {
        "type": "urn:forewarn:problem:unknown",
        "title": "There is no such thing",
        "status": 404,
        "detail": "there is no VM 'web-00'; did you mean 'web-0'?",
    }
    assert harness.ask("GET", "/v2/vms").json["detail"].startswith("there is no path /v2/vms")
    assert harness.ask("PUT", "/v1/vms").status == 405


def test_a_mistake_of_the_service_is_a_problem_too(harness: ApiHarness) -> None:
    """Without its insides; the log has them."""
    harness.node.replica.fleet.vms = None  # type: ignore[assignment]  # so that it fails
    said = harness.ask("GET", "/v1/vms/web-0")

    assert (said.status, said.json["type"]) == (500, "urn:forewarn:problem:failed")
    assert "NoneType" not in said.body.decode()


@pytest.mark.parametrize("operation", ["start", "deallocate"])
def test_what_announces_nothing_takes_no_announcement(harness: ApiHarness, operation: str) -> None:
    """A time that would be ignored is refused."""
    body = {"operation": operation, "duration": 5}

    assert harness.ask("POST", "/v1/vms/web-0/operations", body).status == 400
    assert harness.ask("POST", "/v1/vms/web-0/operations", {"operation": operation}).status == 201


def test_a_limit_is_429(harness: ApiHarness) -> None:
    """So that a program can wait and try again."""
    harness.enrol("web", "web-0")
    harness.node.writer.rules = type(harness.node.writer.rules)(user_operation_limit=1)
    restart(harness, "a")

    assert restart(harness, "b", "web-1")[0] == 429


def test_terms_are_set_and_what_is_left_out_stays(harness: ApiHarness) -> None:
    """Null takes the terminate notice away."""
    path = "/v1/groups/pool"
    first = harness.ask("PATCH", path, {"approval": "all", "quiet_hours": ["22:00-06:00"]}).json
    second = harness.ask("PATCH", path, {"terminate_notice": None, "eviction": "delete"}).json

    assert (first["approval"], first["terminate_notice"]) == ("all", "PT5M")
    assert (second["approval"], second["terminate_notice"], second["eviction"]) == ("all", None, "delete")
    assert second["policy"]["quiet_hours"] == ["22:00-06:00"]


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"approval": "quorum", "quorum": 3}, "a quorum of 3 is more than its 2 VMs can reach"),
        ({"quorum": 2}, "go together"),
        ({"quiet_hours": ["00:00-24:00"]}, "never end"),
        ({"terminate_notice": 300}, "terminate_notice is for scale-set groups"),
    ],
)
def test_terms_that_contradict_each_other_are_refused_whole(harness: ApiHarness, terms: object, said: str) -> None:
    """Before anything is written."""
    answer = harness.ask("PATCH", "/v1/groups/web", terms)

    assert (answer.status, said in answer.json["detail"]) == (409, True)
    assert harness.node.replica.revision == 1


def test_spot_vms_are_reclaimed_with_the_reason(harness: ApiHarness) -> None:
    """Either so many, or of a host."""
    assert harness.ask("POST", "/v1/spot/reclaim", {}).status == 409
    assert harness.ask("POST", "/v1/spot/reclaim", {"count": 2}).status == 409
    result = harness.ask("POST", "/v1/spot/reclaim", {"host": "h1"}).json["announcements"]

    assert [(each["event"]["resources"], each["reason"]) for each in result] == [(["pool_0"], "stands on h1")]


def test_a_scale_set_is_scaled_in_with_the_reason(harness: ApiHarness) -> None:
    """Only a scale set."""
    result = harness.ask("POST", "/v1/groups/pool/scale-in", {"count": 1}).json["announcements"]

    assert (result[0]["event"]["type"], result[0]["reason"][:6]) == ("Terminate", "newest")
    assert harness.ask("POST", "/v1/groups/web/scale-in", {"count": 1}).status == 409


def test_an_event_is_approved_postponed_and_canceled(harness: ApiHarness) -> None:
    """Each tells how it stands then."""
    harness.ask("PATCH", "/v1/groups/web", {"postpone_limit": 600})
    harness.ask("POST", "/v1/vms/web-0/operations", {"operation": "freeze"})
    before = harness.ask("GET", "/v1/events/last").json["not_before"]
    later = harness.ask("POST", "/v1/events/last/postpone", {"seconds": 600, "reason": "backup"}).json

    assert later["announcements"][0]["event"]["not_before"] > before
    assert harness.ask("POST", "/v1/events/last/postpone", {"seconds": 1}).status == 409
    assert harness.ask("POST", "/v1/events/last/approve").json["announcements"][0]["event"]["status"] == "Started"
    assert harness.ask("POST", "/v1/events/last/cancel").status == 409


def test_a_host_degrades_and_fails(harness: ApiHarness) -> None:
    """A nearer prediction brings what was announced forward; failure is felt at once."""
    path = "/v1/hosts/h2/operations"
    first = harness.ask("POST", path, {"operation": "degrade", "not_before": "2026-01-08T00:00:00Z"}).json
    second = harness.ask("POST", path, {"operation": "degrade", "not_before": "2026-01-02T00:00:00Z"}).json
    failed = harness.ask("POST", path, {"operation": "fail"}).json

    assert {each["event"]["not_before"] for each in first["announcements"]} == {"2026-01-08T00:00:00Z"}
    assert {each["event"]["not_before"] for each in second["announcements"]} == {"2026-01-02T00:00:00Z"}
    assert {each["event"]["status"] for each in failed["announcements"]} == {"Started"}
    assert len(failed["canceled"]) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"name": "", "role": "viewer"},
        {"name": "x", "role": "king"},
        {"name": "x", "role": "owner"},
        {"name": "x", "role": "viewer", "groups": ["web"]},
        {"name": "x", "role": "owner", "groups": ["nowhere"]},
        {"name": "x", "role": "viewer", "lasts": 0},
    ],
)
def test_a_token_that_makes_no_sense_is_not_created(harness: ApiHarness, body: object) -> None:
    """Nothing is written."""
    assert harness.ask("POST", "/v1/tokens", body).status in (400, 404, 409)
    assert harness.node.replica.revision == 1


def test_a_token_tells_which_of_its_groups_are_removed(harness: ApiHarness) -> None:
    """A later group of that name would be its own again; it still gets another secret."""
    harness.token("shop", "owner", "web", "db")
    harness.ask("PATCH", "/v1/fleet", {"removed_groups": ["db"], "removed_vms": ["db"]})

    assert harness.ask("POST", "/v1/tokens/shop/rotate").status == 201
    (listed,) = harness.ask("GET", "/v1/tokens").json["items"]
    assert (listed["groups"], listed["missing_groups"]) == (["web", "db"], ["db"])


def test_a_subscription_is_added_and_removed(harness: ApiHarness) -> None:
    """Its secret is told once, and a repetition of the very request tells it again."""
    body = {"name": "pager", "kind": "webhook", "target": "https://example.org/", "types": ["reboot"]}
    key = {"Idempotency-Key": "k"}
    made = harness.ask("POST", "/v1/subscriptions", body, headers=key).json

    assert made["secret"].startswith("whsec_")
    assert harness.ask("POST", "/v1/subscriptions", body, headers=key).json == made
    assert harness.ask("POST", "/v1/subscriptions", body).status == 409
    assert "secret" not in harness.ask("GET", "/v1/subscriptions/pager").json
    assert harness.ask("DELETE", "/v1/subscriptions/pager").status == 204
    assert harness.ask("GET", "/v1/subscriptions").json["items"] == []


def test_a_subscription_by_mail_without_a_mail_server_is_refused(harness: ApiHarness) -> None:
    """The setting is named, and nothing is recorded."""
    harness.context.deliveries = Dispatcher(harness.node, harness.journal, MailSettings())
    body = {"name": "boss", "kind": "mail", "target": "boss@example.org"}

    said = harness.ask("POST", "/v1/subscriptions", body)

    assert said.status == 409
    assert "set host and sender in [mail] of forewarn.toml" in said.json["detail"]
    assert harness.ask("GET", "/v1/subscriptions").json["items"] == []
