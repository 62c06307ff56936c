"""Faults of rollouts: limits, windows, gates, failure, crash."""

from planted.fault import Fault

_ADVANCE = "tests/core/rollouts/test_advance.py"
_STEERING = "tests/core/rollouts/test_steering.py"

FAULTS = (
    Fault(
        name="A wave counts only the host itself towards a group's share",
        promise="No more VMs of a group are on hosts of waves at once than allowed.",
        file="src/forewarn/core/rollouts/limits.py",
        old="            if unavailable + here > allowed:\n",
        new="            if here > allowed:\n",
        found_by=("tests/core/rollouts/test_limits.py",),
    ),
    Fault(
        name="Hosts in waves of other rollouts are taken to be available",
        promise="The limits of a rollout hold across concurrent rollouts.",
        file="src/forewarn/core/rollouts/limits.py",
        old='                self._hosts[host] = f"is in a wave of rollout {rollout.name}"\n',
        new="",
        found_by=("tests/core/rollouts/test_limits.py",),
    ),
    Fault(
        name="An approval before the window starts the event at once",
        promise="An event of a rollout starts inside a maintenance window.",
        file="src/forewarn/core/turns.py",
        old="    return windows.held_until(rollout, now) if rollout and rollout.has_windows else None\n",
        new="    return windows.held_until(rollout, event.not_before) if rollout and rollout.has_windows else None\n",
        found_by=("tests/core/test_scenarios.py",),
    ),
    Fault(
        name="A window opens where clocks show its time for the second time",
        promise="A maintenance window opens when clocks there first show it.",
        file="src/forewarn/core/rollouts/windows.py",
        old="pending.append((quiet_hours.first_shown(begin, period.zone), end))\n",
        new="pending.append((max(quiet_hours._readings(begin, period.zone)), end))\n",
        found_by=("tests/core/rollouts/test_windows.py",),
    ),
    Fault(
        name="The gate is checked before the first wave only",
        promise="No wave begins before its gate was found well.",
        file="src/forewarn/core/rollouts/model.py",
        old="self.terms.alerts) and self.checked <= self.wave\n",
        new="self.terms.alerts) and self.checked < min(self.wave + 1, 1)\n",
        found_by=(_ADVANCE, "tests/node/test_rollout_executor.py"),
    ),
    Fault(
        name="A failed event does not fail its host",
        promise="A host of a rollout fails when one of its events fails.",
        file="src/forewarn/core/rollouts/evolution.py",
        old="            failure = failure or reason\n",
        new="            failure = failure or reason[:0]\n",
        found_by=(_ADVANCE,),
    ),
    Fault(
        name="Cancel leaves what is Scheduled",
        promise="Cancel withdraws what is Scheduled and lets Started events finish.",
        file="src/forewarn/core/rollouts/host_steps.py",
        old="    for event in canceled:\n        yield lifecycle.cancel(",
        new="    for event in canceled[1:]:\n        yield lifecycle.cancel(",
        found_by=(_STEERING,),
    ),
    Fault(
        name="A command on a host is run again after a crash",
        promise="A command on a host is never run twice for the same attempt.",
        file="src/forewarn/node/rollout_executor.py",
        old='        outcome = await self._call("outcome_on_host", command)\n        is_begun = False\n',
        new='        outcome = await self._call("run_on_host", command)\n        is_begun = False\n',
        found_by=("tests/node/test_rollout_executor.py",),
    ),
)
