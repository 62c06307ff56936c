"""What is answered: the order of checks, documents and tags, enrolment, approvals, instance facts."""

import asyncio
import json
import logging

import pytest

from forewarn.core.errors import Unavailable, Unknown
from forewarn.core.facts import SwitchedOff, VmDeallocated, VmStarted
from forewarn.metadata.limits import Limits
from tests.metadata.harness import EVENTS, NOW, get, harness, on_both_loops, post

STRANGER = "127.0.0.9"
HEADER = b'{ "error": "Bad request: . Required metadata header not specified" }'
FORWARDED = b'{ "error": "Bad request. A request with an X-Forwarded-For header is not answered" }'
BAD_VERSION = (
    b'{"error":"Bad request. api-version is invalid or was not specified in the request. For more information'
    b' refer to aka.ms/azureimds","newest-versions":["2020-07-01","2019-08-01","2019-04-01"]}'
)
NOT_FOUND = b'{ "error": "Not found. The requested element does not exist" }'


@pytest.mark.parametrize(
    ("request_", "source", "status", "body"),
    [
        (get(metadata=""), STRANGER, 403, b'{ "error": "Forbidden.'),
        (get("/x", metadata=""), "127.0.0.1", 400, HEADER),
        (get(metadata="false"), "127.0.0.1", 400, HEADER),
        (get(EVENTS, "Metadata: true"), "127.0.0.1", 400, HEADER),
        (get(EVENTS, "X-Forwarded-For: 1.2.3.4", metadata=""), "127.0.0.1", 400, HEADER),
        (get("/metadata/scheduledevents", "X-Forwarded-For:"), "127.0.0.1", 400, FORWARDED),
        (get("/metadata/scheduledevents"), "127.0.0.1", 400, BAD_VERSION),
        (get("/metadata/scheduledevents?api-version=2021-02-01"), "127.0.0.1", 400, BAD_VERSION),
        (get("/metadata/scheduledevents?api-version=latest"), "127.0.0.1", 400, BAD_VERSION),
        (get("/metadata/scheduledevents?api-version=", method="PUT"), "127.0.0.1", 400, BAD_VERSION),
        (get(f"{EVENTS}&api-version=2020-07-01"), "127.0.0.1", 400, b'{ "error": "Bad request. A query parameter'),
        (get("/metadata/nothing"), "127.0.0.1", 400, b'{"error":"Bad request. api-version is invalid'),
        (get("/metadata"), "127.0.0.1", 400, b'{"error":"Bad request. api-version is invalid'),
        (get("/metadata/nothing?api-version=2020-07-01", method="PUT"), "127.0.0.1", 404, NOT_FOUND),
        (get("/metadata?api-version=2025-04-07"), "127.0.0.1", 404, NOT_FOUND),
        (get("/metadata/latest/scheduledevents?api-version=2020-07-01"), "127.0.0.1", 404, NOT_FOUND),
        (get(EVENTS, method="DELETE"), "127.0.0.1", 405, b'{ "error": "Method not allowed" }'),
        (get("/metadata/instance?api-version=2021-02-01", method="POST"), "127.0.0.1", 405, b'{ "error": "Method'),
        (post(b"nonsense"), "127.0.0.1", 400, b'{ "error": "Bad request. the approval cannot be read'),
    ],
)
@on_both_loops
async def test_checks_are_made_in_order(request_: bytes, source: str, status: int, body: bytes) -> None:
    """Of several things that are wrong with a request, the first in Azure's order is answered."""
    async with harness() as service:
        answer = await service.ask(request_, source)
        assert answer.status == status
        assert answer.body.startswith(body)


@on_both_loops
async def test_a_refused_method_is_told_the_others() -> None:
    """A 405 names the methods that the route has."""
    async with harness() as service:
        assert (await service.ask(get(EVENTS, method="PUT"))).fields["allow"] == "GET, HEAD, POST"
        versions = await service.ask(get("/metadata/versions", method="POST"))
        assert (versions.status, versions.fields["allow"]) == (405, "GET, HEAD")


@on_both_loops
async def test_only_the_first_preview_approves_without_the_header() -> None:
    """POST with api-version 2017-03-01 needs no Metadata header; nothing else goes without."""
    async with harness() as service:
        body = b'{"StartRequests":[]}'
        for version, status in (("2017-03-01", 200), ("2017-08-01", 400), ("2020-07-01", 400)):
            target = f"/metadata/scheduledevents?api-version={version}"
            request = get(target, f"Content-Length: {len(body)}", method="POST", metadata="") + body
            assert (await service.ask(request)).status == status
        assert (await service.ask(get("/metadata/scheduledevents?api-version=2017-03-01", metadata=""))).status == 400


@on_both_loops
async def test_paths_are_tolerated_as_azure_does() -> None:
    """Case, a trailing slash and percent-encoding make no difference."""
    async with harness() as service:
        for path in ("/metadata/scheduledEvents", "/METADATA/SCHEDULEDEVENTS/", "/metadata/scheduled%65vents"):
            assert (await service.ask(get(f"{path}?api-version=2020-07-01"))).status == 200
        assert (await service.ask(get("/metadata/scheduledevents?api%2Dversion=2020%2D07-01"))).status == 200


@on_both_loops
async def test_every_spelling_of_a_tag_matches() -> None:
    """If-None-Match counts quoted, bare, weak, in a list and as a star; never as another's tag or a bare 0."""
    async with harness() as service:
        tag = (await service.ask(get())).fields["etag"]
        assert tag == '"web-1"'
        for result in (tag, "web-1", f"W/{tag}", "W/web-1", f'"a", {tag}', f'"a,b" ,{tag}', "*", f"x,{tag}"):
            answer = await service.ask(get(EVENTS, f"If-None-Match: {result}"))
            assert (answer.status, answer.fields["etag"], answer.body) == (304, tag, b"")
        for result in ("0", '"0"', '"web-2"', "web", "", '"'):
            assert (await service.ask(get(EVENTS, f"If-None-Match: {result}"))).status == 200


@on_both_loops
async def test_a_change_is_shown_with_another_tag() -> None:
    """A new event makes another document under another tag, and the old tag no longer matches."""
    async with harness() as service:
        service.announce("e1")
        answer = await service.ask(get(EVENTS, 'If-None-Match: "web-1"'))
        document = json.loads(answer.body)
        assert (answer.status, answer.fields["etag"]) == (200, '"web-2"')
        assert (document["DocumentIncarnation"], document["Events"][0]["EventId"]) == (2, "E1")


@on_both_loops
async def test_the_date_moves_on() -> None:
    """The Date of an answer is that of its second."""
    async with harness() as service:
        service.move(61)
        assert (await service.ask(get())).fields["date"] == "Thu, 01 Jan 2026 12:01:01 GMT"


@on_both_loops
async def test_the_first_get_waits_for_the_enrolment() -> None:
    """A group is switched on by its first GET, which waits until that is durable; all who ask meanwhile share it."""
    async with harness(is_enrolled=False) as service:
        service.gate.clear()
        first = await service.call(get())
        second = await service.call(get(), "127.0.0.2")
        await service.settle()
        assert first.has_nothing()
        assert second.has_nothing()
        service.gate.set()
        assert [(await caller.answer()).status for caller in (first, second)] == [200, 200]
        assert len(service.enrolments) == 1
        await service.ask(get())
        assert len(service.enrolments) == 1


@on_both_loops
async def test_only_a_good_get_of_the_document_enrols() -> None:
    """Instance facts, versions, approvals and refused requests switch nothing on."""
    async with harness(is_enrolled=False) as service:
        for request in (
            get("/metadata/instance?api-version=2021-02-01"),
            get("/metadata/versions"),
            get(metadata=""),
            post(b'{"StartRequests":[]}'),
        ):
            await service.ask(request)
        assert service.enrolments == []


@on_both_loops
async def test_a_failed_enrolment_is_tried_again() -> None:
    """While the journal fails, the first GET is answered 500, and the next one tries anew."""
    async with harness(is_enrolled=False) as service:
        service.failure = Unavailable("the disk is full")
        assert (await service.ask(get())).status == 500
        service.failure = None
        assert (await service.ask(get())).status == 200
        assert len(service.enrolments) == 2


@on_both_loops
async def test_a_group_switched_off_enrols_again() -> None:
    """After a group was switched off, the next GET switches it on again."""
    async with harness() as service:
        service.commit(SwitchedOff("web", NOW))
        assert (await service.ask(get())).status == 200
        assert service.enrolments == [("web", "web-0")]


@on_both_loops
async def test_an_approval_is_answered_once_it_is_durable() -> None:
    """POST hands the ids over, lower case, waits, and answers 200 without a body."""
    async with harness() as service:
        service.gate.clear()
        caller = await service.call(post(b'{"StartRequests":[{"EventId":"AB-C"},{"EventId":"d"}]}'))
        await service.settle()
        assert caller.has_nothing()
        service.gate.set()
        answer = await caller.answer()
        assert (answer.status, answer.body, answer.fields["content-length"]) == (200, b"", "0")
        assert service.approvals == [("web-0", ("ab-c", "d"))]


@on_both_loops
async def test_a_refused_approval_says_why() -> None:
    """An unknown id is the caller's fault, a failing journal is ours."""
    async with harness() as service:
        request = post(b'{"StartRequests":[{"EventId":"x"}]}')
        service.failure = Unknown("there is no event 'x'")
        answer = await service.ask(request)
        assert (answer.status, answer.body) == (400, b'{ "error": "Bad request. there is no event \'x\'" }')
        service.failure = Unavailable("the disk is full")
        assert (await service.ask(request)).status == 500


@on_both_loops
async def test_a_vm_reads_about_itself() -> None:
    """Instance facts come whole, by path and as text; versions need no api-version."""
    async with harness() as service:
        whole = await service.ask(get("/metadata/instance?api-version=2021-02-01"))
        assert json.loads(whole.body)["compute"]["name"] == "web-0"
        name = await service.ask(
            get("/metadata/Instance/compute/name?api-version=2021-02-01&format=text"), "127.0.0.2"
        )
        assert (name.body, name.fields["content-type"]) == (b"web-1", "text/plain; charset=utf-8")
        assert (await service.ask(get("/metadata/instance/none?api-version=2021-02-01"))).status == 404
        assert "2025-04-07" in json.loads((await service.ask(get("/metadata/versions"))).body)["apiVersions"]


@on_both_loops
async def test_the_rate_is_limited_for_each_vm() -> None:
    """A VM may ask twenty times at once and five times a second; 429 says when to come again, and costs nothing."""
    async with harness(Limits()) as service:
        caller = await service.call(get() * 23)
        answers = [await caller.answer() for _ in range(23)]
        assert [answer.status for answer in answers] == [200] * 20 + [429] * 3
        assert answers[-1].fields["retry-after"] == "1"
        assert (await service.ask(get(), "127.0.0.2")).status == 200
        service.move(0.2)
        assert [(await service.ask(get())).status for _ in range(2)] == [200, 429]
        service.move(60)
        caller = await service.call(get() * 21)
        assert [(await caller.answer()).status for _ in range(21)] == [200] * 20 + [429]


@on_both_loops
async def test_what_is_refused_for_its_content_counts() -> None:
    """A request with the wrong header is one of those that the rate counts."""
    async with harness(Limits()) as service:
        caller = await service.call(get(metadata="") * 21)
        assert [(await caller.answer()).status for _ in range(21)] == [400] * 20 + [429]


@on_both_loops
async def test_a_deallocated_vm_is_nobody() -> None:
    """A VM that is deallocated gets 403, also on a connection it had, until it is started."""
    async with harness() as service:
        caller = await service.call(get())
        await caller.answer()
        service.commit(VmDeallocated("web-0", "evicted"))
        await caller.send(get())
        assert (await caller.answer()).status == 403
        service.commit(VmStarted("web-0"))
        await caller.send(get())
        assert (await caller.answer()).status == 200


@on_both_loops
async def test_an_unexpected_failure_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    """A fault of ours is answered 500 and logged; the caller does not hang."""
    async with harness() as service:
        service.failure = ZeroDivisionError()  # type: ignore[assignment]
        with caplog.at_level(logging.ERROR):
            assert (await service.ask(post(b'{"StartRequests":[{"EventId":"x"}]}'))).status == 500
        assert "request failed" in caplog.text


@on_both_loops
async def test_a_caller_that_leaves_early_harms_nobody() -> None:
    """An answer to somebody who has gone is dropped."""
    async with harness(is_enrolled=False) as service:
        service.gate.clear()
        caller = await service.call(get())
        await service.settle()
        caller.close()
        await service.settle()
        service.gate.set()
        await asyncio.sleep(0)
        assert (await service.ask(get())).status == 200


@on_both_loops
async def test_what_is_answered_is_counted() -> None:
    """Documents by api-version and status, refusals by status, whoever wrote them."""
    async with harness(Limits(rate=0.1, burst=3)) as service:
        tag = (await service.ask(get())).fields["etag"]
        await service.ask(get(EVENTS.replace("2020-07-01", "2019-01-01")))
        await service.ask(get(EVENTS, f"If-None-Match: {tag}"))
        for request, source in ((get(), "127.0.0.1"), (get(), STRANGER), (b"nonsense\r\n\r\n", STRANGER)):
            await service.ask(request, source)

        counts = {(version, status): count for version, status, count in service.service.documents() if count}
        assert counts == {("2020-07-01", 200): 1, ("2019-01-01", 200): 1, ("2020-07-01", 304): 1}
        assert service.service.common_headers.refusals == {429: 1, 403: 1, 400: 1}
