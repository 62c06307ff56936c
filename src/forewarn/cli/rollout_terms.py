"""The options that say what a rollout does, for ``plan``, ``start`` and ``edit``."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from forewarn.cli.times import pause_option, period_option
from forewarn.core.rollouts.model import (
    ConflictPolicy,
    FailurePolicy,
    RolloutOperation,
    RolloutOrder,
    WindowClose,
)

if TYPE_CHECKING:
    from forewarn.control.bodies import RolloutEditBody, RolloutTermsBody
    from forewarn.core.rollouts.model import HealthGate

_Command = TypeVar("_Command", bound=Callable[..., object])


def _share(context: click.Context, parameter: click.Parameter, given: str | None) -> float | None:
    if given is None:
        return None
    try:
        share = float(given.removesuffix("%")) / 100 if given.endswith("%") else float(given)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise click.BadParameter(f"{given!r} is not a valid share; write it like 20% or 0.2", context, parameter)
    return share


def _per(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for each in given:
        key, equals, count = each.rpartition("=")
        if not equals or not count.isdigit() or not key:
            raise click.BadParameter(f"{each!r} cannot be read; write it like rack=2", context, parameter)
        found[key] = int(count)
    return found or None


def _order(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    words = [each.value for each in RolloutOrder if each is not RolloutOrder.LABEL]
    if given is None or given in words or (given.startswith("label:") and given != "label:"):
        return given
    raise click.BadParameter(f"{given!r} is not one of {', '.join(words)}, label:KEY", context, parameter)


_HOSTS = (
    click.option(
        "--operation",
        type=click.Choice([each.value for each in RolloutOperation]),
        help="What is done to each host. [default: command with --command, else required]",
    ),
    click.option("--hosts", multiple=True, metavar="NAME|PATTERN", help="Hosts by name or pattern; may be repeated."),
    click.option("--selector", metavar="LABELS", help="Hosts by label: rack=r1, version<1.4, rack in (a,b)."),
    click.option("--all", "all_hosts", is_flag=True, default=None, help="All hosts of the fleet."),
    click.option("--command", metavar="TEXT", help="What the driver runs on each host, between drain and uncordon."),
)
_SETTABLE = (
    click.option("--command-timeout", metavar="DURATION", callback=period_option, help="How long it may take."),
    click.option(
        "--parallel", type=click.IntRange(1, 1_000_000), metavar="N", help="Hosts in one wave. [default: 1]"
    ),
    click.option(
        "--parallel-per",
        multiple=True,
        metavar="LABEL=N",
        callback=_per,
        help="Hosts in one wave with the same value of a label, or of fault-domain.",
    ),
    click.option("--fleet-share", metavar="PERCENT", callback=_share, help="Hosts that may be unavailable at once."),
    click.option(
        "--group-share", metavar="PERCENT", callback=_share, help="VMs of a group that may be unavailable at once."
    ),
    click.option(
        "--order", metavar="name|fewest-vms|fault-domain|label:KEY", callback=_order, help="Who goes first."
    ),
    click.option(
        "--canary", type=click.IntRange(0, 1_000_000), metavar="N", help="So many hosts go first, by themselves."
    ),
    click.option("--canary-hosts", multiple=True, metavar="NAME|PATTERN", help="These hosts go first."),
    click.option("--canary-settle", metavar="DURATION", callback=pause_option, help="Settle time of canaries."),
    click.option("--settle", metavar="DURATION", callback=pause_option, help="Wait after each host."),
    click.option("--gate-command", metavar="PROGRAM", help="A program of gate_programs that must succeed."),
    click.option("--gate-url", metavar="URL", help="An address that must answer with success before each wave."),
    click.option("--gate-query", metavar="QUERY", help="A Prometheus query, held against --gate-threshold."),
    click.option("--gate-threshold", metavar="'<0.01'", help="Which results of the query are well."),
    click.option("--gate-timeout", metavar="DURATION", callback=period_option, help="[default: 30s]"),
    click.option("--prometheus", metavar="URL", help="The Prometheus server for queries and alerts."),
    click.option("--block-on-alert", "alerts", multiple=True, metavar="NAME", help="Begin no wave while it fires."),
    click.option("--window", "windows", multiple=True, metavar="TIMES", help="'Sat,Sun 02:00-06:00 Europe/Berlin'."),
    click.option(
        "--at-close",
        type=click.Choice([each.value for each in WindowClose]),
        help="What becomes of Scheduled events when a window closes. [default: postpone]",
    ),
    click.option("--lead", metavar="DURATION", callback=period_option, help="Announce so long before a window."),
    click.option("--expected", metavar="DURATION", callback=period_option, help="How long one host takes."),
    click.option("--host-limit", metavar="DURATION", callback=period_option, help="A host that takes longer fails."),
    click.option("--opt-out", metavar="LABEL", help="Skip hosts that have this label."),
    click.option("--asks", metavar="COMMAND", help="Skip hosts on which this command does not succeed."),
    click.option("--sentinel", metavar="FILE", help="Skip hosts that do not have this file."),
    click.option("--every", metavar="DURATION", callback=period_option, help="Begin again after so long."),
    click.option(
        "--on-failure",
        type=click.Choice([each.value for each in FailurePolicy]),
        help="What a failed host leads to. [default: pause]",
    ),
    click.option(
        "--max-failures", type=click.IntRange(0, 1_000_000), metavar="N", help="Failed hosts that are tolerated."
    ),
    click.option(
        "--on-conflict",
        type=click.Choice([each.value for each in ConflictPolicy]),
        help="Whether to refuse or queue a rollout that shares hosts with another. [default: refuse]",
    ),
    click.option("--description", metavar="TEXT", help="What VMs will read."),
)
_REMOVING = (
    click.option("--no-gate", is_flag=True, default=None, help="Ask no gate any more."),
    click.option("--no-windows", is_flag=True, default=None, help="Keep to the fleet's windows only."),
    click.option("--no-alerts", is_flag=True, default=None, help="Let no alert block any more."),
    click.option("--no-parallel-per", is_flag=True, default=None, help="Limit waves by no label any more."),
    click.option("--no-lead", is_flag=True, default=None, help="Announce with the notice only."),
    click.option("--no-host-limit", is_flag=True, default=None, help="Let hosts take as long as they need."),
    click.option("--no-opt-out", is_flag=True, default=None, help="Skip no hosts by label any more."),
    click.option("--no-asks", is_flag=True, default=None, help="Ask hosts no more, also not for a sentinel."),
    click.option("--no-every", is_flag=True, default=None, help="Let this run be the last."),
)
_REMOVED: dict[str, object] = {
    "gate": None, "windows": (), "alerts": (), "parallel_per": {}, "lead": 0, "host_limit": 0, "opt_out": "",
    "asks": "", "every": 0,
}  # fmt: skip
_WHAT_IS_ASKED = frozenset({"command", "url", "query"})
_GATE = (*sorted(_WHAT_IS_ASKED), "threshold", "timeout")


def terms_options(command: _Command) -> _Command:
    for option in reversed((*_HOSTS, *_SETTABLE)):
        command = option(command)
    return command


def edit_options(command: _Command) -> _Command:
    for option in reversed((*_SETTABLE, *_REMOVING)):
        command = option(command)
    return command


def read_terms(given: dict[str, object]) -> "RolloutTermsBody":
    """Return the terms that options state; those that are left out have their defaults."""
    from forewarn.control.bodies import RolloutTermsBody

    terms = _given(given)
    if "command" in terms:
        terms.setdefault("operation", RolloutOperation.COMMAND)
    if "operation" not in terms:
        raise click.UsageError("say what is done to each host: --operation reboot, or --command TEXT")
    terms["operation"] = RolloutOperation(terms["operation"])
    return RolloutTermsBody(**terms)


def read_edit(given: dict[str, object], present_gate: "Callable[[], HealthGate | None]") -> "RolloutEditBody":
    """Return the terms that options change; the gate is asked for only where a part of it is to change."""
    from forewarn.control.bodies import RolloutEditBody

    removed = {key: value for key, value in _REMOVED.items() if given.pop(f"no_{key}")}
    terms = _given(given, present_gate)
    if both := sorted(removed.keys() & terms.keys()):
        option = both[0].replace("_", "-")
        raise click.UsageError(f"--no-{option} removes what another option sets; leave one of them out")
    terms |= removed
    if not terms:
        raise click.UsageError("nothing is changed; say what to change, such as --parallel 3")
    return RolloutEditBody(**terms)


def _given(
    options: dict[str, object], present_gate: "Callable[[], HealthGate | None]" = lambda: None
) -> dict[str, Any]:
    import msgspec

    from forewarn.core.rollouts.model import HealthGate

    terms: dict[str, Any] = {key: value for key, value in options.items() if value is not None and value != ()}
    gate = {key: terms.pop(f"gate_{key}") for key in _GATE if f"gate_{key}" in terms}
    if gate:
        present = None if gate.keys() & _WHAT_IS_ASKED else present_gate()
        terms["gate"] = msgspec.structs.replace(present or HealthGate(), **gate)
    if order := terms.pop("order", ""):
        kind, _, label = order.partition(":")
        terms |= {"order": RolloutOrder(kind)} | ({"order_label": label} if label else {})
    if sentinel := terms.pop("sentinel", ""):
        if "asks" in terms:
            raise click.UsageError("--asks and --sentinel both say which hosts want it; leave one of them out")
        import shlex

        terms["asks"] = f"test -e {shlex.quote(sentinel)}"
    for key, kind in (("at_close", WindowClose), ("on_failure", FailurePolicy), ("on_conflict", ConflictPolicy)):
        if key in terms:
            terms[key] = kind(terms[key])
    return terms
