"""All routes of the dashboard."""

from litestar import Router

from forewarn.control.dashboard.login import login
from forewarn.control.dashboard.pages.access import access
from forewarn.control.dashboard.pages.event import event
from forewarn.control.dashboard.pages.exports import exports
from forewarn.control.dashboard.pages.fleet import fleet
from forewarn.control.dashboard.pages.groups import groups
from forewarn.control.dashboard.pages.health import health
from forewarn.control.dashboard.pages.history import history
from forewarn.control.dashboard.pages.hosts import hosts
from forewarn.control.dashboard.pages.notifications import notifications
from forewarn.control.dashboard.pages.rollouts import rollouts
from forewarn.control.dashboard.pages.timeline import timeline
from forewarn.control.dashboard.pages.tonight import tonight
from forewarn.control.dashboard.pages.vms import vms
from forewarn.control.dashboard.routing import ERRORS
from forewarn.control.dashboard.static_files import static_files

_PAGES = (
    tonight,
    fleet,
    timeline,
    event,
    rollouts,
    vms,
    hosts,
    groups,
    history,
    health,
    access,
    notifications,
    exports,
)

dashboard = (Router("/", route_handlers=list(_PAGES), exception_handlers=ERRORS), login, static_files)
