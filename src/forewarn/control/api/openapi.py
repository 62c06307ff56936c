"""The OpenAPI document of the control API, made from the routes themselves.

What records look like is asked of msgspec, which reads and writes them: the document says what is enforced.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import msgspec
from litestar import Litestar, Router
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, Schema, SecurityScheme, Tag
from litestar.plugins import OpenAPISchemaPlugin
from litestar.routes import BaseRoute
from litestar.types import ControllerRouterHandler
from litestar.typing import FieldDefinition

from forewarn import __version__
from forewarn.control.api.routing import ACTION
from forewarn.control.bodies import FleetBody
from forewarn.core.access import PERMITTED

Document = dict[str, Any]
_ABOUT = """\
Maintenance that asks first. Operators announce what is about to happen to VMs, owners look after their own groups.

Over TCP every request bears a token (`Authorization: Bearer fw_...`); through the unix socket in the data directory
none is needed. Writes take an `Idempotency-Key`; a repetition gets the first answer again, with the header
`Idempotent-Replayed: true`. Lists come in pages: send `next` back as `cursor`. Errors are
problems (RFC 9457) whose `detail` says what to do.\
"""
_TAGS = {
    "VMs": "The machines that are warned.",
    "Groups": "VMs that see each other's events, and on which terms.",
    "Hosts": "What VMs stand on.",
    "Events": "What is announced to VMs, and what became of it.",
    "Operations": "What commands made happen.",
    "History": "The record, by whatever it concerns.",
    "Fleet": "Everything that is declared, as a whole.",
    "Changes": "Every fact as it is committed.",
    "Subscriptions": "Who outside is told.",
    "Tokens": "Who may come in.",
    "Service": "The service itself.",
}


class _NoRoutes(Router):
    """Keeps the framework from adding routes of its own: the document is handed out by ours."""

    def register(self, value: ControllerRouterHandler) -> list[BaseRoute]:
        return []


CONFIG = OpenAPIConfig(
    title="Forewarn control API",
    version=__version__,
    description=_ABOUT,
    components=Components(security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}),
    security=[{"token": []}],
    tags=[Tag(name, description) for name, description in _TAGS.items()],
    use_handler_docstrings=True,
    openapi_router=_NoRoutes("/schema", route_handlers=[]),
)


_MARK = "record:"
"""What stands in the document for a record until it is finished."""


class RecordSchemas(OpenAPISchemaPlugin):
    """Says what records look like, as msgspec does."""

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}

    def is_plugin_supported_field(self, field_definition: FieldDefinition) -> bool:
        kind = field_definition.origin or field_definition.annotation
        return isinstance(kind, type) and issubclass(kind, msgspec.Struct)

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: object) -> Any:
        return Schema(title=_MARK + self.reference(field_definition.annotation))

    def reference(self, kind: Any) -> str:
        """Return where a record is described, and describe it there."""
        (schema,), schemas = msgspec.json.schema_components(
            [kind],
            ref_template="#/components/schemas/{name}",
            schema_hook=lambda _: {"description": "Anything."},
        )
        self.schemas.update(schemas)
        return str(schema["$ref"])


@cache
def describe(app: Litestar) -> Document:
    """Return the document that describes what the application answers."""
    records = app.plugins.get(RecordSchemas)
    document = app.openapi_schema.to_schema()
    roles = _roles(app)
    for path, method, operation in operations_of(document):
        operation["operationId"], operation["x-roles"] = roles[path, method]
        if not operation["x-roles"]:
            operation["security"] = []
        for parameter in operation.get("parameters", ()):
            parameter["schema"] = _never_null(parameter["schema"])
    # A change of the fleet is read in pieces, so no route declares it.
    document = cast("Document", _resolved(document))
    content = {
        "application/json": {"schema": {"$ref": records.reference(FleetBody)}},
        "application/jsonl": {"schema": {"type": "string"}},
    }
    document["paths"]["/v1/fleet"]["patch"]["requestBody"] = {"content": content, "required": True}
    document["components"]["schemas"] = dict(sorted(records.schemas.items()))
    return document


def _resolved(part: Any) -> Any:
    """Put references to records where they were marked."""
    if isinstance(part, list):
        return [_resolved(each) for each in part]
    if not isinstance(part, dict):
        return part
    title = part.get("title")
    if isinstance(title, str) and title.startswith(_MARK):
        return {"$ref": title.removeprefix(_MARK)}
    return {key: _resolved(each) for key, each in part.items()}


def _never_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out that a parameter may be null: it is left out instead."""
    kinds = [each for each in schema.get("oneOf", ()) if each != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key not in ("oneOf", "description")}
    if len(kinds) == 1:
        rest |= kinds[0]
    if None in rest.get("enum", ()):
        rest |= {"type": "string", "enum": [word for word in rest["enum"] if word is not None]}
    return rest


def operations_of(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the path, method and description of everything that can be done."""
    for path, item in document["paths"].items():
        for method in ("get", "post", "patch", "put", "delete"):
            if method in item:
                yield path, method, item[method]


def _roles(app: Litestar) -> dict[tuple[str, str], tuple[str, list[str]]]:
    """Return the name of every operation, and which roles may use it; none where everybody may."""
    found = {}
    for route in app.routes:
        for handler in getattr(route, "route_handlers", ()):
            action = handler.opt.get(ACTION)
            roles = [str(role) for role, actions in PERMITTED.items() if action in actions]
            for method in getattr(handler, "http_methods", ()):
                name = handler.fn.__name__.replace("_", "-")
                found[route.path_format, str(method).lower()] = name, roles
    return found
