"""All rules of the protocol, looked at from outside."""

from collections.abc import Collection

# Importing them adds their checks.
from forewarn.conformance import approvals, asking, documents, instances, refusals, requests
from forewarn.conformance.evidence import Plan
from forewarn.conformance.looks import OUT_OF_SIGHT, Finding, Outcome, When, found
from forewarn.conformance.rules import AZURE, BY_NAME, Rule
from forewarn.conformance.server import Server
from forewarn.conformance.visit import CHECKS, Visit

MODULES = (requests, documents, asking, approvals, refusals, instances)


def inspect(
    server: Server, plan: Plan, *, only: Collection[str] = (), is_thorough: bool = False, is_ours: bool = False
) -> list[Finding]:
    """Look at every rule, or ``only`` at some; return what was found, in the order of the rules.

    Rules that are not Azure's bind Forewarn alone: another server that does otherwise differs, unless ``is_ours``.
    """
    server.require()
    visit = Visit(server, plan)
    chosen = [rule for rule in BY_NAME.values() if not only or rule.name in only]
    # What can be seen at once comes first: an event is there for a short while only, and changes the document.
    chosen.sort(key=lambda rule: rule.name in CHECKS and CHECKS[rule.name].when is When.ON_AN_EVENT)
    findings = {}
    for rule in chosen:
        check = CHECKS.get(rule.name)
        if check is None or (check.when is When.ON_REQUEST and not is_thorough):
            why = "it takes long or is a burden; ask for it with --thorough" if check else OUT_OF_SIGHT
            findings[rule.name] = Finding(rule.name, Outcome.NOT_SEEN, promised(rule), why)
        else:
            is_binding = is_ours or rule.by is AZURE
            findings[rule.name] = found(rule.name, promised(rule), check.look(visit), is_binding=is_binding)
    return [findings[name] for name in BY_NAME if name in findings]


def promised(rule: Rule) -> str:
    return f"{rule.problem.status} when {rule.promise}" if rule.problem else rule.promise
