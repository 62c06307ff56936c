"""Writes: done once under their key, refused whole, and told in the same words to whoever repeats them."""

from uuid import uuid4

import pytest

from tests.office import Office

RESTART = {"operation": "restart"}


def restart(office: Office, key: str, name: str = "web-0", token: str | None = None) -> tuple[int, object]:
    said = office.ask("POST", f"/v1/vms/{name}/operations", RESTART, token=token, headers={"Idempotency-Key": key})
    return said.status, said.json


@pytest.mark.parametrize("key", ["9d1c2b54-6f0e-4c7e-9d5e-0a4c7f1b2e30", "the first one of today"])
def test_what_is_sent_again_under_its_key_happens_once(office: Office, key: str) -> None:
    """And gets the same answer."""
    office.enrol("web", "web-0")

    assert restart(office, key) == restart(office, key)
    assert len(office.node.fleet.events) == 1


def test_an_operators_uuid_is_the_commands_id(office: Office) -> None:
    """By which the operation is found afterwards."""
    key = str(uuid4())
    _, told = restart(office, key)

    assert office.ask("GET", f"/v1/operations/{key.upper()}").json["announcements"] == told["announcements"]  # type: ignore[index]


def test_a_key_is_not_good_for_something_else(office: Office) -> None:
    """A mistake that would otherwise be answered with what was done before."""
    restart(office, "one")
    status, said = restart(office, "one", "web-1")

    assert status == 409
    assert said["detail"].startswith("this Idempotency-Key was used for another request")  # type: ignore[index]


def test_nobody_gets_anothers_answer_by_its_key(office: Office) -> None:
    """A key belongs to who sent it, whatever it is."""
    key = str(uuid4())
    restart(office, key, "db")
    _, own = restart(office, key, "web-0", office.token("ada", "owner", "web"))

    assert own["announcements"][0]["event"]["resources"] == ["web-0"]  # type: ignore[index]


@pytest.mark.parametrize("key", ["", " ", "x" * 201])
def test_a_key_that_is_none_is_refused(office: Office, key: str) -> None:
    """With its place."""
    status, said = restart(office, key)

    assert status == 400
    assert said["errors"][0]["place"] == "header.Idempotency-Key"  # type: ignore[index]


@pytest.mark.parametrize(
    ("body", "place", "said"),
    [
        (b"", "body", "is missing; send it as JSON"),
        (b"hello", "body", "malformed"),
        (b"[]", "body", "Expected `object`, got `array`"),
        (b"{}", "body", "missing required field `operation`"),
        (b'{"operation": "explode"}', "body.operation", "Invalid enum value 'explode'"),
        (b'{"operation": "restart", "x": 1}', "body", "unknown field `x`"),
        (b'{"operation": "restart", "duration": "5"}', "body.duration", "Expected `int | null`, got `str`"),
        (b'{"operation": "restart", "duration": -2}', "body.duration", ">= -1"),
        (b'{"operation": "restart", "not_before": "2030-01-01T00:00:00"}', "body.not_before", "timezone"),
        (b'{"operation": "restart", "description": "a\\nb"}', "body.description", "matching regex"),
    ],
)
def test_a_body_that_does_not_fit_is_refused_with_the_place(
    office: Office, body: bytes, place: str, said: str
) -> None:
    """One problem that names the field and what it has to be."""
    answer = office.ask("POST", "/v1/vms/web-0/operations", body)

    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json["errors"][0]["place"] == place
    assert said in answer.json["errors"][0]["detail"]
    assert said in answer.json["detail"]


def test_problems_are_those_of_rfc_9457(office: Office) -> None:
    """Type, title, status and a detail that says what to do."""
    assert office.ask("GET", "/v1/vms/web-00").json == {
        "type": "urn:forewarn:problem:unknown",
        "title": "There is no such thing",
        "status": 404,
        "detail": "there is no VM 'web-00'; did you mean 'web-0'?",
    }
    assert office.ask("GET", "/v2/vms").json["detail"].startswith("nothing is at /v2/vms")
    assert office.ask("PUT", "/v1/vms").status == 405


def test_a_mistake_of_the_service_is_a_problem_too(office: Office) -> None:
    """Without its insides; the log has them."""
    office.node.look = None  # type: ignore[method-assign, assignment]  # so that it fails
    said = office.ask("GET", "/v1/vms/web-0")

    assert (said.status, said.json["type"]) == (500, "urn:forewarn:problem:failed")
    assert "NoneType" not in said.body.decode()


@pytest.mark.parametrize("operation", ["start", "deallocate"])
def test_what_announces_nothing_takes_no_announcement(office: Office, operation: str) -> None:
    """A time that would be ignored is refused."""
    body = {"operation": operation, "duration": 5}

    assert office.ask("POST", "/v1/vms/web-0/operations", body).status == 400
    assert office.ask("POST", "/v1/vms/web-0/operations", {"operation": operation}).status == 201


def test_a_limit_is_429(office: Office) -> None:
    """So that a program can wait and try again."""
    office.enrol("web", "web-0")
    office.node.rules = type(office.node.rules)(user_operation_limit=1)
    restart(office, "a")

    assert restart(office, "b", "web-1")[0] == 429


def test_terms_are_set_and_what_is_left_out_stays(office: Office) -> None:
    """Null takes the terminate notice away."""
    path = "/v1/groups/pool"
    first = office.ask("PATCH", path, {"approval": "all", "quiet_hours": ["22:00-06:00"]}).json
    second = office.ask("PATCH", path, {"terminate_notice": None, "eviction": "delete"}).json

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
def test_terms_that_contradict_each_other_are_refused_whole(office: Office, terms: object, said: str) -> None:
    """Before anything is written."""
    answer = office.ask("PATCH", "/v1/groups/web", terms)

    assert (answer.status, said in answer.json["detail"]) == (409, True)
    assert office.node.revision == 1


def test_spot_vms_are_reclaimed_with_the_reason(office: Office) -> None:
    """Either so many, or of a host."""
    assert office.ask("POST", "/v1/spot/reclaim", {}).status == 409
    assert office.ask("POST", "/v1/spot/reclaim", {"count": 2}).status == 409
    told = office.ask("POST", "/v1/spot/reclaim", {"host": "h1"}).json["announcements"]

    assert [(each["event"]["resources"], each["reason"]) for each in told] == [(["pool_0"], "stands on h1")]


def test_a_scale_set_is_scaled_in_with_the_reason(office: Office) -> None:
    """Only a scale set."""
    told = office.ask("POST", "/v1/groups/pool/scale-in", {"count": 1}).json["announcements"]

    assert (told[0]["event"]["type"], told[0]["reason"][:6]) == ("Terminate", "newest")
    assert office.ask("POST", "/v1/groups/web/scale-in", {"count": 1}).status == 409


def test_an_event_is_approved_postponed_and_canceled(office: Office) -> None:
    """Each tells how it stands then."""
    office.ask("PATCH", "/v1/groups/web", {"postpone_limit": 600})
    office.ask("POST", "/v1/vms/web-0/operations", {"operation": "freeze"})
    before = office.ask("GET", "/v1/events/last").json["not_before"]
    later = office.ask("POST", "/v1/events/last/postpone", {"seconds": 600, "reason": "backup"}).json

    assert later["announcements"][0]["event"]["not_before"] > before
    assert office.ask("POST", "/v1/events/last/postpone", {"seconds": 1}).status == 409
    assert office.ask("POST", "/v1/events/last/approve").json["announcements"][0]["event"]["status"] == "Started"
    assert office.ask("POST", "/v1/events/last/cancel").status == 409


def test_a_host_degrades_and_fails(office: Office) -> None:
    """A nearer prediction brings what was announced forward; failure is felt at once."""
    path = "/v1/hosts/h2/operations"
    first = office.ask("POST", path, {"operation": "degrade", "not_before": "2026-01-08T00:00:00Z"}).json
    second = office.ask("POST", path, {"operation": "degrade", "not_before": "2026-01-02T00:00:00Z"}).json
    failed = office.ask("POST", path, {"operation": "fail"}).json

    assert {each["event"]["not_before"] for each in first["announcements"]} == {"2026-01-08T00:00:00Z"}
    assert {each["event"]["not_before"] for each in second["announcements"]} == {"2026-01-02T00:00:00Z"}
    assert {each["event"]["status"] for each in failed["announcements"]} == {"Started"}
    assert len(failed["canceled"]) == 2


def test_a_token_is_told_once(office: Office) -> None:
    """A repetition under the key is refused: nobody keeps what it would have to tell."""
    body, key = {"name": "ada", "role": "viewer"}, {"Idempotency-Key": "k"}
    first = office.ask("POST", "/v1/tokens", body, headers=key)
    second = office.ask("POST", "/v1/tokens", body, headers=key)

    assert (first.status, second.status) == (201, 409)
    assert "rotate the token" in second.json["detail"]
    assert "token" not in office.ask("GET", "/v1/tokens").json["items"][0]


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
def test_a_token_that_makes_no_sense_is_not_created(office: Office, body: object) -> None:
    """Nothing is written."""
    assert office.ask("POST", "/v1/tokens", body).status in (400, 404, 409)
    assert office.node.revision == 1


def test_a_subscription_is_added_and_removed(office: Office) -> None:
    """Its secret is told once, and a repetition of the very request tells it again."""
    body = {"name": "pager", "kind": "webhook", "target": "https://example.org/", "types": ["reboot"]}
    key = {"Idempotency-Key": "k"}
    made = office.ask("POST", "/v1/subscriptions", body, headers=key).json

    assert made["secret"].startswith("whsec_")
    assert office.ask("POST", "/v1/subscriptions", body, headers=key).json == made
    assert office.ask("POST", "/v1/subscriptions", body).status == 409
    assert "secret" not in office.ask("GET", "/v1/subscriptions/pager").json
    assert office.ask("DELETE", "/v1/subscriptions/pager").status == 204
    assert office.ask("GET", "/v1/subscriptions").json["items"] == []
