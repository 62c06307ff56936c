"""Dry runs of requests about one VM, host, group or event, and of those that select some."""

from forewarn.simulator.actions.planned_action import PlannedAction

ROUTES = {
    "operate-vm": ("POST", "/v1/vms/{}/operations"),
    "move-vm": ("POST", "/v1/vms/{}/move"),
    "change-vm": ("PATCH", "/v1/vms/{}"),
    "operate-host": ("POST", "/v1/hosts/{}/operations"),
    "label-host": ("PATCH", "/v1/hosts/{}"),
    "add-host": ("POST", "/v1/hosts"),
    "remove-host": ("DELETE", "/v1/hosts/{}"),
    "add-group": ("POST", "/v1/groups"),
    "remove-group": ("DELETE", "/v1/groups/{}"),
    "scale-in": ("POST", "/v1/groups/{}/scale-in"),
    "reclaim": ("POST", "/v1/spot/reclaim"),
    "approve-event": ("POST", "/v1/events/{}/approve"),
    "postpone-event": ("POST", "/v1/events/{}/postpone"),
    "cancel-event": ("POST", "/v1/events/{}/cancel"),
    "cancel-events": ("POST", "/v1/events/cancel"),
    "patch-fleet": ("PATCH", "/v1/fleet"),
}
"""The method and the path of each request; the subject stands in braces."""
NO_BODY = "-"


class TryRequest(PlannedAction, frozen=True, kw_only=True):
    """A dry run. ``subject``: a name, or the label of an event; ``body``: JSON without blanks, or ``NO_BODY``."""

    sentence = "{who} tries to {request} {subject} with {body}"
    chosen = "request"
    choices = tuple(ROUTES)
    who: str
    request: str
    subject: str
    body: str
