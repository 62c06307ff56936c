"""Generates the OpenAPI document of the control API from its routes.

Schemas of records come from msgspec, which also parses them, so the document states what is enforced.
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
Scheduled events for VMs. Operators announce maintenance of VMs, owners manage their own groups.

Over TCP every request needs a token (`Authorization: Bearer fw_...`); through the unix socket in the data directory
none is needed. Writes take an `Idempotency-Key`; a repetition gets the first answer again, with the header
`Idempotent-Replayed: true`. Lists come in pages: send `next` back as `cursor`. Errors are
problem details (RFC 9457); `detail` says what to do.\
"""
_TAGS = {
    "VMs": "Virtual machines.",
    "Groups": "VMs that see each other's events, and their terms.",
    "Hosts": "Hosts of VMs.",
    "Rollouts": "Maintenance of many hosts in waves.",
    "Events": "Scheduled events.",
    "Operations": "Results of commands.",
    "History": "The history of VMs, groups, hosts, events and callers.",
    "Fleet": "All declared records.",
    "Changes": "Stream of committed facts.",
    "Subscriptions": "Notifications to other systems.",
    "Tokens": "Tokens for access over TCP.",
    "Service": "The service itself.",
}


class _NoRoutes(Router):
    """Keeps the framework from adding its own routes: ``openapi_routes`` serves the document."""

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
"""Placeholder of a record in the document until it is resolved."""


class RecordSchemas(OpenAPISchemaPlugin):
    """Provides schemas of records from msgspec."""

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}

    def is_plugin_supported_field(self, field_definition: FieldDefinition) -> bool:
        kind = field_definition.origin or field_definition.annotation
        return isinstance(kind, type) and issubclass(kind, msgspec.Struct)

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: object) -> Any:
        return Schema(title=_MARK + self.reference(field_definition.annotation))

    def reference(self, kind: Any) -> str:
        """Add the schema of a record, and return its reference."""
        (schema,), schemas = msgspec.json.schema_components(
            [kind], ref_template="#/components/schemas/{name}", schema_hook=lambda _: {"description": "Anything."}
        )
        self.schemas.update(schemas)
        return str(schema["$ref"])


@cache
def describe(app: Litestar) -> Document:
    records = app.plugins.get(RecordSchemas)
    document = app.openapi_schema.to_schema()
    roles = _roles(app)
    for path, method, operation in operations_of(document):
        operation["operationId"], operation["x-roles"] = roles[path, method]
        if not operation["x-roles"]:
            operation["security"] = []
        for parameter in operation.get("parameters", ()):
            parameter["schema"] = _never_null(parameter["schema"])
    # The body of a fleet change is read as a stream, so no route declares it.
    document = cast("Document", _resolved(document))
    content = {
        "application/json": {"schema": {"$ref": records.reference(FleetBody)}},
        "application/jsonl": {"schema": {"type": "string"}},
    }
    document["paths"]["/v1/fleet"]["patch"]["requestBody"] = {"content": content, "required": True}
    document["components"]["schemas"] = dict(sorted(records.schemas.items()))
    return document


def _resolved(part: Any) -> Any:
    """Replace placeholders by references to records."""
    if isinstance(part, list):
        return [_resolved(each) for each in part]
    if not isinstance(part, dict):
        return part
    title = part.get("title")
    if isinstance(title, str) and title.startswith(_MARK):
        return {"$ref": title.removeprefix(_MARK)}
    return {key: _resolved(each) for key, each in part.items()}


def _never_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from the schema of a parameter: it is omitted instead."""
    kinds = [each for each in schema.get("oneOf", ()) if each != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key not in ("oneOf", "description")}
    if len(kinds) == 1:
        rest |= kinds[0]
    if None in rest.get("enum", ()):
        rest |= {"type": "string", "enum": [word for word in rest["enum"] if word is not None]}
    return rest


def operations_of(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield path, method and description of every operation."""
    for path, item in document["paths"].items():
        for method in ("get", "post", "patch", "put", "delete"):
            if method in item:
                yield path, method, item[method]


def _roles(app: Litestar) -> dict[tuple[str, str], tuple[str, list[str]]]:
    """Return the name of every operation, and the roles that may use it; empty if it is public."""
    found = {}
    for route in app.routes:
        for handler in getattr(route, "route_handlers", ()):
            action = handler.opt.get(ACTION)
            roles = [str(role) for role, actions in PERMITTED.items() if action in actions]
            for method in getattr(handler, "http_methods", ()):
                name = handler.fn.__name__.replace("_", "-")
                found[route.path_format, str(method).lower()] = name, roles
    return found
