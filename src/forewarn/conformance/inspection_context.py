"""One visit to a server: what every check is given."""

from functools import cached_property
from itertools import pairwise
from typing import NoReturn

from forewarn.conformance.checks import Checks, NotObserved
from forewarn.conformance.evidence import Evidence, InspectionPlan, ShownDocument, WireEvent, collect_evidence
from forewarn.conformance.server import Server, ServerReply


class Inspection:
    """A server, and what was seen of an event there."""

    def __init__(self, server: Server, plan: InspectionPlan) -> None:
        self.server = server
        self.plan = plan

    @cached_property
    def evidence(self) -> Evidence:
        return collect_evidence(self.server, self.plan)

    @property
    def events(self) -> list[WireEvent]:
        """Every sight of an event."""
        return list(self.evidence.events) or _none()

    @property
    def changes(self) -> list[tuple[ShownDocument, ShownDocument]]:
        """The documents that differ from the one before, each with that one."""
        shown = self.evidence.documents
        pairs = [(before, after) for before, after in pairwise(shown) if before.events != after.events]
        return pairs or _none()

    def require_approval(self) -> ServerReply:
        """Return what the approval of all events was answered, with their ids as shown where that was needed."""
        special = "as shown" if "as shown" in self.evidence.answers else "in another case"
        return self.answer(special)

    def answer(self, special: str) -> ServerReply:
        """Return what an approval was answered, by what was special about it."""
        if special in self.evidence.answers:
            return self.evidence.answers[special]
        if any(each.get("EventStatus") == "Scheduled" for each in self.events) and not self.plan.approves:
            raise NotObserved("no event may be approved; allow it with --approve")
        raise NotObserved("no event was there to approve for long enough")


def _none() -> NoReturn:
    raise NotObserved("there was no event; make one with --trigger, or wait for one with --wait")


CHECKS: Checks[Inspection] = Checks()
"""How the rules are seen from outside, by name."""
