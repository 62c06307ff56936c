"""Inspects a server: runs the checks of all rules."""

from collections.abc import Collection

# Importing them adds their checks.
from forewarn.conformance import approvals, conditional_requests, documents, instances, refusals, requests
from forewarn.conformance.checks import OUT_OF_SIGHT, CheckTiming, RuleFinding, RuleOutcome, conclude
from forewarn.conformance.evidence import InspectionPlan
from forewarn.conformance.inspection_context import CHECKS, Inspection
from forewarn.conformance.rules import AZURE, BY_NAME, ProtocolRule
from forewarn.conformance.server import Server

MODULES = (requests, documents, conditional_requests, approvals, refusals, instances)


def inspect(
    server: Server,
    plan: InspectionPlan,
    *,
    only: Collection[str] = (),
    is_thorough: bool = False,
    is_ours: bool = False,
) -> list[RuleFinding]:
    """Check all rules, or ``only`` some; return the findings in the order of the rules.

    Rules that are not Azure's bind Forewarn alone: another server that does otherwise differs, unless ``is_ours``.
    """
    server.require()
    inspection = Inspection(server, plan)
    chosen = [rule for rule in BY_NAME.values() if not only or rule.name in only]
    # Checks without an event come first: an event exists for a short time only, and changes the document.
    chosen.sort(key=lambda rule: rule.name in CHECKS and CHECKS[rule.name].when is CheckTiming.ON_AN_EVENT)
    findings = {}
    for rule in chosen:
        check = CHECKS.get(rule.name)
        if check is None or (check.when is CheckTiming.ON_REQUEST and not is_thorough):
            why = "it takes long or is a burden; ask for it with --thorough" if check else OUT_OF_SIGHT
            findings[rule.name] = RuleFinding(rule.name, RuleOutcome.NOT_SEEN, promised(rule), why)
        else:
            is_binding = is_ours or rule.by is AZURE
            findings[rule.name] = conclude(rule.name, promised(rule), check.run(inspection), is_binding=is_binding)
    return [findings[name] for name in BY_NAME if name in findings]


def promised(rule: ProtocolRule) -> str:
    return f"{rule.problem.status} when {rule.promise}" if rule.problem else rule.promise
