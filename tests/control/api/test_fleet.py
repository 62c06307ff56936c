"""The declaration as a whole: read in pages, changed whole or not at all, also in lines."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from forewarn.control.api.problems import InvalidRequest
from forewarn.control.api.streamed_bodies import read_streamed_body
from forewarn.control.bodies import FleetBody
from tests.harness import ApiHarness

LINES = {"Content-Type": "application/jsonl"}


def test_the_declaration_is_read_in_pages(harness: ApiHarness) -> None:
    """Hosts, then groups, then VMs; each once, with the number of changes it came from."""
    found: list[str] = []
    cursor = ""
    while True:
        page = harness.ask("GET", f"/v1/fleet?limit=2{cursor}").json
        found += [each["name"] for kind in ("hosts", "groups", "vms") for each in page[kind]]
        assert page["changes"] == 1
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"

    assert found == ["h1", "h2", "db", "pool", "web", "db", "pool_0", "web-0", "web-1"]


def test_one_vm_is_read_with_the_group_it_would_be_in(harness: ApiHarness) -> None:
    """Whether it is there or not."""
    known = harness.ask("GET", "/v1/fleet?vm=web-0").json
    absent = harness.ask("GET", "/v1/fleet?vm=web").json

    assert (known["vms"][0]["name"], known["groups"][0]["name"]) == ("web-0", "web")
    assert (absent["vms"], absent["groups"][0]["name"]) == ([], "web")


def test_a_change_in_lines_is_one_change(harness: ApiHarness) -> None:
    """However many lines, and however they are cut on the way."""
    parts = [
        {"seen": 1},
        {"vms": [{"name": "web-2", "group": "web"}]},
        {"vms": [{"name": "web-3", "group": "web"}], "removed_vms": ["db"]},
    ]
    body = b"\n\n".join(json.dumps(part).encode() for part in parts)
    result = harness.ask("PATCH", "/v1/fleet", body, headers=LINES).json

    assert (result["changed"]["vms"], result["changed"]["removed_vms"]) == (2, 1)
    assert harness.node.replica.revision == 2


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b'{"vms": []}\n{"vms": [{"name": 1}]}', "line 2.vms[0].name"),
        (b'{"vms": []}\nx', "line 2"),
        (b'{"vm": []}', "line 1"),
        (b'{"removed_vms": ["\xff"]}', "line 1"),
    ],
)
def test_a_line_that_does_not_fit_is_named(harness: ApiHarness, body: bytes, place: str) -> None:
    """And nothing is changed."""
    said = harness.ask("PATCH", "/v1/fleet", body, headers=LINES)

    assert (said.status, said.json["errors"][0]["place"]) == (400, place)
    assert harness.node.replica.revision == 1


def test_a_change_is_refused_whole(harness: ApiHarness) -> None:
    """One VM in an unknown group, and the others are not declared either."""
    body = {"vms": [{"name": "good", "group": "web"}, {"name": "bad", "group": "nowhere"}]}
    said = harness.ask("PATCH", "/v1/fleet", body)

    assert said.status in (404, 409)
    assert "good" not in harness.node.replica.fleet.vms


class LongBody:
    """A request with a body that is one long line."""

    def __init__(self, kind: str) -> None:
        self.headers = {"content-type": kind}

    async def stream(self) -> AsyncIterator[bytes]:
        yield b'{"removed_vms": ["' + b"x" * 200 + b'"]}'


@pytest.mark.parametrize(
    ("kind", "said"),
    [("application/json", "send it as lines"), (LINES["Content-Type"], "send less per line")],
)
def test_a_body_that_is_too_large_is_to_be_sent_in_lines(kind: str, said: str) -> None:
    """And a line that is too long, in more of them."""
    request: Any = LongBody(kind)
    decode = msgspec.json.Decoder(FleetBody).decode

    with pytest.raises(InvalidRequest, match=said):
        asyncio.run(read_streamed_body(request, decode, longest_line=100))
