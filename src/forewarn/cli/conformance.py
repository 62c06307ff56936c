"""``forewarn conformance``: check whether a server or a client conforms to the protocol."""

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from forewarn.cli.output import json_option, print_json_list, print_line, wrapped
from forewarn.cli.times import read_seconds
from forewarn.cli.vm_commands import url_option

if TYPE_CHECKING:
    from collections.abc import Collection

    from forewarn.conformance.checks import RuleFinding

_WIDTH = 10
"""Column of the rule's name: after the longest outcome."""


@click.command
@url_option("[default: SCHEDULED_EVENTS_URL]")
@click.option(
    "--client",
    metavar="CMD",
    help="Try out a client instead: CMD runs it, with {url} and SCHEDULED_EVENTS_URL as the document's address.",
)
@click.option(
    "--trigger",
    "triggers",
    multiple=True,
    metavar="CMD",
    help="Run this to make an event appear, such as 'forewarn vm restart web-0'; may be repeated.",
)
@click.option(
    "--wait",
    metavar="DURATION",
    help="How long to wait for an event to appear, and to end.  [default: 1m with --trigger, else 0s]",
)
@click.option("--approve", "approves", is_flag=True, help="Approve the events that are there, so that they start.")
@click.option(
    "--thorough",
    is_flag=True,
    help="Check also what takes long or burdens the server: the rate limit, slow requests.",
)
@click.option("--ours", is_flag=True, help="Check also the rules that are Forewarn's own and not Azure's.")
@click.option("--only", multiple=True, metavar="RULE", help="Check this rule only; may be repeated.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=4.0,
    metavar="N",
    show_default=True,
    help="The most requests per second to the server.",
)
@click.option(
    "--patience",
    default="10s",
    metavar="DURATION",
    show_default=True,
    help="How long a client may take to ask again, or to approve.",
)
@click.option("--require-all", "requires_all", is_flag=True, help="Fail also if a rule was not seen.")
@json_option
@click.pass_context
def conformance(
    context: click.Context,
    url: str | None,
    client: str | None,
    triggers: tuple[str, ...],
    wait: str | None,
    approves: bool,
    thorough: bool,
    ours: bool,
    only: tuple[str, ...],
    rate: float,
    patience: str,
    requires_all: bool,
    as_json: bool,
) -> None:
    """Check from outside whether the server at --url keeps the protocol's rules, or with --client a client.

    Rules that could not be checked are listed as not seen. A client that never asks, or that exits by itself,
    breaks a rule. The exit code is 0 if no rule is broken, else 1; with --require-all it is also 1 if a rule was
    not seen.
    """
    from forewarn.client.discovery import URL_VARIABLE

    url = url or (None if client else os.environ.get(URL_VARIABLE))
    if (url is None) == (client is None):
        raise click.UsageError("give a server with --url, or a client with --client", context)
    from forewarn.conformance.checks import is_good

    if client:
        from forewarn.conformance.trials import TRIALS, try_out

        _known(only, TRIALS)
        if sys.stderr.isatty():
            click.echo(
                f"trying it out {len(only) or len(TRIALS)} times; this takes half a minute or longer", err=True
            )
        findings = try_out(client, patience=read_seconds(patience, "--patience"), only=only)
    else:
        from forewarn.conformance.evidence import InspectionPlan
        from forewarn.conformance.inspection import inspect
        from forewarn.conformance.rules import BY_NAME
        from forewarn.conformance.server import Server

        _known(only, BY_NAME)
        plan = InspectionPlan(triggers, read_seconds(wait or ("1m" if triggers else "0s"), "--wait"), approves)
        findings = inspect(Server(url or "", rate=rate), plan, only=only, is_thorough=thorough, is_ours=ours)
    if as_json:
        print_json_list(findings)
    else:
        _print(findings)
    context.exit(0 if is_good(findings, requires_all=requires_all) else 1)


def _print(findings: "list[RuleFinding]") -> None:
    """Print a line for each rule, with details if it is broken; unobserved rules are grouped by reason."""
    from forewarn.conformance.checks import RuleOutcome

    unseen: dict[str, list[str]] = {}
    for each in findings:
        if each.outcome is RuleOutcome.NOT_SEEN:
            unseen.setdefault(each.seen, []).append(each.rule)
            continue
        print_line(each.outcome, f"{'':{_WIDTH - len(each.outcome)}}{each.rule}")
        if each.outcome is not RuleOutcome.KEPT:
            click.echo(wrapped(each.expected, f"{'':{_WIDTH}}expected  "))
            click.echo(wrapped(each.seen, f"{'':{_WIDTH}}seen      "))
    for why, rules in unseen.items():
        click.echo(wrapped(f"{why}:", f"{RuleOutcome.NOT_SEEN:<{_WIDTH}}"))
        click.echo(wrapped(", ".join(rules), " " * _WIDTH))
    counts = Counter(each.outcome for each in findings)
    click.echo(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))


def _known(names: tuple[str, ...], known: "Collection[str]") -> None:
    from forewarn.core.errors import BadInput, nearest

    for name in names:
        if name not in known:
            remedy = nearest(name, known) or "; without --only, every rule is listed"
            raise BadInput(f"there is no rule {name!r}{remedy}")
