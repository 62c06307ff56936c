"""The facts of rollouts as sentences, for history, the log of an emulator and notifications."""

from typing import assert_never

from forewarn.core.rollouts import facts
from forewarn.core.rollouts.facts import RolloutFact
from forewarn.core.rollouts.model import HostStep, RolloutState

_STEPS = {
    HostStep.WAITING: "waits for a wave again",
    HostStep.ASKING: "is asked whether it wants the operation",
    HostStep.PLANNING: "is planned to be drained",
    HostStep.ANNOUNCED: "is announced",
    HostStep.COMMAND: "is drained; the command begins",
    HostStep.SETTLING: "settles",
    HostStep.DONE: "is done",
    HostStep.FAILED: "failed",
    HostStep.SKIPPED: "is skipped",
}


def number_of(count: int, noun: str) -> str:
    """Say how many things there are."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def describe(fact: RolloutFact) -> str:
    """Say what happened to a rollout."""
    match fact:
        case facts.RolloutStarted(rollout=rollout):
            verb = "is queued" if rollout.state is RolloutState.QUEUED else "starts"
            again = f", run {rollout.run}" if rollout.run > 1 else ""
            hosts = number_of(len(rollout.hosts), "host")
            said = f"rollout {rollout.name} {verb}: {rollout.terms.operation} of {hosts}{again}"
            return f"{said}; {rollout.reason}" if rollout.reason else said
        case facts.RolloutEdited(rollout=name, reason=reason):
            return f"rollout {name} is changed: {reason}" if reason else f"rollout {name} is changed"
        case facts.RolloutPaused(rollout=name, reason=reason):
            return f"rollout {name} pauses: {reason}"
        case facts.RolloutResumed(rollout=name, reason=reason):
            return f"rollout {name} goes on: {reason}"
        case facts.RolloutStopping(rollout=name, reason=reason):
            return f"rollout {name} stops: {reason}"
        case facts.RolloutBlocked(rollout=name, reason=reason):
            return f"rollout {name} waits: {reason}" if reason else f"rollout {name} waits for nothing any more"
        case facts.RolloutChecked(rollout=name, wave=wave, passed=passed, detail=detail):
            return f"rollout {name}: wave {wave} {'may begin' if passed else 'may not begin'}: {detail}"
        case facts.RolloutWaveStarted(rollout=name, wave=wave, hosts=hosts):
            return f"rollout {name}: wave {wave} begins: {', '.join(hosts)}"
        case facts.RolloutHostChanged(rollout=name, host=host, step=step, reason=reason):
            said = f"rollout {name}: host {host} {_STEPS[step]}"
            return f"{said}: {reason}" if reason else said
        case facts.RolloutHostFailing(rollout=name, host=host, reason=reason):
            return f"rollout {name}: host {host} waits for its Started events: {reason}"
        case facts.RolloutLate(rollout=name, expected=expected):
            return f"rollout {name} is behind schedule: it was to end by {expected:%Y-%m-%dT%H:%M:%SZ}"
        case facts.RolloutEnded(rollout=name, result=result):
            others = f"{fact.failed} failed, {fact.skipped} skipped, {fact.waiting} not begun"
            said = f"rollout {name} is {result}: {number_of(fact.done, 'host')} done, {others}"
            return f"{said}; {fact.reason}" if fact.reason else said
        case _:
            assert_never(fact)


def name_of(fact: RolloutFact) -> str:
    """Return the name of the rollout that a fact is about."""
    return fact.rollout.name if isinstance(fact, facts.RolloutStarted) else fact.rollout
