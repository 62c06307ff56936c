"""What is refused of a rollout before anything is announced, each with its remedy."""

import re
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from forewarn.core.errors import Refused
from forewarn.core.event_types import ANNOUNCEMENTS
from forewarn.core.fleet import Fleet
from forewarn.core.notice import Rules, check_line
from forewarn.core.rollouts import windows
from forewarn.core.rollouts.limits import Occupancy, allowed_hosts, event_operation, least_share, why_left_out
from forewarn.core.rollouts.model import FailurePolicy, HealthGate, RolloutOperation, RolloutOrder, RolloutTerms
from forewarn.core.rollouts.selection import FAULT_DOMAIN
from forewarn.core.rollouts.sentences import number_of
from forewarn.core.terms import LONGEST_IMPACT

THRESHOLD = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(-?\d+(?:\.\d+)?(?:[eE]-?\d+)?)\s*")
"""How a threshold is written: a comparison and a number."""
_DURATIONS = ("settle", "canary_settle", "lead", "expected", "host_limit", "every")
_LONGEST = 366 * 24 * 3600
_MOST = 1_000_000
"""Hosts that a limit may count."""
_UNKNOWN_IMPACT = 60
"""Seconds that one host is taken to need while nothing is recorded."""


def check_terms(
    fleet: Fleet,
    terms: RolloutTerms,
    hosts: tuple[str, ...],
    now: datetime,
    rules: Rules,
    *,
    runs_commands: bool,
    recorded: float,
) -> None:
    """Refuse what contradicts itself, cannot be done, or could never be satisfied on this fleet.

    ``recorded`` are the seconds that one host took earlier; 0 if that is unknown.
    """
    _check_numbers(terms)
    _check_command(terms, runs_commands=runs_commands)
    check_gate(terms)
    if terms.description:
        check_line("a description", terms.description)
    lasts = timedelta(seconds=expected_length(terms, rules, recorded))
    windows.check(terms.windows, rules.maintenance_windows, now, lasts)
    present = tuple(host for host in hosts if host in fleet.hosts)
    if all(why_left_out(fleet, terms, host) for host in present):
        reason = why_left_out(fleet, terms, hosts[0])
        raise Refused(f"no host is left: {hosts[0]}: {reason}; choose other hosts")
    _check_limits(fleet, terms, present)


def expected_length(terms: RolloutTerms, rules: Rules, recorded: float) -> float:
    """Return the seconds that one host is expected to take, once its events may start; what is stated wins."""
    announced = ANNOUNCEMENTS[event_operation(terms.operation)].duration
    seconds = announced if announced > 0 else _UNKNOWN_IMPACT
    return terms.expected / rules.hurry or recorded or seconds / rules.hurry + command_length(terms, rules)


def command_length(terms: RolloutTerms, rules: Rules, recorded: float = 0.0) -> float:
    """Return the seconds of these that the command on a drained host is expected to take."""
    if terms.operation is not RolloutOperation.COMMAND:
        return 0.0
    seconds = recorded or _UNKNOWN_IMPACT / rules.hurry
    return min(seconds, terms.expected / rules.hurry) if terms.expected else seconds


def _check_numbers(terms: RolloutTerms) -> None:
    if terms.parallel < 1 or any(count < 1 for count in terms.parallel_per.values()):
        raise Refused("at least one host must be allowed at once; give --parallel 1 or more")
    for name in ("fleet_share", "group_share"):
        if not 0 < getattr(terms, name) <= 1:
            raise Refused(f"{name} must be above 0% and at most 100%; it is {getattr(terms, name):.0%}")
    for name in _DURATIONS:
        if not 0 <= getattr(terms, name) <= _LONGEST:
            raise Refused(f"{name} must be from 0 to {_LONGEST} s")
    if terms.max_failures < 0 or terms.canary < 0:
        raise Refused("max_failures and canary must not be below 0")
    if max(terms.parallel, terms.canary, terms.max_failures, *terms.parallel_per.values()) > _MOST:
        raise Refused(f"parallel, parallel_per, canary and max_failures must be at most {_MOST}")
    if terms.max_failures and terms.on_failure is FailurePolicy.SKIP:
        raise Refused("with on_failure = skip any number of hosts may fail; leave max_failures out, or pause or stop")
    if terms.canary and terms.canary_hosts:
        raise Refused("canary is given as a number and as names; leave one of them out")
    if (terms.order is RolloutOrder.LABEL) != bool(terms.order_label):
        raise Refused("the order by label needs the label: --order label:KEY")


def _check_command(terms: RolloutTerms, *, runs_commands: bool) -> None:
    if (terms.operation is RolloutOperation.COMMAND) != bool(terms.command):
        raise Refused("the operation command and --command TEXT go together; give both or neither")
    for text in filter(None, (terms.command, terms.asks)):
        check_line("a command", text)
    if not 1 <= terms.command_timeout <= LONGEST_IMPACT:
        raise Refused(f"command_timeout must be from 1 to {LONGEST_IMPACT} s")
    if (terms.command or terms.asks) and not runs_commands:
        raise Refused(
            "the driver cannot run commands on hosts; set host_program in [driver_settings] "
            "to a program that runs them, or choose another operation"
        )


def check_gate(terms: RolloutTerms) -> None:
    """Refuse a gate, or alerts, that cannot be asked for as they are written."""
    gate = terms.gate
    if terms.alerts or (gate and gate.query):
        _check_url("the address of Prometheus", terms.prometheus, "give it: --prometheus http://HOST:9090")
    if gate is None:
        return
    if sum(map(bool, (gate.command.strip(), gate.url, gate.query))) != 1:
        raise Refused("a gate is a command, a URL or a query; give exactly one of them")
    if gate.url:
        _check_url("the gate's URL", gate.url, "write it like http://HOST/health")
    if bool(gate.query) != bool(gate.threshold):
        raise Refused("a query and its threshold go together: --gate-query QUERY --gate-threshold '<0.01'")
    if gate.query:
        read_threshold(gate)
    if not 1 <= gate.timeout <= 3600:
        raise Refused("the gate's timeout must be from 1 to 3600 s")


def read_threshold(gate: HealthGate) -> tuple[str, float]:
    """Return the comparison and the number that a query's result is held against."""
    found = THRESHOLD.fullmatch(gate.threshold)
    if not found:
        raise Refused(f"threshold {gate.threshold!r} cannot be read; write it like '<0.01' or '>=3'")
    return found[1], float(found[2])


def _check_url(what: str, url: str, remedy: str) -> None:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # as for a bracket that is not closed
        is_address = False
    if not is_address:
        raise Refused(f"{what} {url!r} is no web address; {remedy}")


def _check_limits(fleet: Fleet, terms: RolloutTerms, hosts: tuple[str, ...]) -> None:
    total = len(fleet.hosts)
    if allowed_hosts(terms, total) < 1:
        raise Refused(
            f"a share of {terms.fleet_share:.0%} of {number_of(total, 'host')} is less than one host, so that none "
            f"could ever be maintained; give --fleet-share {least_share(total)} or more"
        )
    for label in terms.parallel_per:
        if label != FAULT_DOMAIN and not any(label in fleet.hosts[host].labels for host in hosts):
            raise Refused(f"no host of the rollout has a label {label!r}; name another, or leave the limit out")
    occupancy = Occupancy(fleet, terms)
    for host in hosts:
        if not why_left_out(fleet, terms, host) and (reason := occupancy.alone_against(host)):
            raise Refused(reason)
