"""The context of one inspection of a server, which every check gets."""

from functools import cached_property
from itertools import pairwise
from typing import NoReturn

from forewarn.conformance.checks import Checks, NotObserved
from forewarn.conformance.evidence import Evidence, InspectionPlan, ShownDocument, WireEvent, collect_evidence
from forewarn.conformance.server import Server, ServerReply


class Inspection:
    """A server, and the evidence of its events."""

    def __init__(self, server: Server, plan: InspectionPlan) -> None:
        self.server = server
        self.plan = plan

    @cached_property
    def evidence(self) -> Evidence:
        return collect_evidence(self.server, self.plan)

    @property
    def events(self) -> list[WireEvent]:
        return list(self.evidence.events) or _none()

    @property
    def changes(self) -> list[tuple[ShownDocument, ShownDocument]]:
        """Pairs of successive documents that differ."""
        shown = self.evidence.documents
        pairs = [(before, after) for before, after in pairwise(shown) if before.events != after.events]
        return pairs or _none()

    def require_approval(self) -> ServerReply:
        """Return the response to the approval of all events; with the ids as shown if that was needed."""
        special = "as shown" if "as shown" in self.evidence.answers else "in another case"
        return self.answer(special)

    def answer(self, special: str) -> ServerReply:
        """Return the response to one kind of approval."""
        if special in self.evidence.answers:
            return self.evidence.answers[special]
        if any(each.get("EventStatus") == "Scheduled" for each in self.events) and not self.plan.approves:
            raise NotObserved("no event may be approved; allow it with --approve")
        raise NotObserved("no event was there to approve for long enough")


def _none() -> NoReturn:
    raise NotObserved("there was no event; make one with --trigger, or wait for one with --wait")


CHECKS: Checks[Inspection] = Checks()
"""The checks, by the name of their rule."""
