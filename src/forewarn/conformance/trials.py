"""Conformance trials of clients, each with a fresh process and a fresh emulator.

A client counts as *not* doing something after it has requested the document a few times more. A client that never
approves is not wrong; trials that need its approvals are then not observed. A client that never requests the
document, or ends, is wrong in every trial that shows nothing else.
"""

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import msgspec

from forewarn.conformance.checks import CheckResult, NotObserved, RuleFinding, RuleOutcome, conclude, require_results
from forewarn.conformance.client_process import NEIGHBOUR, OWN, ClientProcess
from forewarn.emulator.faults import Fault, FaultKind
from forewarn.emulator.handles import EventHandle
from forewarn.emulator.requests import SentRequest
from forewarn.wire.versions import SCHEDULED_EVENTS

_POLLS = 3
"""Polls after which a client that has not acted counts as not acting."""
_WINDOW = timedelta(seconds=2)
_RATE = 5
_AT_ONCE = 4
_EMPTY = 'an event that is Started, with NotBefore ""'

TrialFunction = Callable[[ClientProcess], Iterator[CheckResult]]


class ClientTrial(msgspec.Struct, frozen=True):
    """One trial of a client."""

    promise: str
    play: TrialFunction
    faults: tuple[Fault, ...] = ()
    has_proxy: bool = False
    """Whether its environment sets a proxy. Only one trial does, because a client that uses it reaches nothing."""


def approves_its_own(client: ClientProcess) -> Iterator[CheckResult]:
    client.require()
    event = client.emulator.vm(OWN).reboot()
    if not client.approves(event):
        raise NotObserved(f"it did not approve a Reboot of its VM within {client.patience:g} s; {client.state}")
    reply = client.approvals(event)[0]
    yield CheckResult("an approval that is answered 200", f"{reply.status}", reply.status == 200)


def leaves_others_alone(client: ClientProcess) -> Iterator[CheckResult]:
    client.require()
    event = client.emulator.vm(NEIGHBOUR).reboot()
    client.require(_POLLS)
    yield _not_approved(client, event, "no approval of what happens to another VM only")


def approves_when_prepared(client: ClientProcess) -> Iterator[CheckResult]:
    client.require()
    event = client.emulator.vm(OWN).reboot()
    if not client.approves(event):
        raise NotObserved("it did not approve a Reboot of its VM")
    approved_at = client.approvals(event)[0].at.timestamp()
    prepared_at = client.prepared.stat().st_mtime if client.prepared.exists() else None
    seen = "not prepared" if prepared_at is None else f"prepared {prepared_at - approved_at:+.2f} s after it"
    yield CheckResult("prepared, then approved", seen, prepared_at is not None and prepared_at <= approved_at)


def stands_an_empty_not_before(client: ClientProcess) -> Iterator[CheckResult]:
    client.require()
    client.emulator.vm(OWN).reboot().approve()
    yield _keeps_asking(client, _EMPTY)
    # A client may handle one event after another.
    client.emulator.advance("1h")
    yield from _notices(client, _EMPTY)


def notices_a_cancel(client: ClientProcess) -> Iterator[CheckResult]:
    client.require()
    # The approval fails, so that the event can still be canceled.
    client.emulator.add_fault("500", vm=OWN, method="POST")
    event = client.emulator.vm(OWN).reboot()
    # A client may retry its approval, without requests for the document meanwhile.
    if not client.does_approve or not client.approves(event):
        client.require(_POLLS)
    event.cancel()
    client.emulator.clear_faults()
    client.require(_POLLS)
    known = len(client.approvals(event))
    client.require(_POLLS)
    more = len(client.approvals(event)) - known
    yield CheckResult("no approval once it is gone", f"{more} approvals" if more else "none", not more)
    yield _keeps_asking(client, "an event that was canceled")
    yield from _notices(client, "an event that was canceled")


def compares_incarnations_for_equality(client: ClientProcess) -> Iterator[CheckResult]:
    client.require()
    for _ in range(_POLLS):
        client.emulator.vm(NEIGHBOUR).reboot().cancel()
    client.require(2)
    # Azure: a group without requests for a day is switched off, and its incarnation begins anew.
    client.pass_time("25h")
    client.require(2)
    yield from require_results(
        _notices(client, "the incarnation fell"), "it approves nothing, so what it notices is not seen"
    )


def asks_with_the_header(client: ClientProcess) -> Iterator[CheckResult]:
    for request in _asked(client):
        value = request.headers.get("metadata", "")
        yield CheckResult("Metadata: true", f"Metadata: {value}" if value else "none", value.lower() == "true")


def asks_a_known_version(client: ClientProcess) -> Iterator[CheckResult]:
    for request in _asked(client):
        version = request.api_version
        yield CheckResult(
            f"one of {', '.join(SCHEDULED_EVENTS.names)}", version or "none", version in SCHEDULED_EVENTS.known
        )


def asks_without_a_proxy(client: ClientProcess) -> Iterator[CheckResult]:
    client.asks(_POLLS)
    callers = client.trap.callers
    if not callers:
        client.require()
    yield CheckResult("no request to the proxy of its environment", f"{callers} came", not callers)


def asks_at_most_5_a_second(client: ClientProcess) -> Iterator[CheckResult]:
    client.require()
    client.emulator.wait_for(lambda: False, _WINDOW.total_seconds() * 1.5)
    times = [each.at for each in client.requests]
    busiest = max(sum(start <= at < start + _WINDOW for at in times) for start in times)
    seconds = _WINDOW.seconds
    yield CheckResult(f"at most {_RATE * seconds} requests in {seconds} s", str(busiest), busiest <= _RATE * seconds)


def _stands(kind: FaultKind) -> TrialFunction:
    def play(client: ClientProcess) -> Iterator[CheckResult]:
        client.require()
        client.emulator.add_fault(kind, vm=OWN, times=2)
        # End the long poll of a waiting client, so that it sends another request.
        client.emulator.vm(NEIGHBOUR).reboot()
        yield _keeps_asking(client, kind)
        yield from _notices(client, kind)

    return play


def _keeps_asking(client: ClientProcess, after: str) -> CheckResult:
    asks = client.asks(_POLLS)
    return CheckResult(f"it goes on asking after {after}", "it goes on" if asks else _stopped(client), asks)


def _notices(client: ClientProcess, after: str) -> Iterator[CheckResult]:
    """Check whether it notices another event; only for a client that approves, which is the only evidence."""
    if client.does_approve:
        approves = client.approves(client.emulator.vm(OWN).redeploy())
        seen_so = "it approves it" if approves else f"it does not approve it; {client.state}"
        yield CheckResult(f"it notices an event after {after}", seen_so, approves)


def _stopped(client: ClientProcess) -> str:
    return client.state if client.exit_code is not None else f"it runs, and did not ask for {client.patience:g} s"


def _not_approved(client: ClientProcess, event: EventHandle, expected: str) -> CheckResult:
    approvals = client.approvals(event)
    return CheckResult(expected, "it approved it" if approvals else "none", not approvals)


def _asked(client: ClientProcess) -> list[SentRequest]:
    client.asks(_POLLS)
    if not client.polls:
        client.require()
    return client.polls


_RESET = Fault(FaultKind.INCARNATION_RESET)
TRIALS = {
    "approves-its-own": ClientTrial("It approves an event of its own VM once it has prepared.", approves_its_own),
    "approves-when-prepared": ClientTrial("It approves after it has prepared, not before.", approves_when_prepared),
    "leaves-others-alone": ClientTrial("It does not approve an event that is not its own VM's.", leaves_others_alone),
    "stands-an-empty-not-before": ClientTrial(
        'It goes on when NotBefore is "", as in every event that is Started.', stands_an_empty_not_before
    ),
    "notices-a-cancel": ClientTrial("It forgets an event that is gone without having started.", notices_a_cancel),
    "compares-incarnations-for-equality": ClientTrial(
        "It takes a document for new when its incarnation is another, be it lower.",
        compares_incarnations_for_equality,
        (_RESET,),
    ),
    "asks-with-the-header": ClientTrial("Every request has the header Metadata: true.", asks_with_the_header),
    "asks-a-known-version": ClientTrial("Every request names an api-version that there is.", asks_a_known_version),
    "asks-without-a-proxy": ClientTrial(
        "It asks the endpoint itself, whatever proxy its environment names.", asks_without_a_proxy, has_proxy=True
    ),
    "asks-at-most-5-a-second": ClientTrial("It asks at most 5 times a second.", asks_at_most_5_a_second),
} | {
    f"stands-{kind}": ClientTrial(f"It goes on after {kind}: {reason}", _stands(kind))
    for kind, reason in (
        (FaultKind.NOT_FOUND, "the endpoint is being updated."),
        (FaultKind.GONE, "the service is being updated."),
        (FaultKind.TOO_MANY_REQUESTS, "it, or another on its VM, asked too often."),
        (FaultKind.INTERNAL_ERROR, "the service has a problem."),
        (FaultKind.RESET, "the connection broke."),
        (FaultKind.EMPTY_BODY, "nothing came."),
        (FaultKind.HALF_BODY, "not all came."),
    )
}
"""Every trial, by name."""
_FIRST = "approves-its-own"


def try_out(command: str, *, patience: float = 10.0, only: Collection[str] = ()) -> list[RuleFinding]:
    """Run the trials, several at once; return the findings in the order of the trials."""
    # The other trials depend on its result.
    first = _tried(_FIRST, command, patience, does_approve=False)
    does_approve = first.outcome is not RuleOutcome.NOT_SEEN
    rest = [name for name in TRIALS if name != _FIRST and (not only or name in only)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        others = pool.map(lambda name: _tried(name, command, patience, does_approve=does_approve), rest)
        return [first, *others] if not only or _FIRST in only else list(others)


def _tried(name: str, command: str, patience: float, *, does_approve: bool) -> RuleFinding:
    trial = TRIALS[name]
    if trial.play is approves_when_prepared and "{prepared}" not in command:
        why = "the command has no {prepared}: the file that the client makes when it has prepared"
        return RuleFinding(name, RuleOutcome.NOT_SEEN, trial.promise, why)
    with ClientProcess(
        command, patience=patience, faults=trial.faults, has_proxy=trial.has_proxy, does_approve=does_approve
    ) as client:
        finding = conclude(name, trial.promise, trial.play(client))
        if finding.outcome is RuleOutcome.NOT_SEEN and (not client.polls or client.exit_code is not None):
            return RuleFinding(name, RuleOutcome.BREACH, "a client that runs and asks for the document", finding.seen)
        return finding
