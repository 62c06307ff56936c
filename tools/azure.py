"""The page of the protocol, made from the table of its rules and the words around it (``azure.template``)."""  # noqa: INP001 - a script

from pathlib import Path
from string import Template

from forewarn.conformance.checks import CheckTiming
from forewarn.conformance.inspection import MODULES
from forewarn.conformance.inspection_context import CHECKS
from forewarn.conformance.rules import RULES, ProtocolRule

_TEMPLATE = Path(__file__).with_name("azure.template")
_SEEN = {CheckTiming.ALWAYS: "always", CheckTiming.ON_AN_EVENT: "on an event", CheckTiming.ON_REQUEST: "on request"}


def azure_page() -> str:
    assert MODULES  # noqa: S101 - importing them has added their checks
    versions = [rule for rule in RULES["versions"] if rule.name.startswith("version-")]
    refusals = [rule for rule in RULES["refusals"] if rule.problem]
    tables = {
        part: _rules([rule for rule in rules if rule not in versions + refusals]) for part, rules in RULES.items()
    }
    tables["api_versions"] = _table(
        "version", "shows", rows=[(rule, _version(rule), rule.promise) for rule in versions]
    )
    tables["refused"] = _table("when", "status", "body", rows=[(rule, *_refusal(rule)) for rule in refusals])
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(tables)


def _rules(rules: list[ProtocolRule]) -> str:
    return _table("rule", rows=[(rule, rule.promise) for rule in rules])


def _version(rule: ProtocolRule) -> str:
    return rule.name.removeprefix("version-")


def _refusal(rule: ProtocolRule) -> tuple[str, str, str]:
    assert rule.problem  # noqa: S101 - only those that have one are listed here
    return rule.promise, str(rule.problem.status), f"`{rule.problem.body.decode()}`"


def _table(*headers: str, rows: list[tuple[ProtocolRule, *tuple[str, ...]]]) -> str:
    lines = [("row", *headers, "by", "seen"), ("---",) * (len(headers) + 3)]
    for rule, *cells in rows:
        seen = _SEEN[CHECKS[rule.name].when] if rule.name in CHECKS else ""
        lines.append((f"`{rule.name}`", *cells, rule.by, seen))
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)
