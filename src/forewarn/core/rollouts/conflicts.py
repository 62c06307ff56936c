"""Rollouts beside each other: which share hosts, and which cannot be started therefore."""

from forewarn.core.fleet import Fleet
from forewarn.core.rollouts.host_steps import run_of
from forewarn.core.rollouts.model import ConflictPolicy, HostStep, Rollout, RolloutState, RolloutTerms

_RESERVED = "plan"


def conflicts(fleet: Fleet, name: str, hosts: tuple[str, ...]) -> dict[str, str]:
    """Return the rollouts that began before this one and share a host with it, each with such a host.

    One that has not begun comes after all others.
    """
    mine = set(hosts)
    found = {}
    for other in fleet.rollouts.values():
        if other.name == name and other.state is not RolloutState.RESTING:
            break  # those that were queued later wait for this one
        shared = next((host for host in other.hosts if host in mine and not _has_ended(fleet, other, host)), "")
        if shared:
            found[other.name] = shared
    return found


def why_refused(fleet: Fleet, name: str, terms: RolloutTerms, hosts: tuple[str, ...]) -> str:
    """Say why a rollout cannot be started beside those that have not ended; empty if it can."""
    if name == _RESERVED:
        return f"no rollout can be named {name}: that is an address of the control API; choose another name"
    if running := fleet.rollouts.get(name):
        return (
            f"rollout {name} is {running.state} already, started by {running.by} at "
            f"{running.started_at:%Y-%m-%dT%H:%M:%SZ}; see 'forewarn rollout show {name}'"
        )
    others = conflicts(fleet, name, hosts)
    if others and terms.on_conflict is ConflictPolicy.REFUSE:
        return (
            f"{queue_reason(others)}; wait until it has ended, leave these hosts out, "
            "or let this one wait: --on-conflict queue"
        )
    return ""


def queue_reason(others: dict[str, str]) -> str:
    """Say which rollout a rollout waits for; nothing if it waits for none."""
    return "; ".join(f"rollout {name} has host {host}" for name, host in others.items())


def _has_ended(fleet: Fleet, rollout: Rollout, host: str) -> bool:
    run = run_of(fleet, rollout, host)
    return run is not None and run.step in (HostStep.DONE, HostStep.SKIPPED)
