"""Declares the routes of the control API: path, permission, body and responses.

Every route names its action from the table in ``access.py``, or is public; one guard enforces all of them.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_type_hints

import msgspec
from litestar import Litestar, get, post
from litestar.connection import ASGIConnection
from litestar.datastructures import Headers, MultiDict
from litestar.di import Provide
from litestar.dto import AbstractDTO
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.types import Message, Scope
from litestar.typing import FieldDefinition

from forewarn.control.api.context import ApiContext, authenticate
from forewarn.control.api.forwarding import LeaderRoute
from forewarn.control.api.idempotency import DRY_RUN, STREAMED, provide_final_write
from forewarn.control.api.problems import InvalidRequest
from forewarn.control.bodies import ApiBody, FieldError, ProblemDetails
from forewarn.control.problems import MEDIA_TYPE
from forewarn.core.access import Action
from forewarn.core.facts import Entry

if TYPE_CHECKING:
    from litestar._openapi.schema_generation import SchemaCreator

ACTION = "action"
PUBLIC = "public"
PREVIEWS = "previews"
_Function = TypeVar("_Function", bound=Callable[..., Any])
Replay = Callable[[ApiContext, Mapping[str, Any], Entry], Awaitable[Any]]
"""Builds the response to a repetition, from the route's parameters and the recorded entry."""
_GIVEN = frozenset({"context", "data", "key", "principal", "request"})
"""Parameters of a route that do not come from the query."""
_SINGLE_HEADERS = ("Authorization", "Idempotency-Key", "Last-Event-ID")
_SAFETY_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_LARGEST_BODY = 16 * 1024 * 1024

_PROBLEMS = {
    400: "A field or a parameter is invalid; see `errors`.",
    401: "No valid token.",
    403: "The role does not permit this.",
    404: "Not found.",
    409: "The rules do not allow this.",
    429: "A limit is reached, or too many wrong tokens came from this address.",
    503: "The service is temporarily unable to do this.",
}


def problem_responses(*statuses: int) -> Mapping[int, ResponseSpec]:
    """Return what the document says of refusals with these statuses."""
    return {
        status: ResponseSpec(
            ProblemDetails, generate_examples=False, description=_PROBLEMS[status], media_type=MEDIA_TYPE
        )
        for status in statuses
    }


def guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Authenticate, check the permission, and refuse unknown parameters and repeated headers."""
    _check_headers(connection.headers)
    if action := handler.opt.get(ACTION):
        authenticate(connection).require(action)
    _check_query(connection.query_params, handler)


def _check_headers(headers: Headers) -> None:
    """Refuse a repeated header: a proxy may have read the other value."""
    for name in _SINGLE_HEADERS:
        if len(headers.getall(name, [])) > 1:
            raise InvalidRequest(FieldError(f"header.{name}", "is given more than once"))


def _check_query(query: MultiDict[Any], handler: BaseRouteHandler) -> None:
    parameters = handler.parsed_fn_signature.parameters
    known = {getattr(field.kwarg_definition, "name", None) or name: field for name, field in parameters.items()}
    if handler.opt.get(PREVIEWS):
        known[DRY_RUN] = FieldDefinition.from_annotation(bool)
    for name, value in query.multi_items():
        if name not in known or name in _GIVEN:
            raise InvalidRequest(FieldError(f"query.{name}", "unknown parameter"))
        if len(query.getall(name)) > 1:
            raise InvalidRequest(FieldError(f"query.{name}", "is given more than once"))
        kinds = known[name].inner_types or (known[name],)
        if value.lower() == "null" and all(kind.annotation is not str for kind in kinds):
            raise InvalidRequest(FieldError(f"query.{name}", "is null; omit it instead"))
        if "-" not in value and any(kind.annotation is datetime for kind in kinds):
            raise InvalidRequest(FieldError(f"query.{name}", "is not a time; write it like 2026-01-31T14:32:00Z"))


async def replay_result(context: ApiContext, given: Mapping[str, Any], entry: Entry) -> Any:
    """Return the result that the first request had."""
    return await context.operations.result_of(entry)


async def replay_empty(context: ApiContext, given: Mapping[str, Any], entry: Entry) -> None:
    """Return the empty response to a repetition."""


def reads(
    path: str, action: Action | None, *, summary: str, asks_leader: bool = False, **more: Any
) -> Callable[[_Function], HTTPRouteHandler]:
    """Declare a route that changes nothing; ``asks_leader``: another node may know more than this one."""
    if asks_leader:
        more["middleware"] = [LeaderRoute]
    statuses = (400, 401, 403, 404, 409, 429, 503) if action else (400, 503)
    responses = {**problem_responses(*statuses), **more.pop("also", {})}
    return get(path, opt=_opt(action), responses=responses, summary=summary, **_common(more))


def writes(
    path: str,
    action: Action,
    *,
    summary: str,
    method: Callable[..., Any] = post,
    replay: Replay = replay_result,
    is_streamed: bool = False,
    previews: bool | None = None,
    **more: Any,
) -> Callable[[_Function], HTTPRouteHandler]:
    """Declare a route that gives a command. It is carried out once per key; ``replay`` answers a repetition.

    Its parameter ``data`` has the type of the body; a route that reads its body as a stream does that itself.
    ``previews``: it accepts ``dry_run``, as every route that returns a ``CommandResult`` does.
    """
    previews = replay is replay_result if previews is None else previews
    if not previews:
        more["dependencies"] = {"key": Provide(provide_final_write)}
    declaration = {
        "opt": {**_opt(action), STREAMED: is_streamed, PREVIEWS: previews},
        "responses": problem_responses(400, 401, 403, 404, 409, 429, 503),
        "summary": summary,
        "middleware": [LeaderRoute],
        "request_max_body_size": more.pop("largest", _LARGEST_BODY),
        **_common(more),
    }

    def declare(function: _Function) -> HTTPRouteHandler:
        body = get_type_hints(function).get("data")
        dto = {} if body is None else {"dto": strict(body)}
        made: HTTPRouteHandler = method(path, **declaration, **dto)(
            function if is_streamed else _once(function, replay)
        )
        return made

    return declare


def _once(function: _Function, replay: Replay) -> _Function:
    """Wrap a route so that it is carried out once per key."""

    @wraps(function)
    async def carry_out_once(**given: Any) -> Any:
        context, write = given["context"], given["key"]
        return await write.once(
            context.node, context.locks, lambda: function(**given), lambda entry: replay(context, given, entry)
        )

    return cast("_Function", carry_out_once)


def _opt(action: Action | None) -> dict[str, Any]:
    return {ACTION: action} if action else {PUBLIC: True}


def _common(more: dict[str, Any]) -> dict[str, Any]:
    return {"guards": [guard], "return_dto": None, "response_description": "Done.", **more}


def strict(body: type[ApiBody]) -> type[AbstractDTO[Any]]:
    """Return a DTO that parses a body strictly: no conversion, no unknown fields."""
    decode = msgspec.json.Decoder(body).decode

    class Strict(AbstractDTO[body]):  # type: ignore[valid-type]
        """Parses one type of body."""

        def decode_bytes(self, value: bytes) -> Any:
            try:
                return decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InvalidRequest.of(error, "body") from None

        @classmethod
        def create_for_field_definition(cls, *args: Any, **kwargs: Any) -> None:
            """Create no other model of the body: it is parsed as declared."""

        @classmethod
        def create_openapi_schema(
            cls, field_definition: FieldDefinition, handler_id: str, schema_creator: "SchemaCreator"
        ) -> Any:
            return schema_creator.for_field_definition(field_definition)

        @classmethod
        def generate_field_definitions(cls, model_type: type[Any]) -> Any:
            return iter(())

        @classmethod
        def detect_nested_field(cls, field_definition: FieldDefinition) -> bool:
            return False

    return Strict


_ALLOWED = "allowed"
_ALLOW = b"allow"


def record_methods(app: Litestar) -> None:
    """Record the methods of each path.

    The framework answers OPTIONS with the methods that a path had when its first route was added.
    """
    app.state[_ALLOWED] = {
        handler: sorted(route.methods) for route in app.routes for handler in getattr(route, "route_handlers", ())
    }


async def set_safety_headers(message: Message, scope: Scope) -> None:
    """Let browsers neither guess the type of what the API answers nor keep it."""
    if message["type"] == "http.response.start" and scope["path"].startswith("/v1/"):
        given = {key.lower() for key, _ in message["headers"]}
        missing = [(key, value) for key, value in _SAFETY_HEADERS if key not in given]
        message["headers"] = [*message["headers"], *missing]


async def set_allow_header(message: Message, scope: Scope) -> None:
    """Set ``Allow`` to all methods of a path in responses to OPTIONS; sort it in all responses."""
    if message["type"] != "http.response.start":
        return
    headers = dict(message["headers"])
    if _ALLOW not in headers:
        return
    methods = headers[_ALLOW].decode().split(", ")
    if scope.get("method") == "OPTIONS":
        methods = scope["app"].state[_ALLOWED][scope["route_handler"]]
    rest = ((key, value) for key, value in message["headers"] if key != _ALLOW)
    message["headers"] = [*rest, (_ALLOW, ", ".join(sorted(methods)).encode())]
