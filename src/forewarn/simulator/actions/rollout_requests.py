"""What operators ask of rollouts."""

from forewarn.simulator.actions.planned_action import PlannedAction


class RequestRollout(PlannedAction, frozen=True, kw_only=True):
    """Start a rollout; its terms as JSON, without blanks."""

    sentence = "{who} starts rollout {rollout} with {terms} with key {key}"
    who: str
    rollout: str
    terms: str
    key: str


class RequestRolloutChange(PlannedAction, frozen=True, kw_only=True):
    """Steer a rollout; ``withdraw`` pauses it and withdraws what is Scheduled."""

    sentence = "{who} wants to {verb} rollout {rollout} with key {key}"
    chosen = "verb"
    choices = ("pause", "withdraw", "resume", "cancel", "retry")
    who: str
    verb: str
    rollout: str
    key: str


class RequestRolloutSkip(PlannedAction, frozen=True, kw_only=True):
    """Leave a host out of a rollout."""

    sentence = "{who} lets rollout {rollout} skip {host} with key {key}"
    who: str
    rollout: str
    host: str
    key: str


class RequestRolloutEdit(PlannedAction, frozen=True, kw_only=True):
    """Change the terms of a rollout; what changes as JSON, without blanks."""

    sentence = "{who} edits rollout {rollout} to {terms} with key {key}"
    who: str
    rollout: str
    terms: str
    key: str


class TryRollout(PlannedAction, frozen=True, kw_only=True):
    """Have a rollout planned, without starting it."""

    sentence = "{who} plans rollout {rollout} with {terms}"
    who: str
    rollout: str
    terms: str
