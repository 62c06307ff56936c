"""Assembles the control API: routes, dependencies, error handlers, OpenAPI."""

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import NotFoundException

from forewarn.control.api.changes import changes
from forewarn.control.api.cluster import cluster
from forewarn.control.api.context import ApiContext, context_of, principal_of
from forewarn.control.api.dashboard_links import dashboard_links
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
from forewarn.control.api.rollouts import rollouts
from forewarn.control.api.routing import record_methods, set_allow_header, set_safety_headers
from forewarn.control.api.subscriptions import subscriptions
from forewarn.control.api.tokens import tokens
from forewarn.control.api.vms import vms
from forewarn.control.dashboard.routes import dashboard
from forewarn.control.dashboard.routing import show_unknown_path

RESOURCES = (
    Router(
        "/v1",
        route_handlers=[
            vms,
            groups,
            hosts,
            rollouts,
            events,
            operations,
            fleet,
            dashboard_links,
            declaration,
            history,
            changes,
            cluster,
            subscriptions,
            tokens,
        ],
    ),
    health,
    openapi_routes,
    *dashboard,
)


def make_app(context: ApiContext) -> Litestar:
    app = Litestar(
        RESOURCES,
        dependencies={
            "principal": Provide(principal_of, sync_to_thread=False),
            "key": Provide(provide_write),
            "context": Provide(context_of, sync_to_thread=False),
        },
        before_send=[mark_replayed, set_allow_header, set_safety_headers],
        exception_handlers={**HANDLERS, NotFoundException: show_unknown_path},
        openapi_config=CONFIG,
        plugins=[RecordSchemas()],
        logging_config=None,  # logging is configured by the service
        state=State({"context": context}),
    )
    record_methods(app)
    return app
