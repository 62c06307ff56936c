"""What the API says about itself: a document of OpenAPI 3.1, and a page that needs nothing from elsewhere."""

import json
import re
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import msgspec

from forewarn.control.api.openapi import operations_of
from forewarn.core.access import PERMITTED
from forewarn.journal.port import JournalFailed
from tests.control.api.document import DOCUMENT
from tests.harness import ApiHarness


def test_the_document_is_served_to_everybody(harness: ApiHarness) -> None:
    """It is of OpenAPI 3.1, and is what the routes are."""
    said = harness.ask("GET", "/openapi.json", token="")

    assert said.status == 200
    assert said.json["openapi"].startswith("3.1")
    assert said.json == json.loads(msgspec.json.encode(DOCUMENT))


def test_every_operation_is_told_apart_described_and_says_who_may() -> None:
    """By a name of its own, a sentence, and the roles of the table."""
    operations = [operation for _, _, operation in operations_of(DOCUMENT)]
    names = [operation["operationId"] for operation in operations]

    assert len(set(names)) == len(names)
    assert all(operation["description"].endswith((".", ":")) for operation in operations)
    assert {role for operation in operations for role in operation["x-roles"]} == set(PERMITTED)


def test_every_reference_leads_to_a_record() -> None:
    """None is left hanging."""
    document = DOCUMENT
    wanted = set(re.findall(r"#/components/schemas/([\w.]+)", str(document)))

    assert wanted == set(document["components"]["schemas"])


def test_bodies_say_that_they_take_nothing_else() -> None:
    """What is enforced is written down."""
    schemas = DOCUMENT["components"]["schemas"]

    assert all(not schema["additionalProperties"] for name, schema in schemas.items() if name.endswith("Body"))


class Page(HTMLParser):
    """What a page asks for, and where its links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        if href := given.get("href"):
            self.links.add(href)
        if place := given.get("id"):
            self.places.add(place)


def test_the_page_needs_nothing_from_elsewhere(harness: ApiHarness) -> None:
    """No script, no picture, no style or font of another; and the browser is told so."""
    said = harness.ask("GET", "/api", token="")
    page = Page(said.body.decode())

    assert said.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in said.headers["content-security-policy"]
    assert not {"script", "img", "link", "iframe", "object", "form"} & set(page.tags)
    assert "//" not in re.sub(r"https?://[\w.:/-]*example[\w.:/-]*", "", said.body.decode().split("</style>")[0])
    assert all(link.startswith("#") or link == "/openapi.json" for link in page.links)


def test_every_link_on_the_page_leads_somewhere(harness: ApiHarness) -> None:
    """And every operation stands on it."""
    page = Page(harness.ask("GET", "/api").body.decode())

    assert {link.removeprefix("#") for link in page.links if len(link) > 1 and link != "/openapi.json"} <= page.places
    assert {operation["operationId"] for _, _, operation in operations_of(DOCUMENT)} <= page.places


def test_health_lists_what_needs_an_operator(harness: ApiHarness) -> None:
    """To operators and viewers, who may know the names in it; never to those without a token."""
    harness.node.warnings["reload"] = "the last reload failed: forewarn.toml, line 3: ..."

    said = harness.ask("GET", "/v1/health").json
    assert said["warnings"] == ["the last reload failed: forewarn.toml, line 3: ..."]
    assert harness.ask("GET", "/v1/health", token="").status == 401
    assert "warnings" not in harness.ask("GET", "/v1/health/ready", token="").json


def test_health_needs_no_token_and_tells_what_is_wrong(harness: ApiHarness) -> None:
    """Live as long as it runs; ready as long as the journal can be used."""
    assert harness.ask("GET", "/v1/health/live", token="").json["status"] == "live"
    assert harness.ask("GET", "/v1/health/ready", token="").json == {"status": "ready", "revision": 1}


def test_health_says_that_the_journal_cannot_be_written(harness: ApiHarness) -> None:
    """It lists the reason, also while the journal cannot even be read, until a write succeeds."""
    journal, append, load = harness.journal, harness.journal.append, harness.journal.load

    def fail(*_: Any) -> Any:
        raise JournalFailed("the disk is gone: check it")

    def write() -> int:
        return harness.ask("PATCH", "/v1/fleet", {"hosts": [{"name": "h9"}]}).status

    for way in ((fail, load), (fail, fail)):
        journal.append, journal.load = way  # type: ignore[method-assign, assignment]
        assert (write(), write()) == (503, 503)
        said = harness.ask("GET", "/v1/health")
        assert (said.status, said.json["status"]) == (200, "unready")
        (warning,) = said.json["warnings"]
        assert warning.endswith("the disk is gone: check it")
    journal.append, journal.load = append, load  # type: ignore[method-assign]
    harness.clock.advance(timedelta(minutes=1))
    assert write() == 200
    expected = {"status": "ready", "revision": 2, "warnings": [], "listeners": None, "workers": None, "cluster": None}
    assert harness.ask("GET", "/v1/health").json == expected
