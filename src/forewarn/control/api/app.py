"""The control API, assembled: every resource, who is let in, and how errors are told."""

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide

from forewarn.control.api.changes import changes
from forewarn.control.api.declaration import declaration
from forewarn.control.api.documents import documents
from forewarn.control.api.events import events
from forewarn.control.api.fleet import fleet
from forewarn.control.api.groups import groups
from forewarn.control.api.health import health
from forewarn.control.api.history import history
from forewarn.control.api.hosts import hosts
from forewarn.control.api.idempotency import mark_replayed, provide_write
from forewarn.control.api.methods import name_methods, note_methods
from forewarn.control.api.openapi import CONFIG, Records
from forewarn.control.api.operations import operations
from forewarn.control.api.plane import Plane, provide_bearer, provide_plane
from forewarn.control.api.problems import HANDLERS
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
    documents,
)


def make_app(plane: Plane) -> Litestar:
    """Return the application that answers operators and owners."""
    app = Litestar(
        RESOURCES,
        dependencies={
            "bearer": Provide(provide_bearer, sync_to_thread=False),
            "key": Provide(provide_write),
            "plane": Provide(provide_plane, sync_to_thread=False),
        },
        before_send=[mark_replayed, name_methods],
        exception_handlers=HANDLERS,
        openapi_config=CONFIG,
        plugins=[Records()],
        logging_config=None,  # the service has configured it
        state=State({"plane": plane}),
    )
    note_methods(app)
    return app
