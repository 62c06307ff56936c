"""Assembles the control API: routes, dependencies, error handlers, OpenAPI."""

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide

from forewarn.control.api.changes import changes
from forewarn.control.api.context import ApiContext, provide_context, provide_principal
from forewarn.control.api.declaration import declaration
from forewarn.control.api.events import events
from forewarn.control.api.fleet import fleet
from forewarn.control.api.groups import groups
from forewarn.control.api.health import health
from forewarn.control.api.history import history
from forewarn.control.api.hosts import hosts
from forewarn.control.api.idempotency import mark_replayed, provide_write
from forewarn.control.api.openapi import CONFIG, RecordSchemas
from forewarn.control.api.openapi_routes import openapi_routes
from forewarn.control.api.operations import operations
from forewarn.control.api.problems import HANDLERS
from forewarn.control.api.routing import record_methods, set_allow_header
from forewarn.control.api.subscriptions import subscriptions
from forewarn.control.api.tokens import tokens
from forewarn.control.api.vms import vms

RESOURCES = (
    Router(
        "/v1",
        route_handlers=[
            vms,
            groups,
            hosts,
            events,
            operations,
            fleet,
            declaration,
            history,
            changes,
            subscriptions,
            tokens,
        ],
    ),
    health,
    openapi_routes,
)


def make_app(context: ApiContext) -> Litestar:
    app = Litestar(
        RESOURCES,
        dependencies={
            "principal": Provide(provide_principal, sync_to_thread=False),
            "key": Provide(provide_write),
            "context": Provide(provide_context, sync_to_thread=False),
        },
        before_send=[mark_replayed, set_allow_header],
        exception_handlers=HANDLERS,
        openapi_config=CONFIG,
        plugins=[RecordSchemas()],
        logging_config=None,  # logging is configured by the service
        state=State({"context": context}),
    )
    record_methods(app)
    return app
