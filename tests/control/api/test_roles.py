"""Every route with every role: who is let in, and what an owner cannot tell apart.

The routes are taken from the application itself, so that a new one cannot be forgotten here.
"""

import re
from collections.abc import Iterator

import msgspec
import pytest

from forewarn.control.api.app import make_app
from forewarn.control.api.openapi import operations_of
from forewarn.control.api.routing import ACTION, PUBLIC
from forewarn.core.model import Role
from tests.control.api.document import DOCUMENT
from tests.harness import FLEET, ApiHarness, ApiResponse, open_harness

OTHERS = """
[[host]]
name = "h7"
[[group]]
name = "shop"
kind = "scale-set"
[[vm]]
name = "shop-0"
group = "shop"
host = "h7"
spot = true
"""
BODIES: dict[str, object] = {
    "operate-vm": {"operation": "restart"},
    "operate-host": {"operation": "freeze"},
    "scale-in": {"count": 1},
    "reclaim-spot": {"count": 1},
    "set-terms": {"approval": "all"},
    "postpone": {"seconds": 60},
    "change-fleet": {},
    "create-token": {"name": "t", "role": "viewer"},
    "add-subscription": {"name": "s", "kind": "webhook", "target": "https://example.org/"},
}
ENDLESS = {"listen"}
"""What goes on answering; that owners hear only of their own is held in test_change_stream.py and test_attacks.py."""


class Route(msgspec.Struct, frozen=True):
    """One thing that can be asked of the API."""

    name: str
    method: str
    path: str
    roles: tuple[str, ...]
    queries: tuple[str, ...]

    def at(self, name: str) -> str:
        return re.sub(r"{\w+}", name, self.path)


ROUTES = [
    Route(
        operation["operationId"],
        method.upper(),
        path,
        tuple(operation["x-roles"]),
        tuple(each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"),
    )
    for path, method, operation in operations_of(DOCUMENT)
]
OWNED = [route for route in ROUTES if Role.OWNER in route.roles and route.name not in ENDLESS]
FILTERS = (
    ("vm", "vms"),
    ("group", "groups"),
    ("host", "hosts"),
    ("event", "events"),
    ("event", "finished"),
    ("event", "shortened"),
    ("caller", "callers"),
)


class RolesHarness(msgspec.Struct, frozen=True):
    """A control plane with the groups of two owners, what happened in each, and tokens of every role."""

    harness: ApiHarness
    tokens: dict[str, str]
    names: dict[str, tuple[str, str]]
    """What the owner of ``web`` must not learn of, by the word for it, each with a name that is nowhere."""

    def ask(self, route: Route, name: str, token: str, query: str = "") -> ApiResponse:
        return self.harness.ask(route.method, route.at(name) + query, BODIES.get(route.name), token=token)

    def ask_both(self, route: Route, word: str, query: str = "") -> list[tuple[int, dict[str, str], bytes]]:
        """Ask for what is another's and for what is nowhere; return what was said, with the name left out."""
        said = []
        for name in self.names[word]:
            answer = self.ask(route, name, self.tokens["owner"], query.format(name))
            headers = {key: value for key, value in answer.headers.items() if key != "date"}
            body = re.sub(re.escape(name).encode(), b"it", answer.body, flags=re.IGNORECASE)
            said.append((answer.status, headers, body))
        return said


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolesHarness]:
    with open_harness(tmp_path_factory.mktemp("control")) as harness:
        harness.declare(FLEET + OTHERS)
        done = harness.ask("POST", "/v1/vms/shop-0/operations", {"operation": "freeze"}).json
        harness.ask("POST", "/v1/vms/web-0/operations", {"operation": "freeze"})
        over = harness.ask("POST", "/v1/vms/shop-0/operations", {"operation": "freeze"}).json["announcements"][0]
        harness.ask("POST", f"/v1/events/{over['event']['id']}/cancel")
        event = done["announcements"][0]["event"]["id"]
        nowhere = "0A11CE00-0000-4000-8000-000000000001"
        tokens = {
            "operator": harness.token("ops"),
            "owner": harness.token("ada", "owner", "web"),
            "viewer": harness.token("eve", "viewer"),
        }
        harness.token("bob", "owner", "shop")
        names = {
            "vms": ("shop-0", "shop-9"),
            "groups": ("shop", "shap"),
            "hosts": ("h7", "h9"),
            "events": (event, nowhere),
            "finished": (over["event"]["id"], nowhere),
            "shortened": (event[:8], nowhere[:8]),
            "operations": (done["operation"], nowhere.lower()),
            "callers": ("bob", "bab"),
        }
        yield RolesHarness(harness, tokens, names)


def test_every_route_says_who_may_use_it(scene: RolesHarness) -> None:
    """It names its action, or that it is public; none is left out of the document but the document itself."""
    app = make_app(scene.harness.context)
    handlers = [handler for route in app.routes for handler in getattr(route, "route_handlers", ())]
    handlers = [handler for handler in handlers if handler.handler_name != "options_handler"]

    assert handlers
    assert all((ACTION in handler.opt) != (PUBLIC in handler.opt) for handler in handlers)


@pytest.mark.parametrize("role", ["", *Role])
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_role_is_let_in_where_the_table_says_so(scene: RolesHarness, route: Route, role: str) -> None:
    """401 without a token, 403 with one of another role, whatever is named; else neither."""
    if route.name in ENDLESS and role in route.roles:
        assert scene.harness.ask("GET", f"{route.path}?after=x", token=scene.tokens[role]).status == 400
        return
    said = scene.ask(route, "nothing-of-that-name", scene.tokens[role] if role else "")

    if not route.roles:
        assert said.status == 200
    elif not role:
        assert (said.status, said.json["type"]) == (401, "urn:forewarn:problem:unauthenticated")
        assert said.headers["www-authenticate"].startswith("Bearer")
    elif role not in route.roles:
        assert (said.status, said.json["type"]) == (403, "urn:forewarn:problem:not-allowed")
    else:
        assert said.status not in (401, 403)


@pytest.mark.end_to_end
@pytest.mark.parametrize("word", ["vms", "groups", "hosts", "events", "finished", "shortened", "operations"])
@pytest.mark.parametrize("route", [route for route in ROUTES if "{" in route.path], ids=lambda route: route.name)
def test_what_is_anothers_is_answered_as_what_is_nowhere(scene: RolesHarness, route: Route, word: str) -> None:
    """Byte for byte: status, headers and body, on every route that names something, whatever it is taken for."""
    others, nowhere = scene.ask_both(route, word)

    assert others == nowhere
    assert others[0] in (400, 403, 404)


@pytest.mark.parametrize(
    ("route", "query", "word"),
    [
        pytest.param(route, query, word, id=f"{route.name} {word}")
        for route in OWNED
        for query, word in FILTERS
        if query in route.queries
    ],
)
def test_what_is_anothers_is_filtered_as_what_is_nowhere(
    scene: RolesHarness, route: Route, query: str, word: str
) -> None:
    """A filter that names another's things finds what one that names nothing does."""
    others, nowhere = scene.ask_both(route, word, f"?{query}={{}}")

    assert others == nowhere


@pytest.mark.parametrize("route", [route for route in OWNED if route.method == "GET"], ids=lambda route: route.name)
def test_nothing_an_owner_reads_speaks_of_anothers_groups(scene: RolesHarness, route: Route) -> None:
    """Neither lists nor records name them, finished events included."""
    queries = ["?finished=100"] if "finished" in route.queries else [""]
    for query in queries:
        said = scene.ask(route, "web", scene.tokens["owner"], query)

        assert b"shop" not in said.body
        assert scene.names["events"][0].lower().encode() not in said.body.lower()
        assert b"bob" not in said.body


def test_what_an_owner_may_do_to_its_own_it_may_not_do_to_others(scene: RolesHarness) -> None:
    """The same request is done here and unknown there, and the others' VM stays as it was."""
    token = scene.tokens["owner"]
    own = scene.harness.ask("POST", "/v1/vms/web-1/operations", {"operation": "redeploy"}, token=token)
    others = scene.harness.ask("POST", "/v1/vms/shop-0/operations", {"operation": "redeploy"}, token=token)
    before = scene.harness.ask("GET", "/v1/vms/shop-0").json["events"]

    assert (own.status, others.status) == (201, 404)
    assert scene.harness.ask("GET", "/v1/vms/shop-0").json["events"] == before
    story = scene.harness.ask("GET", f"/v1/events/{own.json['announcements'][0]['event']['id']}", token=token).json
    assert story["steps"][0]["by"] == "ada (127.0.0.1)"


@pytest.mark.parametrize("operation", ["freeze", "evict", "start", "deallocate"])
def test_an_owner_may_not_do_the_platforms_work(scene: RolesHarness, operation: str) -> None:
    """Refused by its role, on its own VM, another's and none alike."""
    token = scene.tokens["owner"]
    for name in ("web-0", "shop-0", "shop-9"):
        said = scene.harness.ask("POST", f"/v1/vms/{name}/operations", {"operation": operation}, token=token)
        assert (said.status, said.json["type"]) == (403, "urn:forewarn:problem:not-allowed")
